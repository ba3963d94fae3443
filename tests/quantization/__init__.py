"""Tests of models of 8-bit integers, made of models of floats."""
