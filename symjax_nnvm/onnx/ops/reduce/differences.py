"""ONNX forms of the differences of neighbours: none is written."""

from __future__ import annotations

from symjax_nnvm.onnx.forms import refuses

refuses(
    *("_npi_diff", "_npi_ediff1d"),
    reason="this library has no ONNX form of differences",
    fix="Subtract two slices of the array.",
)
