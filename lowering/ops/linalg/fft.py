"""JAX rules of the Fourier transforms and of the count sketch."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import Numbers, lowers
from lowering.ops.indexing.take import CLIP, integers
from symjax_nnvm.ops.linalg import fft as ops


def _at_least_float32(data: Array) -> Array:
    """XLA has no complex numbers of smaller parts."""
    return data.astype(jnp.promote_types(data.dtype, jnp.float32))


_LENGTH = Numbers("XLA transforms only lines of a known length", axes=(-1,))


@lowers("_contrib_fft", numbers=_LENGTH)
def _fft(p: ops.FFTParams, data: Array) -> Array:
    transformed = jnp.fft.fft(_at_least_float32(data))
    pairs = jnp.stack([transformed.real, transformed.imag], axis=-1)
    return pairs.reshape(*data.shape[:-1], 2 * data.shape[-1]).astype(data.dtype)


@lowers("_contrib_ifft", numbers=_LENGTH)
def _ifft(p: ops.FFTParams, data: Array) -> Array:
    length = data.shape[-1] // 2
    pairs = _at_least_float32(data).reshape(*data.shape[:-1], length, 2)
    # The real part of the inverse is that of the forward transform of the conjugate, which nothing has to undo.
    return jnp.fft.fft(lax.complex(pairs[..., 0], -pairs[..., 1])).real.astype(data.dtype)


@lowers("_contrib_count_sketch")
def _count_sketch(p: ops.CountSketchParams, data: Array, h: Array, s: Array) -> Array:
    sketch = jnp.zeros((*data.shape[:-1], p.out_dim), data.dtype)
    return sketch.at[..., integers(h[0])].add(data * s[0], **CLIP)


@lowers("_backward_count_sketch")
def _backward_count_sketch(p: ops.CountSketchParams, ograd: Array, h: Array, s: Array) -> Array:
    return ograd.at[..., integers(h[0])].get(**CLIP) * s[0]
