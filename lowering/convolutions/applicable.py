"""The geometry of an operator, and which algorithms can compute it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from lowering.convolutions.geometry import Direction, Geometry
from symjax_nnvm.ir.types import DType
from symjax_nnvm.ops.nn.channels_last import MAX_PRODUCTS, ChannelsLastGeometry
from symjax_nnvm.ops.nn.convolution import ConvolutionGeometry
from symjax_nnvm.ops.nn.fully_connected import FullyConnectedParams
from symjax_nnvm.passes.choose_algorithm import UNCHOSEN

__all__ = [
    "ALGORITHMS",
    "LIBRARY",
    "MAX_PRODUCTS",
    "XLA",
    "applicable",
    "applies",
    "geometry_of",
    "strip",
    "winograd_tile",
]

CHUNKS = "_chunks"
"""Ends the name of an algorithm that takes one sample, or a strip of it, after the other: what is made stays in the
cache."""

CHUNK_BYTES = 16 << 20
"""Of the windows of one strip, were they laid out: as much as stays in 32 MiB of shared cache."""

_IN_CHUNKS: Mapping[Direction, tuple[str, ...]] = {
    "forward": ("im2col",),
    "data": ("im2col",),
    "weight": ("im2col", "winograd4"),
}


def geometry_of(
    p: ConvolutionGeometry | ChannelsLastGeometry | FullyConnectedParams, data: Sequence[int], dtype: DType
) -> Geometry:
    """Return the geometry of an operator with these parameters. data: the shape of its first input, (n, *size, c) of a
    convolution in any layout."""
    if isinstance(p, FullyConnectedParams):
        depth, count = (prod(data[1:]), data[0]) if p.flatten else (data[-1], prod(data[:-1]))
        return Geometry(1, (count,), depth, p.num_hidden, (1,), (1,), (1,), (0,), dtype=dtype)
    _, strides, dilations, pads = zip(*p.steps, strict=True)
    batch, *size, channels = data
    return Geometry(batch, tuple(size), channels, p.num_filter, p.kernel, strides, dilations, pads, p.num_group, dtype)


# -- where each can be used ------------------------------------------------------------------------------------------


def _has_stride_1(g: Geometry) -> bool:
    return all(stride == 1 for stride in g.stride)


def _by_windows(direction: Direction, g: Geometry) -> bool:
    """Return whether there are windows to go by: a data gradient has those of the head gradient at stride 1."""
    return prod(g.kernel) * g.groups > 1 and (direction != "data" or _has_stride_1(g))


def _by_im2col(direction: Direction, g: Geometry) -> bool:
    """Products of groups of fewer channels are not worth laying the groups apart."""
    return _by_windows(direction, g) and (g.groups == 1 or min(g.channels, g.filters) // g.groups >= 4)


def _by_product(direction: Direction, g: Geometry) -> bool:
    return g.groups == 1 and prod(g.kernel) == 1 and not any(g.pad)


def _by_whole(direction: Direction, g: Geometry) -> bool:
    """Return whether one window is all of the data."""
    return g.groups == 1 and prod(g.kernel) > 1 and g.kernel == g.size and not any(g.pad) and set(g.out_size) == {1}


def _by_winograd(direction: Direction, g: Geometry) -> bool:
    plain = g.groups == 1 and g.kernel == (3, 3) and _has_stride_1(g) and g.dilate == (1, 1)
    return plain and g.dtype in ("float32", "float64")


def _by_shifts(direction: Direction, g: Geometry) -> bool:
    in_group = max(g.channels, g.filters) // g.groups
    return g.groups > 1 and in_group * prod(g.kernel) <= MAX_PRODUCTS


def _by_rows(direction: Direction, g: Geometry) -> bool:
    return direction == "weight" and len(g.kernel) == 2 and g.groups == g.channels == g.filters > 1


def _by_phases(direction: Direction, g: Geometry) -> bool:
    return direction == "data" and not _has_stride_1(g)


def _by_library(direction: Direction, g: Geometry) -> bool:
    """Return whether a library may compute it; lowering decides whether it does."""
    if direction == "forward" or g.dtype != "float32":
        return direction == "forward" and g.dtype == "float32"
    inside = all(pad <= dilate * (k - 1) for pad, dilate, k in zip(g.pad, g.dilate, g.kernel, strict=True))
    return direction == "data" and inside and (g.groups > 1 or _has_stride_1(g))


XLA = UNCHOSEN
"""The name of XLA's own algorithm."""

LIBRARY = "library"
"""The name of what a library of the platform computes (`lowering/convolutions/backends`)."""

ALGORITHMS: Mapping[str, Callable[[Direction, Geometry], bool]] = {
    "xla": lambda direction, g: True,
    "product": _by_product,
    "whole": _by_whole,
    "im2col": _by_im2col,
    "winograd2": _by_winograd,
    "winograd4": _by_winograd,
    "shifts": _by_shifts,
    "rows": _by_rows,
    "phases": _by_phases,
    LIBRARY: _by_library,
}
"""Name → whether it can compute a direction of a geometry. `lowering/convolutions/directions.py` has what each does."""


def applies(algorithm: str, direction: Direction, geometry: Geometry) -> bool:
    """Return whether an algorithm can compute a convolution or a gradient of one."""
    name = algorithm.removesuffix(CHUNKS)
    if name not in ALGORITHMS or (name != algorithm and not _has_chunks(name, direction, geometry)):
        return False
    return ALGORITHMS[name](direction, geometry)


def _has_chunks(name: str, direction: Direction, g: Geometry) -> bool:
    if (g.groups > 1 and name != "im2col") or name not in _IN_CHUNKS[direction]:
        return False
    return g.batch > 1 or (direction != "weight" and strip(g) < g.out_size[0])


def strip(g: Geometry) -> int:
    """Return rows of the output that an algorithm in chunks makes at once: as many as have their windows in a cache."""
    row = prod(g.out_size[1:]) * (prod(g.kernel) * g.channels // g.groups + g.filters) * 4
    return min(g.out_size[0], max(1, CHUNK_BYTES // row // 4) * 4)


def winograd_tile(algorithm: str) -> int | None:
    """Return the tile of an algorithm that can take a weight of `winograd.winograd_weight`; None of others."""
    name = algorithm.removesuffix(CHUNKS)
    return int(name.removeprefix("winograd")) if name.startswith("winograd") else None


def applicable(direction: Direction, geometry: Geometry) -> list[str]:
    """Return all algorithms that can compute a convolution or a gradient of one."""
    names = [*ALGORITHMS, *(name + CHUNKS for name in ALGORITHMS)]
    return [name for name in names if applies(name, direction, geometry)]
