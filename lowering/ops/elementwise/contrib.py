"""JAX rules of the small functions of MXNet's contrib module."""

from __future__ import annotations

from math import sqrt
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.jax_casts import cast
from lowering.ops.elementwise.unary import in_float
from symjax_nnvm.ir.rules.size_symbols import is_open
from symjax_nnvm.ops.elementwise import contrib as ops


@lowers("_contrib_quadratic")
def _quadratic(p: ops.QuadraticParams, data: Array) -> Array:
    return in_float(lambda x: (p.a * x + p.b) * x + p.c)(data)


@lowers("_contrib_div_sqrt_dim")
def _div_sqrt_dim(p: Any, data: Array) -> Array:
    size = data.shape[-1]
    number = lax.sqrt(jnp.asarray(size, jnp.float32)) if is_open(size) else sqrt(size)
    root = jnp.asarray(number, data.dtype)
    if data.dtype.itemsize == 2:  # XLA multiplies with the reciprocal instead, which float16 rounds too coarsely
        return cast(data.astype(jnp.float32) / root.astype(jnp.float32), data.dtype)
    return lax.div(data, root)


@lowers("_contrib_allclose")
def _all_close(p: ops.AllCloseParams, a: Array, b: Array) -> Array:
    wide = jnp.promote_types(a.dtype, jnp.float32)
    a, b = a.astype(wide), b.astype(wide)
    # The difference of equal infinities is NaN; it is the comparison that finds them close.
    close = (a == b) | (lax.abs(a - b) <= p.atol + p.rtol * lax.abs(b))
    if p.equal_nan:
        close |= (a != a) & (b != b)
    return jnp.all(close).astype(jnp.uint8)
