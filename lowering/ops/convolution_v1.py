"""The JAX rule of Convolution_v1: Convolution's."""

from __future__ import annotations

from lowering.ops import convolution as convolution
from lowering.registry import FLowering, lowers
from symjax_nnvm.ir.op import Op

lowers("Convolution_v1")(FLowering[Op.get("Convolution")].rule)
