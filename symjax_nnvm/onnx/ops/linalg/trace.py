"""trace has no ONNX form."""

from __future__ import annotations

from symjax_nnvm.onnx.forms import refuses

refuses("_np_trace", reason="no form of a diagonal's sum is written", fix="Use _npi_einsum with the subscripts ii.")
