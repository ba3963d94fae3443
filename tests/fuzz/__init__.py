"""Fuzzing of everything that reads files, as properties over Hypothesis: `targets.py` states them."""
