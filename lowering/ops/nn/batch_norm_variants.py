"""JAX rules of BatchNorm_v1, SyncBatchNorm and BatchNormWithReLU."""

from __future__ import annotations

from typing import Any

from jax import Array, lax

from lowering.core.rules import lowers
from lowering.ops.nn.batch_norm import normalise_batch
from symjax_nnvm.ops.nn import batch_norm_variants as ops
from symjax_nnvm.ops.nn.batch_norm import BatchNormParams


@lowers("BatchNorm_v1", "_contrib_SyncBatchNorm", needs=("is_train", "platform", "mesh"))
def _batch_norm_v1(p: ops.BatchNormV1Params, *inputs: Array, **extra: Any) -> tuple[Array, ...]:
    return normalise_batch(p, *inputs, **extra)


@lowers("_contrib_BatchNormWithReLU", needs=("is_train", "platform", "mesh"))
def _batch_norm_with_relu(p: BatchNormParams, *inputs: Array, **extra: Any) -> tuple[Array, ...]:
    out, mean, variance, *moving = normalise_batch(p, *inputs, **extra)
    return lax.max(out, lax.full_like(out, 0)), mean, lax.rsqrt(variance + p.eps), *moving
