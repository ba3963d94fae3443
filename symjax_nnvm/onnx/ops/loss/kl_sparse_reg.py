"""The ONNX form of IdentityAttachKLSparseReg: its data."""

from __future__ import annotations

from symjax_nnvm.onnx.forms import identity, onnx_form

onnx_form("IdentityAttachKLSparseReg")(identity)
