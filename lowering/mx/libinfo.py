"""`mx.libinfo`: the MXNet whose namespace this is."""

from __future__ import annotations

from lowering.messages.migration_hints import unknown_attribute

__version__ = "1.9.1"
"""The version of MXNet."""


def __getattr__(name: str) -> object:
    unknown_attribute("mx.libinfo", name, sorted(globals()))
