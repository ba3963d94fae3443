"""JAX rules: random draws."""
