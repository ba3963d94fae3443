"""JAX rules: linear algebra."""
