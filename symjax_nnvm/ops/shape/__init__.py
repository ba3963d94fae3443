"""Shapes, orders of axes, parts and repetitions of arrays."""
