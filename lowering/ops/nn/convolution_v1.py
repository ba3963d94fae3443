"""The JAX rule of Convolution_v1: Convolution's."""

from __future__ import annotations

from lowering.ops.nn.convolution import convolution
from lowering.registry import lowers

lowers("Convolution_v1", needs=("algorithm",))(convolution)
