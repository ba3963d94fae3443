"""JAX rules: vision."""
