"""JAX rules of cumsum."""

from __future__ import annotations

import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.jax_casts import cast
from symjax_nnvm.ops.reduce import cumsum as ops


@lowers("_np_cumsum")
def _cumsum(p: ops.CumsumParams, a: Array) -> Array:
    dtype = p.dtype or ("int64" if a.dtype == np.bool_ else a.dtype)
    a = cast(a.reshape(-1) if p.axis is None else a, dtype)
    return lax.cumsum(a, (p.axis or 0) % a.ndim)


@lowers("_backward_np_cumsum")
def _backward_cumsum(p: ops.CumsumGradientParams, ograd: Array, a: Array) -> Array:
    return lax.cumsum(ograd, (p.axis or 0) % ograd.ndim, reverse=True).reshape(a.shape)
