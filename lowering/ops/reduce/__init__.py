"""JAX rules: reductions."""
