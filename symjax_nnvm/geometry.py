"""A convolution's geometry, and which algorithms can compute it.

For `algorithms.choose` and `lowering/convolutions`, which says what each algorithm does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

__all__ = [
    "ALGORITHMS",
    "LIBRARY",
    "MAX_PRODUCTS",
    "XLA",
    "Blocks",
    "Direction",
    "Epilogue",
    "Geometry",
    "Library",
    "Machine",
    "applicable",
    "applies",
    "strip",
    "turned",
    "winograd_tile",
]

Direction = Literal["forward", "data", "weight"]
"""What is computed: the convolution, the gradient of its data, or the gradient of its weight."""

MAX_PRODUCTS = 64
"""Grouped convolutions with more products than this in an output element are left to XLA: each is an operation of its
own in the program."""

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


@dataclass(frozen=True)
class Geometry:
    """A convolution's shapes: data (batch, *size, channels), weight (*kernel, channels / groups, filters).

    size, kernel, stride, dilate and pad: a number for each spatial axis; pad zeros stand at both its ends. dtype: name.
    """

    batch: int
    size: tuple[int, ...]
    channels: int
    filters: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilate: tuple[int, ...]
    pad: tuple[int, ...]
    groups: int = 1
    dtype: str = "float32"

    @property
    def out_size(self) -> tuple[int, ...]:
        """The spatial axes of the output (batch, *out_size, filters)."""
        axes = zip(self.size, self.kernel, self.stride, self.dilate, self.pad, strict=True)
        return tuple((size + 2 * pad - dilate * (k - 1) - 1) // stride + 1 for size, k, stride, dilate, pad in axes)

    @property
    def macs(self) -> int:
        """Multiplications of the convolution, and of each of its gradients."""
        return self.batch * prod(self.out_size) * prod(self.kernel) * self.channels // self.groups * self.filters


# -- where each can be used ------------------------------------------------------------------------------------------


def turned(g: Geometry) -> Geometry:
    """The convolution of the head gradient that gives the gradient of data, where the stride is 1."""
    pad = tuple(d * (k - 1) - pad for d, k, pad in zip(g.dilate, g.kernel, g.pad, strict=True))
    return replace(g, size=g.out_size, channels=g.filters, filters=g.channels, pad=pad)


def _has_stride_1(g: Geometry) -> bool:
    return all(stride == 1 for stride in g.stride)


def _by_windows(direction: Direction, g: Geometry) -> bool:
    """A data gradient looks at windows of the head gradient where the stride is 1."""
    return prod(g.kernel) * g.groups > 1 and (direction != "data" or _has_stride_1(g))


def _by_im2col(direction: Direction, g: Geometry) -> bool:
    """Products of groups of fewer channels are not worth laying the groups apart."""
    return _by_windows(direction, g) and (g.groups == 1 or min(g.channels, g.filters) // g.groups >= 4)


def _by_product(direction: Direction, g: Geometry) -> bool:
    return g.groups == 1 and prod(g.kernel) == 1 and not any(g.pad)


def _by_turned(direction: Direction, g: Geometry) -> bool:
    return direction == "weight" and _by_product(direction, g) and _has_stride_1(g)


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
    """As far as a library may have it; whether it does is for lowering to say."""
    if direction == "forward" or g.dtype != "float32":
        return direction == "forward" and g.dtype == "float32"
    inside = all(pad <= dilate * (k - 1) for pad, dilate, k in zip(g.pad, g.dilate, g.kernel, strict=True))
    return direction == "data" and inside and (g.groups > 1 or _has_stride_1(g))


XLA = "xla"
"""The name of what XLA computes as it is asked to."""

LIBRARY = "library"
"""The name of what a library of the platform computes (`lowering/convolutions/onednn.py`)."""

ALGORITHMS: Mapping[str, Callable[[Direction, Geometry], bool]] = {
    "xla": lambda direction, g: True,
    "product": _by_product,
    "turned": _by_turned,
    "im2col": _by_im2col,
    "winograd2": _by_winograd,
    "winograd4": _by_winograd,
    "shifts": _by_shifts,
    "rows": _by_rows,
    "phases": _by_phases,
    LIBRARY: _by_library,
}
"""Name → whether it can compute a direction of a geometry. `lowering/convolutions` says what each does."""


def applies(algorithm: str, direction: Direction, geometry: Geometry) -> bool:
    """Whether an algorithm can compute a convolution or a gradient of one."""
    name = algorithm.removesuffix(CHUNKS)
    if name not in ALGORITHMS or (name != algorithm and not _has_chunks(name, direction, geometry)):
        return False
    return ALGORITHMS[name](direction, geometry)


def _has_chunks(name: str, direction: Direction, g: Geometry) -> bool:
    if (g.groups > 1 and name != "im2col") or name not in _IN_CHUNKS[direction]:
        return False
    return g.batch > 1 or (direction != "weight" and strip(g) < g.out_size[0])


def strip(g: Geometry) -> int:
    """Rows of the output that an algorithm in chunks makes at once: as many as have their windows in a cache."""
    row = prod(g.out_size[1:]) * (prod(g.kernel) * g.channels // g.groups + g.filters) * 4
    return min(g.out_size[0], max(1, CHUNK_BYTES // row // 4) * 4)


def winograd_tile(algorithm: str) -> int | None:
    """The tile of an algorithm that can take a weight of `lowering.convolutions.winograd_weight`; None of others."""
    name = algorithm.removesuffix(CHUNKS)
    return int(name.removeprefix("winograd")) if name.startswith("winograd") else None


def applicable(direction: Direction, geometry: Geometry) -> list[str]:
    """All algorithms that can compute a convolution or a gradient of one."""
    names = [*ALGORITHMS, *(name + CHUNKS for name in ALGORITHMS)]
    return [name for name in names if applies(name, direction, geometry)]


# -- weights in blocks of filters, and what follows a convolution ----------------------------------------------------


class Epilogue(NamedTuple):
    """What a library does with a convolution's result before it is written: adds a bias, adds an array of its shape,
    and then "relu", "relu6" or "gelu"."""

    bias: bool = False
    addend: bool = False
    act_type: str = ""


class Library(Protocol):
    """A platform's library of convolutions. Two that are equal answer alike."""

    def block(self, geometry: Geometry, epilogue: Epilogue) -> int | None:
        """How many filters are in a block of the weight that it takes; None where it does not compute a geometry with
        what follows."""
        ...

    def computes(self, direction: Direction, geometry: Geometry) -> bool:
        """Whether it computes a direction with a plain weight, where `applies` says that it might."""
        ...


