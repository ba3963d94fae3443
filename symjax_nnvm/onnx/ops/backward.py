"""Backward operators have no ONNX form: a file holds what a network computes, and no gradients."""

from __future__ import annotations

from symjax_nnvm.ir.op import list_unique_ops
from symjax_nnvm.onnx.forms import FOnnx, refuses

refuses(
    *(op.name for op in list_unique_ops() if op.name.startswith("_backward_") and op not in FOnnx),
    reason="it is part of a gradient, and a file holds what a network computes at inference",
    fix="Export the network itself, not its gradient.",
)
