"""JAX rules of pooling and of its gradients.

Windows that overlap go through XLA's reduce-window; on a CPU with channels last along one axis after the other, which
is faster. The gradient of maxima, select-and-scatter, is slow on a CPU, so that is written out: find in each window the
first element that attains the maximum, then add up the contributions of the window positions. Windows that do not
overlap are blocks: a reshape brings them side by side.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.ops.nn import places
from lowering.ops.nn.places import Number, add, cut, fold, per_axis, position
from lowering.registry import ByPart, lowers
from symjax_nnvm.ops.nn import pooling as ops
from symjax_nnvm.ops.nn.pooling import Windows

_UNROLLED = 16
"""Up to this many elements a block is reduced by slices, one for each: on a CPU five times faster than reduce-window
(2 × 2 blocks of float32[16, 64, 112, 112]: 2 ms against 11 ms)."""


def _wide(x: Array) -> Array:
    """Half precision is summed in float32."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def _number(value: float, like: Array) -> np.ndarray:
    return np.asarray(value, like.dtype)


# -- views of windows ------------------------------------------------------------------------------------------------


def reached(x: Array, w: Windows, fill: float) -> Array:
    """The data as far as windows reach."""
    config = [(0, 0, 0)] * x.ndim
    for axis, low, high in zip(w.axes, w.pads, w.overhangs, strict=True):
        config[axis] = (low, max(high, 0), 0)
    return lax.pad(x, _number(fill, x), config) if any(map(any, config)) else x


def element(padded: Array, w: Windows, i: Number) -> Array:
    """The elements that all windows have at place number i, of the pooled shape; `padded`: as far as windows reach."""
    return cut(padded, w.axes, position(w.kernel, i), w.counts, w.stride)


