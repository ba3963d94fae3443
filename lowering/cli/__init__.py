"""The subcommands of `symjax-nnvm` that need JAX: run, verify, convert. `symjax_nnvm.cli` chooses among all of them."""
