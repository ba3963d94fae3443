"""bincount has no ONNX form."""

from __future__ import annotations

from symjax_nnvm.onnx.forms import refuses

refuses(
    "_npi_bincount",
    reason="the length of its result depends on values",
    fix="Where the largest number is known, sum one_hot of the data over its first axis.",
)
