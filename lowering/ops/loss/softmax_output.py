"""JAX rules of SoftmaxOutput and softmax_cross_entropy."""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.jax_casts import cast
from lowering.ops.nn.softmax import softmax_over
from symjax_nnvm.ops.loss import softmax_output as ops


@lowers("SoftmaxOutput")
def _softmax_output(p: ops.SoftmaxOutputParams, data: Array, label: Array) -> Array:
    if p.multi_output or p.preserve_shape:
        return softmax_over(data, 1 if p.multi_output else -1)
    # The same instructions as softmax of Flatten, of which the gradient is made: XLA merges the two.
    return softmax_over(data.reshape(data.shape[0], math.prod(data.shape[1:])), -1).reshape(data.shape)


@lowers("_backward_softmax_target")
def _softmax_target(p: ops.SoftmaxOutputParams, data: Array, label: Array) -> tuple[Array, Array]:
    axes = p.class_axes(data.ndim)
    weight_shape = tuple(1 if i in axes else dim for i, dim in enumerate(data.shape))
    if label.shape == data.shape:  # probabilities
        return label, jnp.full(weight_shape, p.grad_scale, data.dtype)
    shape = data.shape if len(axes) == 1 else (data.shape[0], math.prod(data.shape[1:]))
    labels = cast(label, jnp.int32)
    # Without multi_output and preserve_shape, data of more than two axes has more labels than rows: the first count.
    rows = labels.reshape(-1)[: shape[0]] if len(axes) > 1 else labels
    rows = rows.reshape(tuple(1 if i == axes.start else dim for i, dim in enumerate(shape)))
    target = one_hot(rows, shape, axes.start, data.dtype)
    if p.smooth_alpha and not p.multi_output:
        others = p.smooth_alpha / max(shape[axes.start] - 1, 1)
        target = target * (1 - p.smooth_alpha - others) + others
    weight = jnp.broadcast_to(_weight(p, labels, rows), rows.shape)
    return target.reshape(data.shape), weight.astype(data.dtype).reshape(weight_shape)


def one_hot(index: Array, shape: tuple[int, ...], axis: int, dtype: jnp.dtype) -> Array:
    """1 where the position along an axis is the index; an index that is not a position gives zeros."""
    return (lax.broadcasted_iota(jnp.int32, shape, axis) == index).astype(dtype)


def _weight(p: ops.SoftmaxOutputParams, labels: Array, rows: Array) -> Array:
    """Return the weight of each label, or of all of them, broadcastable to the rows."""
    scale = p.grad_scale
    if p.normalization == "batch":
        scale /= labels.shape[0] if p.multi_output else labels.size
    if p.multi_output and p.normalization != "valid":
        scale /= rows.size // rows.shape[0]
    weight = jnp.asarray(scale)
    ignored = int(p.ignore_label)
    if p.normalization == "valid":
        weight = weight / jnp.maximum(jnp.sum(labels != ignored), 1)
    return jnp.where(rows == ignored, 0, weight) if p.use_ignore else weight


@lowers("softmax_cross_entropy")
def _softmax_cross_entropy(p: object, data: Array, label: Array) -> Array:
    probabilities = softmax_over(data.astype(jnp.promote_types(data.dtype, jnp.float32)), 1)
    chosen = one_hot(cast(label, jnp.int32)[:, None], data.shape, 1, probabilities.dtype)
    likelihood = jnp.maximum(jnp.sum(probabilities * chosen, 1), 1e-8)
    return -jnp.sum(jnp.log(likelihood), keepdims=True).astype(data.dtype)
