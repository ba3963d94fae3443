"""JAX rules: indexing."""
