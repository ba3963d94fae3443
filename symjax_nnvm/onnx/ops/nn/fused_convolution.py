"""Convolutions and dense layers with what follows them have no ONNX form: a runtime fuses, and lays weights, itself."""

from __future__ import annotations

from symjax_nnvm.onnx.forms import refuses

refuses(
    *("_blocked_weight", "_fused_convolution", "_fused_fully_connected"),
    reason="it is what a library of this platform takes, and a runtime has its own",
    fix="Export the network with its Convolution and FullyConnected, as it was before the stage FuseConvolution.",
)
