"""The data gradient of a strided convolution, by phases: elements a stride apart have the same places of the window.

XLA spreads the head gradient by zeros, s² - 1 of s² products being with zeros. By phases, each of the s² sets of
elements is a small dense convolution of stride 1 over the head gradient, with its own places of the window. Depth-wise
that is 100 to 500 times faster; dense, XLA's takes channels last as long where there are many channels (28², 128→256,
batch 16: both 10 ms; channels first it took 50). All phases as channels of one product, with zeros for the places that
a phase lacks, took twice as long.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import gcd

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.convolutions.geometry import Geometry

__all__ = ["by_phases", "swapped"]

Forward = Callable[[Array, Array, Geometry], Array]


def swapped(weight: Array, groups: int) -> Array:
    """Map (*kernel, c / g, f) → (*kernel, f / g, c): filters and channels of each group exchanged."""
    if groups == 1:
        return jnp.swapaxes(weight, -1, -2)
    *kernel, channels, filters = weight.shape
    split = weight.reshape(*kernel, channels, groups, filters // groups)
    return jnp.swapaxes(split, -1, -3).reshape(*kernel, filters // groups, groups * channels)


def _padded(ograd: Array, low: Sequence[int], high: Sequence[int]) -> Array:
    """Return zeros around the spatial axes; negative numbers cut off."""
    config = [(0, 0, 0), *((a, b, 0) for a, b in zip(low, high, strict=True)), (0, 0, 0)]
    return lax.pad(ograd, np.zeros((), ograd.dtype), config)


def _counts(g: Geometry) -> tuple[int, ...]:
    """Return elements of a phase, of each axis: as many for all phases, what is too much is cut off."""
    return tuple(-(-size // stride) for size, stride in zip(g.size, g.stride, strict=True))


def _cut(data: Array, g: Geometry) -> Array:
    return lax.slice(data, (0,) * data.ndim, (data.shape[0], *g.size, data.shape[-1]))


def _inner(ograd: Array, g: Geometry, kernel: Sequence[int], dilate: Sequence[int], filters: int) -> Geometry:
    """Return the geometry of a convolution of stride 1 over the padded head gradient."""
    one, none = (1,) * len(g.kernel), (0,) * len(g.kernel)
    return replace(
        *(g,),
        size=ograd.shape[1:-1],
        channels=g.filters,
        filters=filters,
        kernel=tuple(kernel),
        stride=one,
        dilate=tuple(dilate),
        pad=none,
    )


def by_phases(ograd: Array, weight: Array, g: Geometry, forward: Forward) -> Array:
    """Return a convolution for each phase, their results interleaved. forward: computes them.

    Element s·q + r of data has met element q + a of the output at place k of the window where r + pad - d·k = s·a.
    """
    counts, turned = _counts(g), swapped(weight, g.groups)
    by_phase = []
    for phase in itertools.product(*map(range, g.stride)):
        places = [_places(g, axis, r) for axis, r in enumerate(phase)]
        if not all(places):
            by_phase.append(jnp.zeros((ograd.shape[0], *counts, g.channels), ograd.dtype))
            continue
        part, low, high = turned, [], []
        for axis, at in enumerate(places):
            part = lax.rev(lax.slice_in_dim(part, at[0], at[-1] + 1, at.step, axis), (axis,))
            first, last = ((phase[axis] + g.pad[axis] - g.dilate[axis] * k) // g.stride[axis] for k in (at[-1], at[0]))
            low.append(-first)
            high.append(counts[axis] - 1 + last - (g.out_size[axis] - 1))
        dilate = [d // gcd(d, s) for d, s in zip(g.dilate, g.stride, strict=True)]
        padded = _padded(ograd, low, high)
        by_phase.append(forward(padded, part, _inner(padded, g, part.shape[:-2], dilate, g.channels)))
    return _cut(_interleaved(jnp.stack(by_phase), g, counts), g)


def _places(g: Geometry, axis: int, phase: int) -> range:
    """Return the places of the window in a phase of an axis."""
    stride, dilate, kernel = g.stride[axis], g.dilate[axis], g.kernel[axis]
    step = stride // gcd(stride, dilate)
    first = next((k for k in range(min(step, kernel)) if (phase + g.pad[axis] - dilate * k) % stride == 0), kernel)
    return range(first, kernel, step)


def _interleaved(phases: Array, g: Geometry, counts: tuple[int, ...]) -> Array:
    """Map (phases, n, *counts, c) → (n, *(counts · stride), c)."""
    rank = len(counts)
    split = phases.reshape(*g.stride, *phases.shape[1:])
    order = [rank, *(axis for i in range(rank) for axis in (rank + 1 + i, i)), 2 * rank + 1]
    return split.transpose(order).reshape(-1, *(n * s for n, s in zip(counts, g.stride, strict=True)), g.channels)
