"""This package has native code that JAX does not promise to keep: its names, and its trials in a child process before
it is used."""
