"""A network as a drawing."""
