"""The JAX rule of Convolution_v1: Convolution's."""

from __future__ import annotations

from lowering.core.rules import lowers
from lowering.ops.nn.convolution import convolution

lowers("Convolution_v1", needs=("algorithm",))(convolution)
