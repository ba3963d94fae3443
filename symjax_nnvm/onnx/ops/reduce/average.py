"""average and percentile have no ONNX form."""

from __future__ import annotations

from symjax_nnvm.onnx.forms import refuses

refuses(
    "_npi_average", reason="this library has no ONNX form of a weighted mean", fix="Write it as sums and a division."
)
refuses(
    "_npi_percentile",
    reason="this library has no ONNX form of a percentile",
    fix="Sort with topk and take the element.",
)
refuses("_weights_like", reason="it is part of a gradient, and a file holds what a network computes at inference")
