"""Drawings of boxes and arrows have contents and a layout, and are written as DOT or SVG."""
