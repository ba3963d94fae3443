"""This package sets how XLA compiles and runs: options, platforms, memory of the host, library calls, a core for each
part of a batch."""
