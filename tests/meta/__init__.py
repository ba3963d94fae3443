"""Checks of the repository itself: its imports, pages, examples, generated files."""
