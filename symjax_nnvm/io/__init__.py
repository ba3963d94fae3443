"""This package writes and reads every byte of files, guesses their kinds, and has symbols as JSON."""
