"""Tests of the printer of plain JAX."""