class Machine(NamedTuple):
    """Where convolutions run.

    platform: "cpu", "gpu", "tpu" or "any". library: what may be called there. precise: in float32 no algorithm whose
    errors exceed 1e-6 of scale, as in training.
    """

    platform: str
    library: Library | None = None
    precise: bool = False

    def takes(self, block: int, geometry: Geometry, epilogue: Epilogue) -> bool:
        """Whether the library computes a geometry with what follows, from a weight in blocks of so many filters."""
        return block > 0 and self.library is not None and self.library.block(geometry, epilogue) == block


class Blocks(NamedTuple):
    """A weight in blocks of filters: (groups, f / block, *kernel, c / groups, block), the filters of a group filled up
    with zeros; where each channel is a group with one filter, (*kernel, f), filled up to a multiple of the block."""

    block: int
    kernel: tuple[int, ...]
    channels: int
    filters: int
    groups: int

    @classmethod
    def of(cls, block: int, g: Geometry) -> Blocks:
        """Of a geometry's weight."""
        return cls(block, g.kernel, g.channels, g.filters, g.groups)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the weight in blocks."""
        if self._is_depthwise:
            return (*self.kernel, self._filled(self.filters))
        blocks = self._filled(self.filters // self.groups) // self.block
        return (self.groups, blocks, *self.kernel, self.channels // self.groups, self.block)

    @property
    def length(self) -> int:
        """How many numbers the weight in blocks has."""
        return prod(self.shape)

    def lay(self, weight: Any, numpy: Any) -> Any:
        """A weight (*kernel, c / groups, f) in blocks. numpy: the module of its arrays."""
        rank = len(self.kernel)
        if self._is_depthwise:
            flat = weight.reshape(*self.kernel, self.filters)
            return numpy.pad(flat, [*[(0, 0)] * rank, (0, self.shape[-1] - self.filters)])
        filters = self.filters // self.groups
        grouped = weight.reshape(*self.kernel, self.channels // self.groups, self.groups, filters)
        filled = numpy.pad(grouped, [*[(0, 0)] * (rank + 2), (0, self._filled(filters) - filters)])
        blocks = filled.reshape(*filled.shape[:-1], -1, self.block)
        return blocks.transpose(rank + 1, rank + 2, *range(rank + 1), rank + 3)

    def unlay(self, blocks: Any) -> Any:
        """What `lay` made, as it was before."""
        rank = len(self.kernel)
        whole = (*self.kernel, self.channels // self.groups, self.filters)
        if self._is_depthwise:
            return blocks[..., : self.filters].reshape(whole)
        rows = blocks.transpose(*range(2, rank + 3), 0, 1, rank + 3)
        filled = rows.reshape(*rows.shape[:-2], -1)[..., : self.filters // self.groups]
        return filled.reshape(whole)

    def where(self, filter: int) -> Any:
        """Where in the flat blocks a filter's numbers (taps, c / groups) are."""
        taps, share = prod(self.kernel), self.channels // self.groups
        tap, channel = np.arange(taps)[:, None], np.arange(share)
        if self._is_depthwise:
            return tap * self.shape[-1] + filter
        group, inside = divmod(filter, self.filters // self.groups)
        first = group * self.shape[1] + inside // self.block
        return ((first * taps + tap) * share + channel) * self.block + inside % self.block

    @property
    def _is_depthwise(self) -> bool:
        return self.groups == self.channels == self.filters > 1

    def _filled(self, filters: int) -> int:
        return -(-filters // self.block) * self.block
