"""Custom has no ONNX form of its own: the author of an operator may register one."""

from __future__ import annotations

from symjax_nnvm.onnx.forms import refuses

refuses(
    "Custom",
    reason="it calls Python code of the user",
    fix="Write it with other operators, or register a form for the operator that stands for it.",
)
