"""The pieces of an ONNX graph while it is written: tensors, nodes, bodies of loops; no `onnx` is needed for them.

A graph is inferred once for each of several assignments of numbers to its named dimensions; a dimension that differs
between them is known only at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from symjax_nnvm.ir.types import DType, Shape, is_known
from symjax_nnvm.mxnet.bfloat16 import bfloat16

Sizes = tuple[int | None, ...]
"""A dimension under each assignment."""


class Tensor:
    """A value of the graph.

    name: in the file. dtype: its name. shapes: its shape under each assignment, None where only run time knows even
    how many axes there are. value: of a constant, its array.
    """

    __slots__ = ("dtype", "name", "shapes", "value")

    def __init__(self, name: str, dtype: DType, shapes: Sequence[Shape] | None = None, value: np.ndarray | None = None):
        self.name = name
        self.dtype = dtype
        self.shapes = shapes
        self.value = value

    @property
    def sizes(self) -> tuple[Sizes, ...]:
        """Return each dimension under every assignment. The rank must be known."""
        assert self.shapes is not None, f"the shape of {self.name} is unknown"
        return tuple(zip(*self.shapes, strict=True))

    @property
    def shape(self) -> Shape:
        """Return the dimensions that are numbers; None for those that run time decides."""
        return tuple(fixed(sizes) for sizes in self.sizes)

    @property
    def ndim(self) -> int:
        """Return how many axes it has."""
        return len(self.sizes)

    @property
    def is_static(self) -> bool:
        """Return whether every dimension is a number."""
        return self.shapes is not None and is_known(self.shape)

    def __repr__(self) -> str:
        return f"<Tensor {self.name} {self.dtype}{self.shape if self.shapes is not None else ''}>"


def fixed(sizes: Sizes) -> int | None:
    """Return a dimension that is the same under every assignment; None for any other."""
    return sizes[0] if len(set(sizes)) == 1 else None


@dataclass
class OnnxNode:
    """One ONNX node: its operator, inputs (None: left out), outputs, attributes (an `OnnxBody` may be one)."""

    kind: str
    inputs: list[Tensor | None]
    outputs: list[Tensor]
    attrs: dict[str, Any] = field(default_factory=dict)
    name: str = ""


@dataclass
class OnnxBody:
    """A graph inside a node: of Loop, Scan or If. It sees the tensors of the graph around it."""

    name: str
    nodes: list[OnnxNode]
    inputs: list[Tensor]
    outputs: list[Tensor]


def numpy_dtype(dtype: DType) -> np.dtype:
    """Return the NumPy dtype of a name, `bfloat16` included. Raises MissingExtraError."""
    return bfloat16() if dtype == "bfloat16" else np.dtype(dtype)


def unique(name: str, taken: dict[str, int]) -> str:
    """Return the name, or one like it that is not taken; it is taken then. taken: names, and the last number that was
    put behind each, so that many of one name take no longer than as many different ones."""
    candidate, number = name, taken.get(name, 0)
    while candidate in taken:
        number += 1
        candidate = f"{name}_{number}"
    taken[name] = number
    taken.setdefault(candidate, 0)
    return candidate
