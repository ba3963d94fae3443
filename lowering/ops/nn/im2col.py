"""JAX rules of im2col and of its transpose: a slice for each place in the window, and no gather or scatter."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowering.registry import lowers
from symjax_nnvm.ops.nn import im2col as ops
from symjax_nnvm.ops.nn.convolution import Step

Array = jax.Array


def _starts(p: ops.Im2ColParams) -> Iterator[tuple[int, ...]]:
    """Where each place in the window lies in the padded data when the window is at its beginning, in order."""
    steps = p.steps
    for place in itertools.product(*map(range, p.kernel)):
        yield tuple(at * dilation for at, (_, _, dilation, _) in zip(place, steps, strict=True))


def _reach(count: int, step: Step) -> int:
    """The extent of one place of all windows of an axis."""
    return (count - 1) * step[1] + 1


@lowers("im2col")
def im2col(p: ops.Im2ColParams, data: Array) -> Array:
    """The windows of data (n, c, …d) as columns (n, c · window, number of windows)."""
    n, c, *sizes = data.shape
    counts = [count or 0 for count in ops.window_counts(p, sizes)]
    padded = lax.pad(data, np.zeros((), data.dtype), [(0, 0, 0)] * 2 + [(pad, pad, 0) for *_, pad in p.steps])
    places: list[Array] = []
    for start in _starts(p):
        ends = [at + _reach(count, step) for at, count, step in zip(start, counts, p.steps, strict=True)]
        strides = [stride for _, stride, _, _ in p.steps]
        place = lax.slice(padded, (0, 0, *start), (n, c, *ends), (1, 1, *strides))
        places.append(place.reshape(n, c, -1))
    return jnp.stack(places, 2).reshape(n, c * p.window_size, -1)


def col2im(p: ops.Im2ColParams, columns: Array, sizes: Sequence[int]) -> Array:
    """The transpose of im2col for data of spatial sizes: columns added up where their windows overlap."""
    n, rows, _ = columns.shape
    counts = [count or 0 for count in ops.window_counts(p, sizes)]
    places = columns.reshape(n, rows // p.window_size, p.window_size, *counts)
    total: Array | None = None
    for i, start in enumerate(_starts(p)):
        # Negative padding cuts off what windows have in the padding of data.
        config = [(0, 0, 0)] * 2
        for at, count, size, step in zip(start, counts, sizes, p.steps, strict=True):
            _, stride, _, pad = step
            config.append((at - pad, size + pad - at - _reach(count, step), stride - 1))
        part = lax.pad(places[:, :, i], np.zeros((), columns.dtype), config)
        total = part if total is None else total + part
    assert total is not None  # a window has at least one place
    return total


@lowers("_backward_im2col")
def _backward_im2col(p: ops.Im2ColParams, ograd: Array, data: Array) -> Array:
    return col2im(p, ograd, data.shape[2:])


@lowers("col2im")
def _col2im(p: ops.Col2ImParams, data: Array) -> Array:
    return col2im(p, data, p.output_size)
