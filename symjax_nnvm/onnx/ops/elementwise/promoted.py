"""ONNX forms of the functions of two broadcast arrays in the NumPy dialect."""

from __future__ import annotations

from typing import Any

from symjax_nnvm.ir.rules.promotion import promoted
from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import Form, onnx_form, refuses
from symjax_nnvm.onnx.ops.elementwise.binary import ALL_FUNCTIONS
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.elementwise.promoted import MIXING, NUMPY

BITS_OPSET = 18
"""The first version of ONNX' operators with bits of whole numbers."""


def _form(name: str) -> Form:
    mixing = MIXING.get(name)

    def form(g: Builder, p: Any, lhs: Tensor, rhs: Tensor) -> Tensor:
        if mixing is not None:
            dtype = promoted(lhs.dtype, rhs.dtype, mixing)
            lhs, rhs = g.cast(lhs, dtype), g.cast(rhs, dtype)
        if mixing == "all" and lhs.dtype == "bool":
            return g.op("And" if name == "mul" else "Or", lhs, g.op("Not", rhs) if name == "power" else rhs)
        return g.cast(ALL_FUNCTIONS[name](g, lhs, rhs), g.outs[0].dtype)

    return form


for _name, _operator in NUMPY.items():
    if _name in ALL_FUNCTIONS:
        onnx_form(_operator, opset=BITS_OPSET if _name.startswith("bitwise") else 0)(_form(_name))

refuses("_npi_lcm", "_npi_lcm_scalar", reason="ONNX has no operator for a least common multiple")
