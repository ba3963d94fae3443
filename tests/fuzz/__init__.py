"""Fuzzing of everything that reads files: targets, a seed corpus made by our own code, mutations, and a runner."""
