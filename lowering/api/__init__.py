"""A symbol as a function: `to_jax`, `compile`, `grad_fn`, `explain`, `tune`."""
