"""Small programs on the host, without a compiler: a jaxpr evaluated by NumPy, until compiling it pays."""
