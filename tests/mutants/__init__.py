"""Mutants: wrong lines made on purpose, and whether the tests find them."""
