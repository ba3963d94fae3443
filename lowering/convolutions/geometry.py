"""A convolution's geometry, and what may follow it.

A dense layer is a convolution with a window of one place, whose rows are side by side. The child process that tries
native code reads this file and needs nothing of the library besides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Literal, NamedTuple

Direction = Literal["forward", "data", "weight"]
"""What is computed: the convolution, the gradient of its data, or the gradient of its weight."""


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
        """Return the spatial axes of the output (batch, *out_size, filters)."""
        axes = zip(self.size, self.kernel, self.stride, self.dilate, self.pad, strict=True)
        return tuple((size + 2 * pad - dilate * (k - 1) - 1) // stride + 1 for size, k, stride, dilate, pad in axes)

    @property
    def macs(self) -> int:
        """Return multiplications of the convolution, and of each of its gradients."""
        return self.batch * prod(self.out_size) * prod(self.kernel) * self.channels // self.groups * self.filters


class Epilogue(NamedTuple):
    """What follows a convolution before its result is written: a bias is added, an array of the result's shape is
    added, and then "relu", "relu6" or "gelu" is applied."""

    bias: bool = False
    addend: bool = False
    act_type: str = ""


def turned(g: Geometry) -> Geometry:
    """Return the convolution of the head gradient that gives the gradient of data, where the stride is 1."""
    pad = tuple(d * (k - 1) - pad for d, k, pad in zip(g.dilate, g.kernel, g.pad, strict=True))
    return replace(g, size=g.out_size, channels=g.filters, filters=g.channels, pad=pad)
