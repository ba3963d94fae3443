"""JAX rules of the differences of neighbours."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from lowering.core.rules import lowers
from symjax_nnvm.ops.reduce import differences as ops


@lowers("_npi_diff")
def _diff(p: ops.DiffParams, a: Array) -> Array:
    if p.n > a.shape[p.axis]:
        return jnp.zeros([0 if axis == p.axis % a.ndim else size for axis, size in enumerate(a.shape)], a.dtype)
    return jnp.diff(a, p.n, p.axis)


@lowers("_backward_npi_diff")
def _backward_diff(p: ops.DiffParams, ograd: Array, a: Array) -> Array:
    if ograd.shape[p.axis] == 0:
        return jnp.zeros_like(a)
    for _ in range(p.n):
        beside = [(0, 0)] * a.ndim
        beside[p.axis] = (1, 1)
        ograd = -jnp.diff(jnp.pad(ograd, beside), axis=p.axis)
    return ograd


@lowers("_npi_ediff1d")
def _ediff1d(p: ops.Ediff1dParams, data: Array, *ends: Array) -> Array:
    arrays = list(ends)

    def end(is_given: bool, number: float | None) -> list[Array]:
        if is_given:
            return [arrays.pop(0).reshape(-1)]
        return [] if number is None else [jnp.asarray(np.array([number]).astype(data.dtype))]

    before = end(p.to_begin_arr_given, p.to_begin_scalar)
    after = end(p.to_end_arr_given, p.to_end_scalar)
    return jnp.concatenate([*before, jnp.diff(data.reshape(-1)), *after])


@lowers("_backward_npi_ediff1d")
def _backward_ediff1d(p: ops.Ediff1dParams, ograd: Array, data: Array, *ends: Array) -> tuple[Array, ...]:
    arrays = [*ends]
    before = arrays.pop(0).size if p.to_begin_arr_given else int(p.to_begin_scalar is not None)
    between = max(0, data.size - 1)
    inner = ograd[before : before + between]
    of_data = -jnp.diff(jnp.pad(inner, 1)) if data.size else inner
    of_ends = [ograd[:before]] if p.to_begin_arr_given else []
    of_ends += [ograd[before + between :]] if p.to_end_arr_given else []
    return of_data.reshape(data.shape), *(part.reshape(end.shape) for part, end in zip(of_ends, ends, strict=True))
