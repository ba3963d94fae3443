"""MXNet's NumPy dialect is not here; the import error says what to use."""

from lowering.messages.migration_hints import missing_module

raise missing_module("npx")
