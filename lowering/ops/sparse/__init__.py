"""JAX rules: sparse storage."""
