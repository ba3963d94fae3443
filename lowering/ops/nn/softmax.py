"""JAX rules of softmax and its kin."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from symjax_nnvm.ops.nn import softmax as ops


def softmax_over(data: Array, axis: int) -> Array:
    """Softmax in data's dtype, half precision computed in float32."""
    wide = data.astype(jnp.promote_types(data.dtype, jnp.float32))
    return jax.nn.softmax(wide, axis).astype(data.dtype)


def _scaled(p: ops.SoftmaxParams, data: Array) -> Array:
    """Return the data in the dtype of the computation, divided by the temperature; a number with an axis.

    Half precision is computed in float32: XLA keeps the conversions inside the fused loop, so they cost no memory.
    """
    if p.dtype is None and not jnp.issubdtype(data.dtype, jnp.floating):
        raise TypeError(f"the result of {data.dtype} data needs a floating-point dtype; pass dtype='float32'")
    dtype = jnp.promote_types(data.dtype, jnp.float32) if p.dtype is None else _wider(data.dtype, p.dtype)
    data = jnp.atleast_1d(data.astype(dtype))
    return data if p.temperature in (None, 1.0) else data / p.temperature


def _wider(dtype: jnp.dtype, name: str) -> jnp.dtype:
    target = jax.dtypes.canonicalize_dtype(name)
    return jnp.promote_types(jnp.promote_types(dtype, target), jnp.float32)


def _result(p: ops.SoftmaxParams, value: Array, data: Array) -> Array:
    """Return a result in its shape and dtype: the parameter's, as wide as JAX allows now, or data's."""
    return value.reshape(data.shape).astype(data.dtype if p.dtype is None else jax.dtypes.canonicalize_dtype(p.dtype))


@lowers("softmax")
def _softmax(p: ops.SoftmaxParams, data: Array, length: Array | None = None) -> Array:
    scaled = _scaled(p, data)
    if length is None:
        return _result(p, jax.nn.softmax(scaled, p.axis), data)
    axis = p.axis % scaled.ndim
    position = lax.broadcasted_iota(length.dtype, scaled.shape, axis)
    inside = position < length.reshape(*scaled.shape[:axis], 1, *scaled.shape[axis + 1 :])
    # The least finite number, not -inf, so that a row of length 0 is no 0 / 0.
    scaled = jnp.where(inside, scaled, jnp.finfo(scaled.dtype).min)
    return _result(p, jnp.where(inside, jax.nn.softmax(scaled, axis), 0), data)


@lowers("log_softmax")
def _log_softmax(p: ops.SoftmaxParams, data: Array) -> Array:
    return _result(p, jax.nn.log_softmax(_scaled(p, data), p.axis), data)


@lowers("softmin")
def _softmin(p: ops.SoftmaxParams, data: Array) -> Array:
    return _result(p, jax.nn.softmax(-_scaled(p, data), p.axis), data)


@lowers("SoftmaxActivation")
def _softmax_activation(p: ops.SoftmaxActivationParams, data: Array) -> Array:
    return softmax_over(data, p.axis)
