"""JAX rules of im2col and of its transpose: a slice for each place in the window, and no gather or scatter."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.ops.nn import window_places
from lowering.ops.nn.window_places import Number, add, cut, fold, position
from symjax_nnvm.ops.nn import im2col as ops


def _start(p: ops.Im2ColParams, i: Number) -> list[Number]:
    """Return the position of place number i in the padded data when the window is at its beginning."""
    return [at * dilation for at, (_, _, dilation, _) in zip(position(p.kernel, i), p.steps, strict=True)]


def _padding(p: ops.Im2ColParams) -> list[tuple[int, int, int]]:
    return [(0, 0, 0)] * 2 + [(pad, pad, 0) for *_, pad in p.steps]


@lowers("im2col")
def im2col(p: ops.Im2ColParams, data: Array) -> Array:
    """The windows of data (n, c, …d) as columns (n, c · window, number of windows)."""
    n, c, *sizes = data.shape
    counts, axes = [count or 0 for count in ops.window_counts(p, sizes)], range(2, data.ndim)
    padded = lax.pad(data, np.zeros((), data.dtype), _padding(p))

    def place(i: Number) -> Array:
        return cut(padded, axes, _start(p, i), counts, [stride for _, stride, _, _ in p.steps]).reshape(n, c, -1)

    if p.window_size > window_places.WRITTEN_OUT:
        columns = jnp.moveaxis(lax.map(place, lax.iota(np.int32, p.window_size)), 0, 2)
    else:
        columns = jnp.stack([place(i) for i in range(p.window_size)], 2)
    return columns.reshape(n, c * p.window_size, -1)


def col2im(p: ops.Im2ColParams, columns: Array, sizes: Sequence[int]) -> Array:
    """The transpose of im2col for data of spatial sizes: columns added up where their windows overlap."""
    n, rows, _ = columns.shape
    counts, axes = [count or 0 for count in ops.window_counts(p, sizes)], range(2, len(sizes) + 2)
    parts = columns.reshape(n, rows // p.window_size, p.window_size, *counts)
    strides = [stride for _, stride, _, _ in p.steps]
    padded = [size + 2 * pad for size, (*_, pad) in zip(sizes, p.steps, strict=True)]

    def step(i: Number, total: Array) -> Array:
        part = lax.dynamic_index_in_dim(parts, i, 2, keepdims=False)
        return add(total, part, axes, _start(p, i), strides)

    whole = fold(p.kernel, step, lax.full((*parts.shape[:2], *padded), 0, columns.dtype))
    return lax.pad(whole, np.zeros((), whole.dtype), [(-low, -high, 0) for low, high, _ in _padding(p)])


@lowers("_backward_im2col")
def _backward_im2col(p: ops.Im2ColParams, ograd: Array, data: Array) -> Array:
    return col2im(p, ograd, data.shape[2:])


@lowers("col2im")
def _col2im(p: ops.Col2ImParams, data: Array) -> Array:
    return col2im(p, data, p.output_size)
