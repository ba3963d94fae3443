"""Native help that JAX does not promise: its names, and what a child process tries before it is used."""
