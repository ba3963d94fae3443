"""Draws from what is listed have no ONNX form: its Multinomial takes only float32 and one axis of distributions."""

from __future__ import annotations

from symjax_nnvm.onnx.forms import refuses
from symjax_nnvm.onnx.ops.random.distributions import FIX, ONLY

refuses("_sample_multinomial", "_sample_unique_zipfian", "_shuffle", reason=ONLY, fix=FIX)
refuses(
    "_probability_of_draw", reason="it is part of a gradient, and a file holds what a network computes at inference"
)
