"""average and percentile have no ONNX form."""

from __future__ import annotations

from symjax_nnvm.onnx.forms import refuses

refuses("_npi_average", reason="no form of a weighted mean is written", fix="Write it as sums and a division.")
refuses(
    "_npi_percentile", reason="no form of an order's element is written", fix="Sort with topk and take the element."
)
refuses("_weights_like", reason="it is part of a gradient, and a file holds what a network computes at inference")
