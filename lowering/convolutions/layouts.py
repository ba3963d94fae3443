"""The layout of a weight: in blocks of filters, as a library wants it, and the word by which operators name it."""

from __future__ import annotations

import re
from math import prod
from typing import Any, NamedTuple

import numpy as np

from lowering.convolutions.geometry import Geometry

__all__ = ["Blocks", "is_layout"]

_LAYOUT = re.compile("b([1-9][0-9]{0,5})c([1-9][0-9]{0,8})")


def is_layout(word: str) -> bool:
    """Return whether a word names a layout: `b16c64`, blocks of 16 filters of a convolution of 64 channels."""
    return _LAYOUT.fullmatch(word) is not None


class Blocks(NamedTuple):
    """A weight in blocks of filters: (groups, f / block, *kernel, c / groups, block), the filters of a group filled
    up with zeros; where each channel is a group with one filter, (*kernel, f), filled up to a multiple of the block."""

    block: int
    kernel: tuple[int, ...]
    channels: int
    filters: int
    groups: int

    @classmethod
    def of_weight(cls, block: int, g: Geometry) -> Blocks:
        """Return the blocks of a geometry's weight."""
        return cls(block, g.kernel, g.channels, g.filters, g.groups)

    @classmethod
    def read(cls, layout: str, kernel: tuple[int, ...], filters: int, groups: int) -> Blocks:
        """Return the blocks of a word that `layout` made. Raises ValueError for another word."""
        match = _LAYOUT.fullmatch(layout)
        if match is None:
            raise ValueError(f"{layout!r} is not a layout of a weight")
        return cls(int(match[1]), kernel, int(match[2]), filters, groups)

    @property
    def layout(self) -> str:
        """Return the word for the layout that operators have as a parameter."""
        return f"b{self.block}c{self.channels}"

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the weight in blocks."""
        if self._is_depthwise:
            return (*self.kernel, self._filled(self.filters))
        blocks = self._filled(self.filters // self.groups) // self.block
        return (self.groups, blocks, *self.kernel, self.channels // self.groups, self.block)

    @property
    def length(self) -> int:
        """Return how many numbers the weight in blocks has."""
        return prod(self.shape)

    def lay(self, weight: Any, numpy: Any) -> Any:
        """Return a weight (*kernel, c / groups, f) in blocks. numpy: the module of its arrays."""
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
        """Return what `lay` made, as it was before."""
        rank = len(self.kernel)
        whole = (*self.kernel, self.channels // self.groups, self.filters)
        if self._is_depthwise:
            return blocks[..., : self.filters].reshape(whole)
        rows = blocks.transpose(*range(2, rank + 3), 0, 1, rank + 3)
        filled = rows.reshape(*rows.shape[:-2], -1)[..., : self.filters // self.groups]
        return filled.reshape(whole)

    def where(self, filter: int) -> Any:
        """Return where in the flat blocks a filter's numbers (taps, c / groups) are."""
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
