"""How an array is split over devices is nothing that an ONNX file says: the array is handed on."""

from __future__ import annotations

from symjax_nnvm.onnx.forms import identity, onnx_form

onnx_form("_sharding_constraint")(identity)
