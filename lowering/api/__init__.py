"""This package makes a function of a symbol: `to_jax`, `compile`, `grad_fn`, `explain`, `tune`."""
