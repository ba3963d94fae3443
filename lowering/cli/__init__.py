"""This package has the subcommands of `symjax-nnvm` that need JAX: run, verify, tune, env, convert. `symjax_nnvm.cli`
names them all."""
