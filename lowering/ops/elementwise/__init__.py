"""JAX rules: elementwise functions."""
