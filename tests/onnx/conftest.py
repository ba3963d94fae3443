"""Mistakes of our own are not taken for a file's: where the models are valid, nothing that a form raises is caught."""

from __future__ import annotations

import pytest

from symjax_nnvm.onnx.imports import reader


@pytest.fixture(autouse=True)
def mistakes_of_our_own_escape(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest):
    """In every file of tests but those of hostile models."""
    if "hostile" not in request.module.__name__:
        monkeypatch.setattr(reader, "OF_FORMS", ())
