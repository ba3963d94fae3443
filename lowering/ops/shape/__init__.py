"""JAX rules: shapes."""
