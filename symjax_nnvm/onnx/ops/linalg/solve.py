"""ONNX forms of determinants; ONNX solves no equations."""

from __future__ import annotations

from typing import Any

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form, refuses
from symjax_nnvm.onnx.tensors import Tensor


@onnx_form("_linalg_det")
def _det(g: Builder, p: Any, a: Tensor) -> Tensor:
    return g.reshape_as(g.op("Det", a), g.outs[0])


@onnx_form("_linalg_slogdet")
def _slogdet(g: Builder, p: Any, a: Tensor) -> list[Tensor]:
    det = g.reshape_as(g.op("Det", a), g.outs[0])
    return [g.op("Sign", det), g.op("Log", g.op("Abs", det))]


refuses(
    *("_linalg_trsm", "_linalg_inverse"),
    reason="ONNX has no operator that solves linear equations",
    fix="Where the matrix is a constant, invert it before and multiply.",
)
