"""ONNX forms of the operators whose gradient is deliberately not their derivative: their values are those of others."""

from __future__ import annotations

from symjax_nnvm.ir.op import Op
from symjax_nnvm.onnx.forms import FOnnx
from symjax_nnvm.onnx.ops.elementwise import unary as unary  # registers the forms that are shared

for _name, _same in (
    ("_contrib_round_ste", "round"),
    ("_contrib_sign_ste", "sign"),
    ("_contrib_gradientmultiplier", "_copy"),
):
    Op.get(_name).set_attr("FOnnx", FOnnx[Op.get(_same)])
