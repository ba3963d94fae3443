"""JAX rules of the reductions of the NumPy dialect."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.jax_casts import cast
from lowering.norms import norm
from lowering.ops.reduce.reduction import REDUCTIONS, backward_mean, backward_sum
from lowering.ops.wide import wide
from symjax_nnvm.ops.reduce import to_scalar as ops
from symjax_nnvm.ops.reduce.reduction import reduced_axes

lowers("_backward_np_sum")(backward_sum)
lowers("_backward_npi_mean")(backward_mean)


def _between(data: Array, out: np.dtype | str) -> Array:
    """Return the data in the dtype to add up in: that of the result, or floating-point data's if it is wider."""
    if jnp.issubdtype(data.dtype, jnp.floating):
        return cast(data, jnp.promote_types(data.dtype, out)) if jnp.issubdtype(out, jnp.floating) else data
    return cast(data, "int32" if out == "bool" else out)


def _of_numbers(name: str) -> Callable[[ops.SumParams, Array], Array]:
    def rule(p: ops.SumParams, a: Array) -> Array:
        out = p.dtype or ("int64" if a.dtype == np.bool_ else a.dtype.name)
        return cast(REDUCTIONS[name](_between(a, out), reduced_axes(p, a.ndim), keepdims=p.keepdims), out)

    return rule


lowers("_np_sum")(_of_numbers("sum"))
lowers("_np_prod")(_of_numbers("prod"))


@lowers("_npi_mean")
def _mean(p: ops.MeanParams, a: Array) -> Array:
    axes = reduced_axes(p, a.ndim)
    count = max(1, math.prod(a.shape[axis] for axis in axes))
    is_float = jnp.issubdtype(a.dtype, jnp.floating)
    out = p.dtype or (a.dtype.name if is_float else "float32")
    if not is_float and not jnp.issubdtype(out, jnp.floating):
        x = _between(a, out)
        total = jnp.sum(x, axes, x.dtype, keepdims=p.keepdims)  # which wraps, as MXNet's
        total = cast(total, jnp.promote_types(total.dtype, "int32"))
        return cast(lax.div(total, jnp.full_like(total, count)), out)
    x = wide(_between(a, out))
    return cast(jnp.sum(x, axes, keepdims=p.keepdims) / count, out)


for _name in ("max", "min"):

    @lowers(f"_np_{_name}")
    def _extreme(p: ops.ExtremeParams, a: Array, function: Callable[..., Array] = REDUCTIONS[_name]) -> Array:
        return function(a, reduced_axes(p, a.ndim), keepdims=p.keepdims)


for _name, _function in (("all", jnp.all), ("any", jnp.any)):

    @lowers(f"_np_{_name}")
    def _truth(p: ops.AxesParams, data: Array, function: Callable[..., Array] = _function) -> Array:
        return function(data != lax.full_like(data, 0), reduced_axes(p, data.ndim), keepdims=p.keepdims)


for _name, _function in (("argmax", jnp.argmax), ("argmin", jnp.argmin)):

    @lowers(f"_npi_{_name}")
    def _search(p: ops.SearchParams, data: Array, function: Callable[..., Array] = _function) -> Array:
        axis = None if data.ndim == 0 else p.axis
        return cast(function(data, axis, keepdims=p.keepdims), "int64")


def _centred(p: ops.SpreadParams, a: Array) -> Array:
    """Return how far each number is from the mean, in the dtype to add up in."""
    x = wide(a)
    mean = jnp.mean(x, reduced_axes(p, a.ndim), keepdims=True)
    if not jnp.issubdtype(a.dtype, jnp.floating):
        mean = lax.convert_element_type(cast(mean, a.dtype), x.dtype)  # MXNet's mean of whole numbers is one
    return cast(x, p.dtype) - cast(mean, p.dtype) if p.dtype == "float64" else x - mean


def _freedom(p: ops.SpreadParams, a: Array) -> int:
    return math.prod(a.shape[axis] for axis in reduced_axes(p, a.ndim)) - p.ddof


@lowers("_npi_var")
def _var(p: ops.SpreadParams, a: Array) -> Array:
    total = jnp.sum(lax.square(_centred(p, a)), reduced_axes(p, a.ndim), keepdims=p.keepdims)
    return cast(total / _freedom(p, a), p.dtype or a.dtype)


@lowers("_npi_std")
def _std(p: ops.SpreadParams, a: Array) -> Array:
    spread = norm(_centred(p, a), axes=reduced_axes(p, a.ndim), keepdims=p.keepdims)
    return cast(spread / jnp.sqrt(jnp.asarray(_freedom(p, a), spread.dtype)), p.dtype or a.dtype)
