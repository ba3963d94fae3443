"""MXNet's operators made by TVM are not supported; the import error names the replacement."""

from lowering.messages.migration_hints import missing_module

raise missing_module("tvmop")
