"""polyval has no ONNX form."""

from __future__ import annotations

from symjax_nnvm.onnx.forms import refuses

refuses("_npi_polyval", reason="this library has no ONNX form of a polynomial", fix="Write it as products and sums.")
refuses("_polynomial_derivative", reason="it is part of a gradient, and a file holds what a network computes")
