"""JAX rules: layers."""
