"""The JAX rule of IdentityAttachKLSparseReg."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from symjax_nnvm.ops.loss import kl_sparse_reg as ops


@lowers("IdentityAttachKLSparseReg", needs=("is_train",))
def _identity_attach_kl_sparse_reg(
    p: ops.KLSparseRegParams, data: Array, moving_avg: Array, *, is_train: bool
) -> tuple[Array, Array, Array]:
    average = moving_avg
    if is_train:
        units = [axis for axis in range(data.ndim) if axis != 1]
        mean = jnp.mean(data.astype(moving_avg.dtype), units)
        average = lax.stop_gradient(moving_avg * p.momentum + mean * (1 - p.momentum))
    return data, average, average
