"""A symbol as JSON text, of every MXNet generation, and back."""
