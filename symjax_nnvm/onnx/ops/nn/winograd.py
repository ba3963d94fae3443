"""Winograd's convolution has no ONNX form: it is an algorithm of ours, and a runtime chooses its own."""

from __future__ import annotations

from symjax_nnvm.onnx.forms import refuses

refuses(
    *("_winograd_weight", "_winograd_convolution"),
    reason="it is one algorithm for a convolution, which a runtime chooses for itself",
    fix="Export the network with its Convolution, as it was before the stage TransformWeights.",
)
