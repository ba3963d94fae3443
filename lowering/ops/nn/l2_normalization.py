"""JAX rules of L2Normalization."""

from __future__ import annotations

from jax import Array

from lowering.core.rules import lowers
from lowering.norms import norm
from lowering.ops.wide import wide
from symjax_nnvm.ops.nn import l2_normalization as ops
from symjax_nnvm.ops.reduce.reduction import reduced_axes


@lowers("L2Normalization")
def _l2_normalization(p: ops.L2NormalizationParams, data: Array) -> tuple[Array, Array]:
    length = norm(data, axes=reduced_axes(ops.norm_reduction(p), data.ndim), keepdims=True, plus=p.eps)
    return (wide(data) / length).astype(data.dtype), length.astype(data.dtype)
