"""JAX rules of the reductions and of the operators that spread a reduced gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.jax_casts import cast
from lowering.norms import norm
from symjax_nnvm.ops.reduce import reduction as ops


def _mean(data: Array, axes: tuple[int, ...], *, keepdims: bool) -> Array:
    if jnp.issubdtype(data.dtype, jnp.floating):
        return jnp.mean(data, axes, keepdims=keepdims)
    count = max(1, math.prod(data.shape[axis] for axis in axes))  # XLA, folding 0 / 0 of integers, ends the process
    total = jnp.sum(data, axes, dtype=data.dtype, keepdims=keepdims)
    return lax.div(total, jnp.full_like(total, count))  # truncates, as MXNet does


def _numbers(data: Array, instead: float) -> Array:
    """Return the data with `instead` for NaN."""
    return jnp.where(jnp.isnan(data), jnp.asarray(instead, data.dtype), data)


def _same_dtype(function: Callable[..., Array], for_nan: float | None = None) -> Callable[..., Array]:
    """Return a reduction that keeps small integers in the dtype of its data. for_nan: what NaN counts as."""

    def reduction(data: Array, axes: tuple[int, ...], *, keepdims: bool) -> Array:
        numbers = data if for_nan is None else _numbers(data, for_nan)
        return function(numbers, axes, dtype=data.dtype, keepdims=keepdims)

    return reduction


def _extreme(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return a reduction to the largest or smallest element, NaN if there is one: XLA's vectorised CPU loops lose it
    (jaxlib 0.12)."""

    def reduction(data: Array, axes: tuple[int, ...], *, keepdims: bool) -> Array:
        extreme = function(data, axes, keepdims=keepdims)
        if not jnp.issubdtype(data.dtype, jnp.floating):
            return extreme
        return jnp.where(jnp.isnan(data).any(axes, keepdims=keepdims), jnp.asarray(jnp.nan, data.dtype), extreme)

    return reduction


REDUCTIONS: dict[str, Callable[..., Array]] = {
    "sum": _same_dtype(jnp.sum),
    "prod": _same_dtype(jnp.prod),
    "mean": _mean,
    "max": _extreme(jnp.max),
    "min": _extreme(jnp.min),
    "nansum": _same_dtype(jnp.sum, 0),
    "nanprod": _same_dtype(jnp.prod, 1),
}


def _lower_reduction(name: str, function: Callable[..., Array]) -> None:
    def rule(p: ops.ReduceParams, data: Array) -> Array:
        axes = ops.reduced_axes(p, data.ndim)
        return function(data, axes, keepdims=p.keepdims).reshape(ops.reduced_shape(p, data.shape))

    lowers(name)(rule)


for _name, _function in REDUCTIONS.items():
    _lower_reduction(_name, _function)


@lowers("norm")
def _norm(p: ops.NormParams, data: Array) -> Array:
    axes = ops.reduced_axes(p, data.ndim)
    total = norm(data, axes=axes) if p.ord == 2 else jnp.sum(jnp.abs(data), axes)
    return cast(total, p.out_dtype or data.dtype).reshape(ops.reduced_shape(p, data.shape))


@lowers("_backward_sum")
def backward_sum(p: Any, ograd: Array, data: Array) -> Array:
    """Return the head gradient, repeated over the reduced axes."""
    axes = ops.reduced_axes(p, data.ndim)
    kept_axes = [i for i in range(data.ndim) if i not in axes]
    return lax.broadcast_in_dim(ograd.reshape([data.shape[i] for i in kept_axes]), data.shape, kept_axes)


@lowers("_backward_mean")
def backward_mean(p: Any, ograd: Array, data: Array) -> Array:
    """Return the same, divided by the number of elements in each mean."""
    count = math.prod(data.shape[axis] for axis in ops.reduced_axes(p, data.ndim))
    return backward_sum(p, ograd / count, data)


def _search(function: Callable[..., Array]) -> Callable[..., Array]:
    def rule(p: ops.ReduceAxisParams, data: Array) -> Array:
        _, (shape,) = ops.search_shapes(p, [data.shape], [None])
        return function(data, p.axis).astype(data.dtype).reshape(shape)

    return rule


lowers("argmax")(_search(jnp.argmax))
lowers("argmin")(_search(jnp.argmin))


@lowers("argmax_channel")
def _argmax_channel(p: Any, data: Array) -> Array:
    return jnp.argmax(data, 1).astype(data.dtype)
