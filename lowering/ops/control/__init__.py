"""JAX rules: control flow."""
