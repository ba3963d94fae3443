"""This package makes one pure JAX function of a graph: rules, the order of steps, shapes and dtypes, programs and their
cache."""
