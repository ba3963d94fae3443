"""Shapes and dtypes that the operators of linear algebra share: the last two axes are matrices, the others a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import NodeEntry, apply
from symjax_nnvm.ir.register import Shapes, Types, same_type
from symjax_nnvm.ir.rules.axes import known
from symjax_nnvm.ir.types import Shape, format_shape


def of_one_rank(*shapes: Shape | None, least: int = 2) -> list[Shape] | None:
    """The shapes with every rank known; None while no rank is known. All have one rank: the pass words a conflict.

    Raises InferenceError when there are fewer than `least` axes.
    """
    shape = next((shape for shape in shapes if shape is not None), None)
    if shape is None:
        return None
    if len(shape) < least:
        what = "The data must be a matrix" if least == 2 else "The data have too few axes"
        raise InferenceError(what, expected=f"at least {least} axes", got=format_shape(shape))
    return [(None,) * len(shape) if s is None or len(s) != len(shape) else s for s in shapes]


def batch_of(*shapes: Shape) -> Shape:
    """The axes before the matrices, merged."""
    return tuple(known(*dims) for dims in zip(*(shape[:-2] for shape in shapes), strict=True))


def batch_shape(batch: Shape) -> Shape:
    """The shape of one number for each matrix: (1,) for a single matrix, as MXNet has no arrays without axes."""
    return batch or (1,)


def square_shapes(p: Any, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
    """Every input and output (b…, n, n)."""
    shapes = of_one_rank(*ins, *outs)
    if shapes is None:
        return ins, outs
    n = known(*(dim for shape in shapes for dim in shape[-2:]))
    shape = (*batch_of(*shapes), n, n)
    return [shape] * len(ins), [shape] * len(outs)


def solver_type(p: Any, ins: Types, outs: Types) -> tuple[Sequence[str | None], Sequence[str | None]]:
    """One dtype everywhere, and that is float32 or float64: neither LAPACK nor XLA factorises narrower numbers."""
    inputs, outputs = same_type(p, ins, outs)
    dtype = next(iter((*inputs, *outputs)), None)
    if dtype not in ("float32", "float64", None):
        problem = "This operation only supports 32-bit and 64-bit floating point"
        raise InferenceError(problem, expected="float32 or float64", got=dtype)
    return inputs, outputs


# -- pieces of gradient rules ----------------------------------------------------------------------------------------


def transposed(matrices: NodeEntry) -> NodeEntry:
    """Each matrix transposed."""
    return apply("SwapAxis", matrices, dim1=-2, dim2=-1)


def plus_transposed(matrices: NodeEntry) -> NodeEntry:
    """M + Mᵀ for each matrix M."""
    return apply("elemwise_add", matrices, transposed(matrices))


def symmetrised(matrices: NodeEntry) -> NodeEntry:
    """The symmetric matrix that has the lower triangle of each matrix, its diagonal included."""
    below = apply("_triangle", matrices, offset=-1)
    return apply("elemwise_add", apply("_triangle", matrices), transposed(below))
