"""JAX rule of Dropout."""

from __future__ import annotations

from typing import Any

import jax
from jax import Array, lax

from lowering.core.rules import lowers
from symjax_nnvm.ops.nn import dropout as ops


@lowers("Dropout", needs=("key",))
def _dropout(p: ops.DropoutParams, data: Array, *, key: Any) -> tuple[Array, Array]:
    shape = ops.mask_shape(p, data.shape)
    if key is None:
        return data, lax.full(shape, 1, data.dtype)
    keep_mask = jax.random.bernoulli(key, 1 - p.p, shape)
    factor = 1 / (1 - p.p) if p.p < 1 else 0
    mask = lax.select(keep_mask, lax.full(shape, factor, data.dtype), lax.full(shape, 0, data.dtype))
    return data * mask, mask
