"""The tensors of an ONNX file while it is read: constants, or outputs of a symbol.

A file whose inputs have open dimensions is read once, with the shapes for each of several numbers in their place
(`Dimensions` writes files in the same way): a size, and values that follow from sizes, are known under each assignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from symjax_nnvm.ir.types import DType
from symjax_nnvm.onnx.tensors import fixed
from symjax_nnvm.symbol.symbol import Symbol

Numbers = tuple[int, ...]


@dataclass(eq=False)
class Value:
    """A tensor of the file.

    name: in the file. dtype: ONNX'. shapes: under each assignment, those of ONNX: a symbol has (1,) for (). arrays: of
    what is known, under each assignment. symbol: what computes it; None of what is known, until an operator reads it.
    held: the symbol's dtype, which need not be ONNX': truth values are numbers. in_graph: whether the file has it
    in its nodes, not among its weights.
    """

    name: str
    dtype: DType
    shapes: Sequence[Numbers]
    arrays: Sequence[np.ndarray] | None = None
    symbol: Symbol | None = None
    held: DType = ""
    in_graph: bool = False

    @property
    def ndim(self) -> int:
        """How many axes ONNX gives it."""
        return len(self.shapes[0])

    @property
    def sizes(self) -> tuple[Numbers, ...]:
        """Each dimension under every assignment."""
        return tuple(zip(*self.shapes, strict=True))

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The dimensions that are numbers; None for those that run time decides."""
        return tuple(fixed(sizes) for sizes in self.sizes)

    @property
    def symbol_shapes(self) -> list[Numbers]:
        """The shapes that a symbol of it has: MXNet has no arrays without axes."""
        return [shape or (1,) for shape in self.shapes]

    @property
    def array(self) -> np.ndarray | None:
        """The constant that the value is for all open dimensions."""
        if self.arrays is None:
            return None
        first = self.arrays[0]
        same = all(array is first or np.array_equal(array, first) for array in self.arrays[1:])
        return first if same else None

    @property
    def number(self) -> float | int | None:
        """The number of a constant that the graph has as one, which an operator's parameter can hold."""
        if not (self.in_graph or self.ndim == 0) or self.array is None or self.array.size != 1:
            return None
        number = self.array.item()
        if isinstance(number, bool) or (isinstance(number, int) and abs(number) > 2**53):
            return None
        return number if isinstance(number, int | float) else None


def one(values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Arrays under each assignment; where they are equal, the same one for all."""
    first = values[0]
    return [first if array is first or np.array_equal(array, first) else array for array in values]
