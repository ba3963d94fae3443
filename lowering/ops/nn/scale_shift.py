"""JAX rule of the scale and shift that BatchNorm is where it does not train."""

from __future__ import annotations

from jax import Array, lax

from lowering.core.rules import lowers
from symjax_nnvm.ir.rules.axes import normal_axis
from symjax_nnvm.ops.nn.scale_shift import ScaleShiftParams


@lowers("_scale_shift")
def _scale_shift(p: ScaleShiftParams, data: Array, scale: Array, shift: Array) -> Array:
    axis = normal_axis(p.axis, data.ndim)
    others = [i for i in range(data.ndim) if i != axis]
    out = data.astype(scale.dtype) * lax.expand_dims(scale, others) + lax.expand_dims(shift, others)
    return out.astype(data.dtype)