def overlap_add(part: Callable[[Number], Array], shape: tuple[int, ...], w: Windows) -> Array:
    """The transpose of `element`: `part(i)`, of the pooled shape, is added where windows have their i-th place.

    Elements a stride apart are one phase; in a phase all windows are neighbours, so that adding needs no gaps. Filling
    gaps with zeros instead (interior padding) takes twice the time on a CPU. No window has a place in the phases from
    the kernel's size on: they are zeros, however many there are.
    """
    if math.prod(w.kernel) > places.WRITTEN_OUT:
        return _overlap_add_in_turn(part, shape, w)
    # Where there is one window its stride means nothing, and may be of any size.
    strides = [min(stride, k) if n == 1 else stride for stride, k, n in zip(w.stride, w.kernel, w.counts, strict=True)]
    firsts = [min(stride, k) for stride, k in zip(strides, w.kernel, strict=True)]
    cells = tuple(
        max(-(-(low + size) // stride), n + (k - 1) // stride)
        for low, size, stride, n, k in zip(w.pads, w.sizes, strides, w.counts, w.kernel, strict=True)
    )
    phases: list[Array] = []
    for phase in itertools.product(*map(range, firsts)):
        parts: list[Array] = []
        for place in itertools.product(*map(range, phase, w.kernel, strides)):
            shifts = tuple(at // stride for at, stride in zip(place, strides, strict=True))
            parts.append(_placed(part(int(np.ravel_multi_index(place, w.kernel))), w, shifts, cells))
        phases.append(sum(parts[1:], parts[0]))
    for axis, stride, count in reversed(list(zip(w.axes, strides, firsts, strict=True))):
        phases = [_interleaved(phases[i : i + count], axis, stride) for i in range(0, len(phases), count)]
    low = per_axis(len(shape), w.axes, w.pads, 0)
    return lax.slice(phases[0], low, [a + d for a, d in zip(low, shape, strict=True)])


def _overlap_add_in_turn(part: Callable[[Number], Array], shape: tuple[int, ...], w: Windows) -> Array:
    """`overlap_add` of many places, one after the other."""
    whole = reached(lax.full(shape, 0, jax.eval_shape(part, 0).dtype), w, 0)
    whole = fold(w.kernel, lambda i, total: add(total, part(i), w.axes, position(w.kernel, i), w.stride), whole)
    low = per_axis(len(shape), w.axes, w.pads, 0)
    return lax.slice(whole, low, [a + d for a, d in zip(low, shape, strict=True)])


def _placed(x: Array, w: Windows, shifts: tuple[int, ...], cells: tuple[int, ...]) -> Array:
    """The array, moved along the spatial axes and filled up with zeros."""
    config = [(0, 0, 0)] * x.ndim
    for axis, shift, n, m in zip(w.axes, shifts, w.counts, cells, strict=True):
        config[axis] = (shift, m - n - shift, 0)
    return lax.pad(x, _number(0, x), config)


def _interleaved(arrays: list[Array], axis: int, stride: int) -> Array:
    """The arrays' elements in turn along an axis; zeros stand for those that are fewer than the stride."""
    if stride == 1:
        return arrays[0]
    shape = list(arrays[0].shape)
    shape[axis] *= stride
    together = jnp.stack(arrays, axis + 1)
    config = [(0, stride - len(arrays) if i == axis + 1 else 0, 0) for i in range(together.ndim)]
    return (lax.pad(together, _number(0, together), config) if stride > len(arrays) else together).reshape(shape)


# -- windows that are blocks -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Blocks:
    """Non-overlapping windows as axes of their own: (…, d, …) ↔ (…, count, kernel, …)."""

    w: Windows
    shape: tuple[int, ...]

    @property
    def inner(self) -> tuple[int, ...]:
        """The axes, in the split array, of the elements of a block."""
        return tuple(axis + i + 1 for i, axis in enumerate(self.w.axes))

    @property
    def order(self) -> np.ndarray:
        """The number of each place in a block, to be compared with arrays of blocks."""
        ndim = len(self.shape) + len(self.w.axes)
        numbers = np.arange(math.prod(self.w.kernel), dtype=np.int32)
        return numbers.reshape(per_axis(ndim, self.inner, self.w.kernel))

    def split(self, x: Array) -> Array:
        """Data, without the rest after the last block, as blocks."""
        covered = self._covered()
        shape: list[int] = []
        for axis, size in enumerate(covered):
            at = self.w.axes.index(axis) if axis in self.w.axes else None
            shape += [size] if at is None else [self.w.counts[at], self.w.kernel[at]]
        return lax.slice(x, [0] * x.ndim, covered).reshape(shape)

    def expand(self, pooled: Array) -> Array:
        """A pooled array, to be broadcast against blocks."""
        return lax.expand_dims(pooled, self.inner)

    def join(self, blocks: Array) -> Array:
        """Blocks as data, with zeros for the rest."""
        covered = self._covered()
        rest = [(0, size - part, 0) for size, part in zip(self.shape, covered, strict=True)]
        joined = blocks.reshape(covered)
        return lax.pad(joined, _number(0, joined), rest) if tuple(covered) != self.shape else joined

    def _covered(self) -> list[int]:
        covered = list(self.shape)
        for axis, n, k in zip(self.w.axes, self.w.counts, self.w.kernel, strict=True):
            covered[axis] = n * k
        return covered


# -- forward ---------------------------------------------------------------------------------------------------------


def _goes_by_rows(x: Array, w: Windows, platform: str) -> bool:
    """Whether windows hold whole rows of channels, on a CPU, and few enough to be written out."""
    return platform == "cpu" and w.axes[-1] < x.ndim - 1 and math.prod(w.kernel) <= places.WRITTEN_OUT


def _by_samples(function: Callable[..., Array], *arrays: Array) -> Array:
    """A function of arrays (n, …), for one sample after the other: what it makes in between stays in the cache."""
    if arrays[0].shape[0] < 2:
        return function(*arrays)
    return lax.map(lambda samples: function(*(sample[None] for sample in samples))[0], arrays)


def _reduce_axes(x: Array, w: Windows, initial: float, function: Callable[[Array, Array], Array]) -> Array:
    """`_reduce` along one axis after the other: maxima of 3×3 windows, 2 apart, of float32[16, 112, 112, 64] take 5 ms,
    one sample after the other, where reduce-window takes 48."""
    x = reached(x, w, initial)
    for axis, k, count, stride in reversed(list(zip(w.axes, w.kernel, w.counts, w.stride, strict=True))):
        x = reduce(function, [cut(x, (axis,), (i,), (count,), (stride,)) for i in range(k)])
    return x


def _reduce(x: Array, w: Windows, initial: float, function: Callable[[Array, Array], Array], platform: str) -> Array:
    """Every window reduced by a function whose neutral element is `initial`."""
    if math.prod(w.kernel) <= _UNROLLED:
        padded = reached(x, w, initial)
        return fold(w.kernel, lambda i, value: function(value, element(padded, w, i)), element(padded, w, 0), first=1)
    if w.kernel == w.sizes and w.are_blocks:
        reduction = jnp.max if function is lax.max else jnp.sum
        return reduction(x, w.axes, keepdims=True)
    if _goes_by_rows(x, w, platform):
        return _by_samples(lambda samples: _reduce_axes(samples, w, initial, function), x)
    padding = [(0, 0)] * x.ndim
    for axis, low, high in zip(w.axes, w.pads, w.overhangs, strict=True):
        padding[axis] = (low, max(high, 0))
    kernel, stride = per_axis(x.ndim, w.axes, w.kernel), per_axis(x.ndim, w.axes, w.stride)
    return lax.reduce_window(x, _number(initial, x), function, kernel, stride, padding)


def _divide(p: ops.PoolingParams, x: Array, w: Windows) -> Array:
    """A pooled array over the number of elements of each window."""
    counts = ops.divisors(p, w)
    if (counts == counts.flat[0]).all():
        return x / float(counts.flat[0])
    shape = per_axis(x.ndim, w.axes, w.counts)
    return x / counts.reshape(shape).astype(x.dtype)


@lowers("Pooling", needs=("platform",), by_part=ByPart((0,)))
def _pooling(p: ops.PoolingParams, data: Array, *, platform: str) -> Array:
    w = ops.windows(p, data.shape)
    if p.pool_type == "max":
        return _reduce(data, w, -np.inf, lax.max, platform)
    x = _wide(data)
    if p.pool_type == "lp" and p.p_value in (2, 3):
        total = _reduce(lax.integer_pow(x, p.p_value), w, 0, lax.add, platform)
        return (lax.sqrt(total) if p.p_value == 2 else lax.cbrt(total)).astype(data.dtype)
    total = _reduce(x, w, 0, lax.add, platform)
    return (_divide(p, total, w) if p.pool_type == "avg" else total).astype(data.dtype)


# -- gradients -------------------------------------------------------------------------------------------------------


@lowers("_backward_Pooling_sum")
def _sum_gradient(p: ops.PoolingParams, ograd: Array, data: Array) -> Array:
    w = ops.windows(p, data.shape)
    dy = _wide(ograd)
    if p.pool_type == "avg":
        dy = _divide(p, dy, w)
    if w.are_blocks:
        blocks = _Blocks(w, data.shape)
        shape = list(blocks.expand(dy).shape)
        for axis, k in zip(blocks.inner, w.kernel, strict=True):
            shape[axis] = k
        return blocks.join(jnp.broadcast_to(blocks.expand(dy.astype(data.dtype)), shape))
    config, kernel = [(0, 0, 0)] * data.ndim, [1] * data.ndim
    for axis, k, stride, low, high in zip(w.axes, w.kernel, w.stride, w.pads, w.overhangs, strict=True):
        config[axis] = (k - 1 - low, k - 1 - high, stride - 1)
        kernel[axis] = k
    spread = lax.pad(dy, _number(0, dy), config)
    return lax.reduce_window(spread, _number(0, dy), lax.add, kernel, [1] * data.ndim, "VALID").astype(data.dtype)


def _first_maxima(data: Array, output: Array, w: Windows) -> Array:
    """The number of the place in each window that attains its maximum first."""
    padded, count = reached(data, w, -np.inf), math.prod(w.kernel)

    def step(i: Number, number: Array) -> Array:
        place = count - 1 - i
        return lax.select(element(padded, w, place) == output, lax.full_like(number, place), number)

    return fold(w.kernel, step, lax.full(output.shape, count, np.int32))


def _first_maxima_in_blocks(blocks: _Blocks, data: Array, output: Array) -> Array:
    """The same for blocks, in the shape of a pooled array that was expanded."""
    ties = blocks.split(data) == blocks.expand(output)
    numbers = jnp.where(ties, blocks.order, np.int32(blocks.order.size))
    return jnp.min(numbers, blocks.inner, keepdims=True)


@lowers("_backward_Pooling_max", needs=("platform",), by_part=ByPart((0, 1, 2)))
def _max_gradient(p: ops.PoolingParams, ograd: Array, data: Array, output: Array, *, platform: str) -> Array:
    w = ops.windows(p, data.shape)
    zero = lax.full_like(ograd, 0)
    if w.are_blocks:
        blocks = _Blocks(w, data.shape)
        chosen = _first_maxima_in_blocks(blocks, data, output) == blocks.order
        return blocks.join(jnp.where(chosen, blocks.expand(ograd), _number(0, ograd)))
    if _goes_by_rows(data, w, platform):
        first = _by_samples(lambda data, output: _first_maxima(data, output, w), data, output)
    else:
        first = _first_maxima(data, output, w)
    return overlap_add(lambda i: lax.select(first == i, ograd, zero), data.shape, w)


@lowers("_backward_Pooling_pick")
def _pick(p: ops.PoolingParams, value: Array, data: Array, output: Array) -> Array:
    w = ops.windows(p, data.shape)
    if w.are_blocks:
        blocks = _Blocks(w, data.shape)
        chosen = _first_maxima_in_blocks(blocks, data, output) == blocks.order
        return jnp.sum(jnp.where(chosen, blocks.split(value), _number(0, value)), blocks.inner, dtype=value.dtype)
    first, zero = _first_maxima(data, output, w), lax.full_like(output, 0)
    padded = reached(value, w, 0)
    return fold(w.kernel, lambda i, total: total + lax.select(first == i, element(padded, w, i), zero), zero)
