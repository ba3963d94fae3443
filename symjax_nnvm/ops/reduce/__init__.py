"""Reductions over axes, and running sums."""
