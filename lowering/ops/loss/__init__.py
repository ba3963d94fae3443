"""JAX rules: losses."""
