"""JAX rules of batch normalisation and of what its gradient is composed of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from lowering.core.mesh_parts import laid_out
from lowering.core.rules import lowers
from lowering.ops.nn.column_sums import column_sums
from symjax_nnvm.ir.rules.axes import normal_axis
from symjax_nnvm.ops.nn import batch_norm as ops


def _along(vector: Array, axis: int, ndim: int) -> Array:
    """Return a vector, shaped to be broadcast along an axis."""
    return lax.expand_dims(vector, [i for i in range(ndim) if i != axis])


@lowers("_channels_like")
def _channels_like(p: ops.ChannelParams, data: Array, like: Array) -> Array:
    return _along(data, ops.channel_axis(p.axis, like.ndim), like.ndim)


def _channel_sums(
    platform: str, axis: int, terms: Callable[..., Sequence[Array]], arrays: Sequence[Array], vectors: Sequence[Array]
) -> list[Array]:
    """Return the sums of each of `terms(*arrays, *vectors)`, of vectors along an axis, over all other axes."""
    ndim = arrays[0].ndim
    if platform == "cpu" and axis == ndim - 1:
        return column_sums(terms, arrays, vectors)
    others = [i for i in range(ndim) if i != axis]
    return [jnp.sum(term, others) for term in terms(*arrays, *(_along(vector, axis, ndim) for vector in vectors))]


@partial(jax.jit, static_argnums=(1, 2, 3))
def batch_moments(x: Array, axis: int, platform: str, mesh: Any) -> tuple[Array, Array]:
    """Return (mean, biased variance) of each channel. By the name of this function `lowering.lanes` joins the moments
    of several lanes' samples.

    One pass over the data, as σ² = m(d²) - m(d)² with d the difference from each channel's first element: the plain
    formula, with d = x, loses all digits where the mean is large against the deviation.
    """
    channels = x.shape[axis]
    first = lax.slice(x, [0] * x.ndim, [channels if i == axis else 1 for i in range(x.ndim)]).reshape(channels)
    # Of a batch that is split, XLA would else send each device a part of the channels of all samples.
    first = laid_out(lax.stop_gradient(first), mesh)  # the statistics do not depend on what is subtracted

    def terms(x: Array, first: Array) -> tuple[Array, Array]:
        difference = x - first
        return difference, lax.square(difference)

    count = x.size // max(channels, 1)
    mean, square = (total / count for total in _channel_sums(platform, axis, terms, [x], [first]))
    return mean + first, lax.max(square - lax.square(mean), lax.full_like(mean, 0))


def _output(x: Array, mean: Array, factor: Array, beta: Array, *, of_batch: bool) -> Array:
    """Return (x - mean) factor + beta. of_batch: the mean is the batch's; of another, which is known before, all but
    one multiply-add an element is done once for each channel."""
    return (x - mean) * factor + beta if of_batch else x * factor + (beta - mean * factor)


def normalise_batch(
    p: ops.BatchNormLike,
    data: Array,
    gamma: Array,
    beta: Array,
    moving_mean: Array,
    moving_var: Array,
    *,
    is_train: bool,
    platform: str,
    mesh: Any,
) -> tuple[Array, ...]:
    """(output, mean and variance in use, new moving mean and variance)."""
    axis = normal_axis(p.axis, data.ndim)
    x = data.astype(moving_mean.dtype)
    of_batch = is_train and not p.use_global_stats and 0 not in x.shape  # no element has a mean
    if of_batch:
        mean, variance = batch_moments(x, axis, platform, mesh)
        new_mean = moving_mean * p.momentum + mean * (1 - p.momentum)
        new_var = moving_var * p.momentum + variance * (1 - p.momentum)
    else:
        mean, variance, new_mean, new_var = moving_mean, moving_var, moving_mean, moving_var
    scale = lax.rsqrt(variance + p.eps)
    factor = scale if p.fix_gamma else gamma * scale
    out = _output(x, *(_along(vector, axis, x.ndim) for vector in (mean, factor, beta)), of_batch=of_batch)
    # No gradient passes through the statistics as outputs, nor through the new moving ones; hidden ones are read by the
    # gradient, whose derivative by JAX depends on them.
    if p.output_mean_var:
        mean, variance = map(lax.stop_gradient, (mean, variance))
    return (out.astype(data.dtype), mean, variance, *map(lax.stop_gradient, (new_mean, new_var)))


@lowers("BatchNorm", needs=("is_train", "platform", "mesh"))
def _batch_norm(p: ops.BatchNormParams, *inputs: Array, **extra: Any) -> tuple[Array, ...]:
    out, mean, variance, *moving = normalise_batch(p, *inputs, **extra)
    return out, mean, lax.rsqrt(variance + p.eps), *moving


@lowers("_backward_BatchNorm", needs=("is_train", "platform"))
def _gradients(
    p: ops.BatchNormGradientParams,
    ograd: Array,
    data: Array,
    gamma: Array,
    mean: Array,
    scale: Array,
    *beta: Array,
    is_train: bool,
    platform: str,
) -> tuple[Array, Array, Array]:
    """Make two passes over memory: for both sums, and for dX = a dY + b (X - μ) + c, with a, b, c of each channel."""
    axis = ops.channel_axis(p.axis, data.ndim)
    head, x = ograd.astype(mean.dtype), data.astype(mean.dtype)
    factor = scale if p.fix_gamma else gamma * scale
    of_batch = is_train and not p.use_global_stats

    def passed(head: Array, x: Array, mean: Array, *others: Array) -> Array:
        """Return dY: with ReLU the head gradient where the output, computed again, is positive."""
        if not p.relu:
            return head
        output = _output(x, mean, *others, of_batch=of_batch).astype(data.dtype)
        output = lax.max(output, lax.full_like(output, 0))
        return head * (lax.sign(output) if p.relu == "sign" else output > 0).astype(head.dtype)

    def terms(head: Array, x: Array, *vectors: Array) -> tuple[Array, Array]:
        dy = passed(head, x, *vectors)
        return dy, dy * (x - vectors[0])

    vectors = [mean, factor, *beta] if p.relu else [mean]
    dbeta, dgamma = _channel_sums(platform, axis, terms, [head, x], vectors)
    dgamma = dgamma * scale
    dy = passed(head, x, *(_along(vector, axis, x.ndim) for vector in vectors))
    centred = x - _along(mean, axis, x.ndim)
    dx = dy * _along(factor, axis, data.ndim)
    if of_batch:
        share = factor / (data.size // max(data.shape[axis], 1))
        slope, offset = (_along(-share * total, axis, data.ndim) for total in (dgamma * scale, dbeta))
        dx = (dx + offset) + centred * slope  # XLA makes again for each reader what ends on one large operand
    return dx.astype(data.dtype), jnp.zeros_like(gamma) if p.fix_gamma else dgamma, dbeta


@lowers("_backward_BatchNorm_mean", "_backward_BatchNorm_scale")
def _statistic(p: ops.ChannelParams, statistic: Array, data: Array, mu: Array | None = None) -> Array:
    return _along(statistic, normal_axis(p.axis, data.ndim), data.ndim)


@lowers("_backward_BatchNorm_train", needs=("is_train",))
def _train(p: Any, data: Array, *, is_train: bool) -> Array:
    return data if is_train else lax.full_like(data, 0)
