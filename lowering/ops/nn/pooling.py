"""JAX rules of pooling and of its gradients.

Windows that overlap go through XLA's reduce-window; on a CPU with channels last along one axis after the other, which
is faster. The gradient of maxima, select-and-scatter, is slow on a CPU, so that is written out: find in each window the
first element that attains the maximum, then add up the contributions of the window positions. So is the gradient of
sums, along one axis after the other. Windows that do not overlap are blocks: a reshape brings them side by side.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial, reduce

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import ByPart, lowers
from lowering.ops.nn import window_places
from lowering.ops.nn.window_places import Number, add, cut, fold, per_axis, position
from lowering.ops.wide import wide
from symjax_nnvm.ir.rules.size_symbols import is_open
from symjax_nnvm.ops.nn import pooling as ops
from symjax_nnvm.ops.nn.pooling import Windows
from symjax_nnvm.pipeline import PLAIN

_UNROLLED = 16
"""Up to this many elements a block is reduced by slices, one for each: on a CPU five times faster than reduce-window
(2 × 2 blocks of float32[16, 64, 112, 112]: 2 ms against 11 ms)."""


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


Placing = Callable[[Array], Array]
"""A pooled array → the numbers of the windows that have each element of a phase at one place, 0 where none has."""


def overlap_add(part: Callable[[Number, Placing], Array], shape: tuple[int, ...], w: Windows) -> Array:
    """The transpose of `element`: `part(i, at)`, of pooled arrays through `at`, is added where windows have place i.

    Elements a stride apart are one phase; in a phase all windows are neighbours, so that adding needs no gaps. Filling
    gaps with zeros instead (interior padding) takes twice the time on a CPU. No window has a place in the phases from
    the kernel's size on: they are zeros, however many there are.

    What went through `at` are slices of one wider array, the same for all places. Placing what `part` makes of pooled
    arrays instead asks at each element whether a window is there, and XLA:CPU may compute that part anew for each
    place: gradients of 3×3 maxima, 2 apart, of float32[16, 64, 112, 112] take 10 ms so, and 25 the other way.
    """
    if math.prod(w.kernel) > window_places.WRITTEN_OUT:
        return _overlap_add_in_turn(lambda i: part(i, lambda x: x), shape, w)
    phases = _Phases.of_windows(w)
    sums: list[Array] = []
    for phase in itertools.product(*map(range, phases.counts)):
        parts = [
            part(int(np.ravel_multi_index(place, w.kernel)), partial(phases.place_in_cells, phase, place))
            for place in phases.places(phase)
        ]
        sums.append(reduce(lax.add, parts))
    for axis, stride, count in reversed(list(zip(w.axes, phases.strides, phases.counts, strict=True))):
        sums = [_interleaved(sums[i : i + count], axis, stride) for i in range(0, len(sums), count)]
    low = per_axis(len(shape), w.axes, phases.lows, 0)
    return lax.slice(sums[0], low, [a + d for a, d in zip(low, shape, strict=True)])


@dataclass(frozen=True)
class _Phases:
    """The phases of windows: element e of an axis is number e + low, and that is cell · stride + phase.

    strides: where there is one window its stride means nothing, and may be of any size. counts: phases in which
    elements are at a place of a window: all, or, where windows leave gaps, the first, to which `lows` moves them.
    """

    w: Windows
    strides: tuple[int, ...]
    counts: tuple[int, ...]
    lows: tuple[int, ...]
    cells: tuple[int, ...]

    @classmethod
    def of_windows(cls, w: Windows) -> _Phases:
        strides = tuple(min(s, k) if n == 1 else s for s, k, n in zip(w.stride, w.kernel, w.counts, strict=True))
        counts = tuple(min(s, k) for s, k in zip(strides, w.kernel, strict=True))
        lows = tuple(pad if s > k else 0 for pad, s, k in zip(w.pads, strides, w.kernel, strict=True))
        # A cell more than data need: on a CPU, a result that is not cut is a loop over cells and phases, which takes
        # half as long again as one over elements.
        cells = tuple((low + size) // s + 1 for low, size, s in zip(lows, w.sizes, strides, strict=True))
        return cls(w, strides, counts, lows, cells)

    def places(self, phase: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
        """Return the places that windows have in a phase."""
        shifts = zip(phase, self.w.pads, self.lows, self.strides, strict=True)
        firsts = [(j + pad - low) % s for j, pad, low, s in shifts]
        return itertools.product(*map(range, firsts, self.w.kernel, self.strides))

    def place_in_cells(self, phase: tuple[int, ...], place: tuple[int, ...], x: Array) -> Array:
        """Return in each cell the number of the window that has the cell's element of a phase at a place."""
        config, begin, end = [(0, 0, 0)] * x.ndim, [0] * x.ndim, list(x.shape)
        for i, axis in enumerate(self.w.axes):
            pad, k, s = self.w.pads[i] - self.lows[i], self.w.kernel[i], self.strides[i]
            before = max(0, -((pad - (k - 1)) // s))  # as far as any phase and place need: one array serves all
            after = max(0, self.cells[i] + (self.counts[i] - 1 + pad) // s - x.shape[axis])
            config[axis] = (before, after, 0)
            begin[axis] = before + (phase[i] + pad - place[i]) // s
            end[axis] = begin[axis] + self.cells[i]
        return lax.slice(lax.pad(x, _number(0, x), config), begin, end)


def _overlap_add_in_turn(part: Callable[[Number], Array], shape: tuple[int, ...], w: Windows) -> Array:
    """Run `overlap_add` of many places, one after the other."""
    whole = reached(lax.full(shape, 0, jax.eval_shape(part, 0).dtype), w, 0)

    def step(i: Number, total: Array) -> Array:
        return add(total, part(i), w.axes, position(w.kernel, i), w.stride)

    whole = fold(w.kernel, step, whole, loop=True)
    low = per_axis(len(shape), w.axes, w.pads, 0)
    return lax.slice(whole, low, [a + d for a, d in zip(low, shape, strict=True)])


def _interleaved(arrays: list[Array], axis: int, stride: int) -> Array:
    """Return the arrays' elements in turn along an axis; zeros stand for those that are fewer than the stride."""
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
    """Represents non-overlapping windows as axes of their own: (…, d, …) ↔ (…, count, kernel, …)."""

    w: Windows
    shape: tuple[int, ...]

    @property
    def inner(self) -> tuple[int, ...]:
        """Return the axes, in the split array, of the elements of a block."""
        return tuple(axis + i + 1 for i, axis in enumerate(self.w.axes))

    @property
    def order(self) -> np.ndarray:
        """Return the number of each place in a block, to be compared with arrays of blocks."""
        ndim = len(self.shape) + len(self.w.axes)
        numbers = np.arange(math.prod(self.w.kernel), dtype=np.int32)
        return numbers.reshape(per_axis(ndim, self.inner, self.w.kernel))

    def split(self, x: Array) -> Array:
        """Return data, without the rest after the last block, as blocks."""
        covered = self._covered()
        shape: list[int] = []
        for axis, size in enumerate(covered):
            at = self.w.axes.index(axis) if axis in self.w.axes else None
            shape += [size] if at is None else [self.w.counts[at], self.w.kernel[at]]
        return lax.slice(x, [0] * x.ndim, covered).reshape(shape)

    def expand(self, pooled: Array) -> Array:
        """Return a pooled array, to be broadcast against blocks."""
        return lax.expand_dims(pooled, self.inner)

    def join(self, blocks: Array) -> Array:
        """Return blocks as data, with zeros for the rest."""
        covered = self._covered()
        padding = [(0, size - part, 0) for size, part in zip(self.shape, covered, strict=True)]
        joined = blocks.reshape(covered)
        return lax.pad(joined, _number(0, joined), padding) if tuple(covered) != self.shape else joined

    def _covered(self) -> list[int]:
        covered = list(self.shape)
        for axis, n, k in zip(self.w.axes, self.w.counts, self.w.kernel, strict=True):
            covered[axis] = n * k
        return covered


# -- forward ---------------------------------------------------------------------------------------------------------


def _goes_by_rows(x: Array, w: Windows, platform: str) -> bool:
    """Return whether windows hold whole rows of channels, on a CPU, and few enough to be written out."""
    return platform == "cpu" and w.axes[-1] < x.ndim - 1 and math.prod(w.kernel) <= window_places.WRITTEN_OUT


def _by_samples(function: Callable[..., Array], *arrays: Array) -> Array:
    """Return a function of arrays (n, …) that computes one sample after the other: what it makes in between stays in
    the cache."""
    if arrays[0].shape[0] < 2:
        return function(*arrays)
    return lax.map(lambda samples: function(*(sample[None] for sample in samples))[0], arrays)


def _reduce_axes(x: Array, w: Windows, initial: float, function: Callable[[Array, Array], Array]) -> Array:
    """Run `_reduce` along one axis after the other: maxima of 3×3 windows, 2 apart, of float32[16, 112, 112, 64] take 5
    ms, one sample after the other, where reduce-window takes 48."""
    x = reached(x, w, initial)
    for axis, k, count, stride in reversed(list(zip(w.axes, w.kernel, w.counts, w.stride, strict=True))):
        x = reduce(function, [cut(x, (axis,), (i,), (count,), (stride,)) for i in range(k)])
    return x


def _sums_of_rows(x: Array) -> Array:
    """Map (n, …, c) → (n, 1, …, c), as a product: XLA:CPU adds up one column after the other, despite contiguous rows.
    float32[1, 7, 7, 2048] takes 0.02 to 0.03 ms in place of 0.12 to 0.24, [16, 13, 13, 1000] 0.11 in place of 0.49."""
    samples, channels = x.shape[0], x.shape[-1]
    rows = x.reshape(samples, -1, channels)
    ones = lax.full((samples, 1, rows.shape[1]), 1, x.dtype)
    sums = lax.dot_general(ones, rows, (((2,), (1,)), ((0,), (0,))), precision=lax.Precision.HIGHEST)
    return sums.reshape(samples, *(1,) * (x.ndim - 2), channels)


def _reduce(x: Array, w: Windows, initial: float, function: Callable[[Array, Array], Array], platform: str) -> Array:
    """Return every window reduced by a function whose neutral element is `initial`."""
    if w.are_long and not w.are_blocks:
        for i in reversed(range(len(w.axes))):
            x = _reduce_along(x, w.along(i), initial, function)
        return x
    is_small = math.prod(w.kernel) <= _UNROLLED
    if is_small and platform != PLAIN:
        padded = reached(x, w, initial)
        return fold(w.kernel, lambda i, value: function(value, element(padded, w, i)), element(padded, w, 0), first=1)
    if w.kernel == w.sizes and w.are_blocks and (function is lax.add or not is_small):
        if function is lax.add and platform == "cpu" and w.axes == tuple(range(1, x.ndim - 1)):
            return _sums_of_rows(x)
        reduction = jnp.max if function is lax.max else jnp.sum
        return reduction(x, w.axes, keepdims=True)
    if _goes_by_rows(x, w, platform):
        return _by_samples(lambda samples: _reduce_axes(samples, w, initial, function), x)
    return _reduce_windows(x, w, initial, function)


def _reduce_along(x: Array, w: Windows, initial: float, function: Callable[[Array, Array], Array]) -> Array:
    """Run `_reduce` of long windows along one axis."""
    w, which = w.clipped()
    (size,), (kernel,), (count,) = w.sizes, w.kernel, w.counts
    doubled = count * kernel > 8 * (size + sum(w.pads)) * kernel.bit_length()
    x = (_reduce_by_doubling if doubled else _reduce_windows)(x, w, initial, function)
    return x if which is None else jnp.take(x, which, w.axes[0])


def _reduce_by_doubling(x: Array, w: Windows, initial: float, function: Callable[[Array, Array], Array]) -> Array:
    """Run `_reduce` of long windows along one axis that overlap: of windows of 1, 2, 4, … elements at every place those
    that together are the kernel. reduce-window looks at each element of each window: maxima of 1000×1000 of
    float32[1, 1, 3000, 3000] take 29 s so, and 0.5 s here. Each step is a reduce-window of two elements, which XLA
    makes no part of the next."""
    axis, kernel, stride = w.axes[0], w.kernel[0], w.stride[0]
    span = (w.counts[0] - 1) * stride + 1
    power, width, done = reached(x, w, initial), 1, 0
    reduced: Array | None = None
    while done < kernel:
        if kernel & width:
            part = lax.slice_in_dim(power, done, done + span, stride, axis)
            reduced, done = part if reduced is None else function(reduced, part), done + width
        if done < kernel:
            pair = per_axis(x.ndim, (axis,), (2,))
            apart = per_axis(x.ndim, (axis,), (width,))
            ones = (1,) * x.ndim
            power = lax.reduce_window(power, _number(initial, x), function, pair, ones, "VALID", None, apart)
            width *= 2
    assert reduced is not None
    return reduced


def _reduce_windows(x: Array, w: Windows, initial: float, function: Callable[[Array, Array], Array]) -> Array:
    padding = [(0, 0)] * x.ndim
    for axis, low, high in zip(w.axes, w.pads, w.overhangs, strict=True):
        padding[axis] = (low, max(high, 0))
    kernel, stride = per_axis(x.ndim, w.axes, w.kernel), per_axis(x.ndim, w.axes, w.stride)
    return lax.reduce_window(x, _number(initial, x), function, kernel, stride, padding)


def _reduce_open(
    p: ops.PoolingParams,
    x: Array,
    w: Windows,
    initial: float,
    function: Callable[[Array, Array], Array],
    padded: bool = False,
) -> Array:
    """Run `_reduce` of sizes that were left open: how far windows reach follows from the convention. padded: x has its
    padding already."""
    if p.global_pool:
        return (jnp.max if function is lax.max else jnp.sum)(x, w.axes, keepdims=True)
    padding = [(0, 0)] * x.ndim
    for axis, low, k, s in zip(w.axes, w.pads, w.kernel, w.stride, strict=True):
        high = {"valid": low, "full": low + s - 1, "same": k - 1 - low}[p.pooling_convention]
        padding[axis] = (0, high - low) if padded else (low, high)
    kernel, stride = per_axis(x.ndim, w.axes, w.kernel), per_axis(x.ndim, w.axes, w.stride)
    return lax.reduce_window(x, _number(initial, x), function, kernel, stride, padding)


def _divide_open(p: ops.PoolingParams, x: Array, w: Windows) -> Array:
    """Run `_divide` of sizes that were left open: the elements of each window are counted."""
    if p.global_pool:
        return x / jnp.asarray(math.prod(w.sizes), x.dtype)
    ones = jnp.ones(per_axis(x.ndim, w.axes, w.sizes), x.dtype)
    padded = p.count_include_pad is not False
    if padded:
        ones = jnp.pad(ones, per_axis(x.ndim, w.axes, [(pad, pad) for pad in w.pads], (0, 0)), constant_values=1)
    return x / jnp.maximum(_reduce_open(p, ones, w, 0, lax.add, padded), 1)


def _divide(p: ops.PoolingParams, x: Array, w: Windows) -> Array:
    """Return a pooled array over the number of elements of each window."""
    counts = ops.divisors(p, w)
    if (counts == counts.flat[0]).all():
        return x / float(counts.flat[0])
    shape = per_axis(x.ndim, w.axes, w.counts)
    return x / counts.reshape(shape).astype(x.dtype)


@lowers("Pooling", needs=("platform",), by_part=ByPart((0,)))
def _pooling(p: ops.PoolingParams, data: Array, *, platform: str) -> Array:
    pooled = pool(p, data, platform=platform)
    empty = p.pool_type == "max" and _has_empty_windows(ops.windows(p, data.shape))
    return _at_least_a_number(pooled) if empty else pooled


def pool(p: ops.PoolingParams, data: Array, *, platform: str) -> Array:
    """What each window gives; the maximum of no element is minus infinity."""
    w = ops.windows(p, data.shape)
    if any(map(is_open, w.sizes)):
        reduced, divided = partial(_reduce_open, p), _divide_open
    else:
        reduced, divided = partial(_reduce, platform=platform), _divide
    if p.pool_type == "max":
        return reduced(data, w, -np.inf, lax.max)
    x = wide(data)
    if p.pool_type == "lp" and p.p_value in (2, 3):
        total = reduced(lax.integer_pow(x, p.p_value), w, 0, lax.add)
        return (lax.sqrt(total) if p.p_value == 2 else lax.cbrt(total)).astype(data.dtype)
    total = reduced(x, w, 0, lax.add)
    return (divided(p, total, w) if p.pool_type == "avg" else total).astype(data.dtype)


def _has_empty_windows(w: ops.Windows) -> bool:
    """Return whether a window has no element of the data, as far as sizes are known."""
    return not any(map(is_open, w.sizes)) and w.are_empty


def _at_least_a_number(maxima: Array) -> Array:
    """Return maxima, of which those of no element are the lowest number, as in MXNet, not minus infinity: 0 of it is
    0."""
    is_float = jnp.issubdtype(maxima.dtype, jnp.floating)
    return jnp.maximum(maxima, jnp.finfo(maxima.dtype).min) if is_float else maxima


# -- gradients -------------------------------------------------------------------------------------------------------


@lowers("_backward_Pooling_sum")
def _sum_gradient(p: ops.PoolingParams, ograd: Array, data: Array) -> Array:
    w = ops.windows(p, data.shape)
    dy = wide(ograd)
    if p.pool_type == "avg":
        dy = _divide(p, dy, w)
    if w.are_blocks:
        blocks = _Blocks(w, data.shape)
        shape = list(blocks.expand(dy).shape)
        for axis, k in zip(blocks.inner, w.kernel, strict=True):
            shape[axis] = k
        return blocks.join(jnp.broadcast_to(blocks.expand(dy.astype(data.dtype)), shape))
    for axis in reversed(range(len(w.axes))):  # sums of sums
        shape = list(dy.shape)
        shape[w.axes[axis]] = w.sizes[axis]
        one, which = w.along(axis).clipped() if w.are_long else (w.along(axis), None)
        dy = _gathered_back(dy, one, which)
        dy = overlap_add(lambda i, at, dy=dy: at(dy), tuple(shape), one)
    return dy.astype(data.dtype)


def _gathered_back(dy: Array, w: Windows, which: np.ndarray | None) -> Array:
    """Return the transpose of taking `which` of the windows along an axis."""
    if which is None:
        return dy
    axis, shape = w.axes[0], list(dy.shape)
    shape[axis] = w.counts[0]
    return jnp.zeros(shape, dy.dtype).at[(slice(None),) * axis + (which,)].add(dy)


def _first_maxima(data: Array, output: Array, w: Windows, *, loop: bool = False) -> Array:
    """Return the number of the place in each window that attains its maximum first."""
    padded, count = reached(data, w, -np.inf), math.prod(w.kernel)

    def step(i: Number, number: Array) -> Array:
        place = count - 1 - i
        return lax.select(element(padded, w, place) == output, lax.full_like(number, place), number)

    return fold(w.kernel, step, lax.full(output.shape, count, np.int32), loop=loop)


def _maxima_along(data: Array, w: Windows) -> list[tuple[Windows, Array, Array]]:
    """Return the stages of reducing long windows along one axis: (windows, before, after), the last axis first. The
    first maximum of a window is in the first row that attains it, and the first there."""
    stages: list[tuple[Windows, Array, Array]] = []
    for i in reversed(range(len(w.axes))):
        one = w.along(i)
        reduced = _reduce_along(data, one, -np.inf, lax.max)
        stages.append((one, data, reduced))
        data = reduced
    return stages


def _first_maxima_in_blocks(blocks: _Blocks, data: Array, output: Array) -> Array:
    """Return the same for blocks, in the shape of a pooled array that was expanded."""
    ties = blocks.split(data) == blocks.expand(output)
    numbers = jnp.where(ties, blocks.order, np.int32(blocks.order.size))
    return jnp.min(numbers, blocks.inner, keepdims=True)


@lowers("_backward_Pooling_max", needs=("platform",), by_part=ByPart((0, 1, 2)))
def _max_gradient(p: ops.PoolingParams, ograd: Array, data: Array, output: Array, *, platform: str) -> Array:
    w = ops.windows(p, data.shape)
    if w.are_blocks:
        blocks = _Blocks(w, data.shape)
        chosen = _first_maxima_in_blocks(blocks, data, output) == blocks.order
        return blocks.join(jnp.where(chosen, blocks.expand(ograd), _number(0, ograd)))
    if w.are_long:
        for one, before, after in reversed(_maxima_along(data, w)):
            ograd = _max_gradient_along(ograd, before, after, one)
        return ograd
    if platform == "cpu" and w.are_padded and math.prod(w.kernel) <= window_places.WRITTEN_OUT:
        # On a CPU padding and comparisons are one loop, which takes half as long again where it is not one sample's;
        # data without padding are read by a loop over samples three times as slowly.
        first = _by_samples(lambda data, output: _first_maxima(data, output, w), data, output)
    else:
        first = _first_maxima(data, output, w)
    return overlap_add(lambda i, at: jnp.where(at(first) == i, at(ograd), _number(0, ograd)), data.shape, w)


def _max_gradient_along(ograd: Array, data: Array, output: Array, w: Windows) -> Array:
    clipped, which = w.clipped()
    if which is not None:
        output = _reduce_windows(data, clipped, -np.inf, lax.max)
    first, dy = _first_maxima(data, output, clipped, loop=True), _gathered_back(ograd, clipped, which)
    return _overlap_add_in_turn(lambda i: jnp.where(first == i, dy, _number(0, dy)), data.shape, clipped)


def _pick_along(value: Array, data: Array, output: Array, w: Windows) -> Array:
    clipped, which = w.clipped()
    if which is not None:
        output = _reduce_windows(data, clipped, -np.inf, lax.max)
    picked = _pick_first(value, data, output, clipped, loop=True)
    return picked if which is None else jnp.take(picked, which, w.axes[0])


@lowers("_backward_Pooling_pick")
def _pick(p: ops.PoolingParams, value: Array, data: Array, output: Array) -> Array:
    w = ops.windows(p, data.shape)
    if w.are_blocks:
        blocks = _Blocks(w, data.shape)
        chosen = _first_maxima_in_blocks(blocks, data, output) == blocks.order
        return jnp.sum(jnp.where(chosen, blocks.split(value), _number(0, value)), blocks.inner, dtype=value.dtype)
    if w.are_long:
        for one, before, after in _maxima_along(data, w):
            value = _pick_along(value, before, after, one)
        return value
    return _pick_first(value, data, output, w)


def _pick_first(value: Array, data: Array, output: Array, w: Windows, *, loop: bool = False) -> Array:
    first, zero = _first_maxima(data, output, w, loop=loop), lax.full_like(output, 0)
    padded = reached(value, w, 0)

    def step(i: Number, total: Array) -> Array:
        return total + lax.select(first == i, element(padded, w, i), zero)

    return fold(w.kernel, step, zero, loop=loop)
