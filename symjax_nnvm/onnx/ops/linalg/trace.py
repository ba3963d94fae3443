"""trace has no ONNX form."""

from __future__ import annotations

from symjax_nnvm.onnx.forms import refuses

refuses("_np_trace", reason="this library has no ONNX form of a trace", fix="Use _npi_einsum with the subscripts ii.")
