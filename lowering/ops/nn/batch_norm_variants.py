"""JAX rules of BatchNorm_v1, SyncBatchNorm and BatchNormWithReLU."""

from __future__ import annotations

from jax import Array, lax

from lowering.ops.nn.batch_norm import normalise_batch
from lowering.registry import lowers
from symjax_nnvm.ops.nn import batch_norm_variants as ops
from symjax_nnvm.ops.nn.batch_norm import BatchNormParams


@lowers("BatchNorm_v1", "_contrib_SyncBatchNorm", needs=("is_train", "platform"))
def _batch_norm_v1(p: ops.BatchNormV1Params, *inputs: Array, is_train: bool, platform: str) -> tuple[Array, ...]:
    return normalise_batch(p, *inputs, is_train=is_train, platform=platform)


@lowers("_contrib_BatchNormWithReLU", needs=("is_train", "platform"))
def _batch_norm_with_relu(p: BatchNormParams, *inputs: Array, is_train: bool, platform: str) -> tuple[Array, ...]:
    out, mean, variance, *moving = normalise_batch(p, *inputs, is_train=is_train, platform=platform)
    return lax.max(out, lax.full_like(out, 0)), mean, lax.rsqrt(variance + p.eps), *moving
