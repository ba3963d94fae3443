"""The subcommands of `symjax-nnvm` that need JAX: run, verify, tune, convert. `symjax_nnvm.cli` has all their names."""
