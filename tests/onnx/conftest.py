"""What every test of ONNX begins with and leaves behind."""

import pytest

from symjax_nnvm.onnx.imports import import_registry as forms
from symjax_nnvm.onnx.imports import reader


@pytest.fixture(autouse=True)
def mistakes_of_our_own_escape(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest):
    """Mistakes of our own are not taken for a file's: where the models are valid, nothing that a form raises is caught.
    Files of hostile models are the exception."""
    if "hostile" not in request.module.__name__:
        monkeypatch.setattr(reader, "OF_FORMS", ())


@pytest.fixture(autouse=True)
def forms_of_tests_are_forgotten(monkeypatch: pytest.MonkeyPatch):
    """A form that a test registers is gone after it: the next test would read models by it."""
    monkeypatch.setattr(forms, "_IMPORTS", {kind: [*rows] for kind, rows in forms._IMPORTS.items()})
