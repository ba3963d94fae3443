"""JAX rules: image."""
