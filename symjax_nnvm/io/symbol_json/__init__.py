"""A symbol is written as JSON text, of every MXNet generation, and read from it."""
