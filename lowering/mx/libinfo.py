"""`mx.libinfo`: the MXNet whose namespace this is."""

__version__ = "1.9.1"
"""The version of MXNet."""
