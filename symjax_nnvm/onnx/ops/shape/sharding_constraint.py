"""An ONNX file cannot store how an array is split over devices: the operator becomes an identity."""

from __future__ import annotations

from symjax_nnvm.onnx.forms import identity, onnx_form

onnx_form("_sharding_constraint")(identity)
