"""JAX rules: creation."""
