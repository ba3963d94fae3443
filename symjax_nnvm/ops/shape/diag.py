"""diag: a diagonal out of an array, or a matrix around one; and the triangle below it."""

from __future__ import annotations

from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.ir.node import apply
from symjax_nnvm.ir.params import Axis, Params, param
from symjax_nnvm.ir.register import NoParams, Shapes, register_op, same_shape
from symjax_nnvm.ir.rules.axes import known, normal_axes, size_of
from symjax_nnvm.ir.rules.costs import MOVES
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.types import format_shape


class DiagParams(Params):
    k: int = param(0, doc="which diagonal: 0 the main one, positive above, negative below")
    axis1: Axis = param(0, doc="the axis whose index grows downwards; of data with two axes or more")
    axis2: Axis = param(1, doc="the axis whose index grows to the right; of data with two axes or more")

    def axes(self, ndim: int) -> tuple[int, int]:
        """(axis1, axis2), counted from the front. Raises ParamError when they are one, or there is no such axis."""
        axis1, axis2 = normal_axes((self.axis1, self.axis2), ndim, "axis1, axis2")
        return axis1, axis2


def diagonal_length(k: int, rows: int, columns: int) -> int:
    """Length of the k-th diagonal of a matrix, 0 next to its corner. Raises ParamError when it is farther out."""
    length = min(rows + min(k, 0), columns - max(k, 0))
    if length < 0:
        raise ParamError(
            f"No such diagonal of a matrix of {rows} rows and {columns} columns",
            param="k",
            expected=f"{-rows} ≤ k ≤ {columns}",
            got=k,
        )
    return length


def diag_shapes(p: DiagParams, ins: Shapes, outs: Shapes):
    """data (n,) ↔ (n + |k|, n + |k|); or data (…, r, …, c, …) → (…, …, …, length of the diagonal)."""
    data, out = ins[0], outs[0]
    if data is None:
        return ins, outs
    if len(data) == 1:
        side = known(data[0] and data[0] + abs(p.k), *(out or ()))
        return [(side and max(side - abs(p.k), 0),)], [(side, side)]
    axis1, axis2 = p.axes(len(data))
    rows, columns = data[axis1], data[axis2]
    others = [i for i in range(len(data)) if i not in (axis1, axis2)]
    length = None if rows is None or columns is None else diagonal_length(p.k, rows, columns)
    back = list(data)
    if out is not None and len(out) == len(others) + 1:
        for i, dim in zip(others, out, strict=False):
            back[i] = known(data[i], dim)
    return [tuple(back)], [(*(data[i] for i in others), length)]


register_op(
    "diag",
    params=DiagParams,
    inputs=("data",),
    infer_shape=diag_shapes,
    flops=0,
    doc="A diagonal of two axes of data, as a new last axis; of data with one axis, the matrix that has them on its "
    "k-th diagonal and zeros elsewhere.",
)
linear(
    "diag",
    of="data",
    adjoint="_backward_diag",
    doc="The gradient of diag: ograd on the diagonal it was taken from, 0 elsewhere, in the shape of data.",
)

# -- as NumPy has it -------------------------------------------------------------------------------------------------


class NumpyDiagParams(Params):
    k: int = param(0, doc="which diagonal: 0 the main one, positive above, negative below")


class DiagonalParams(Params):
    offset: int = param(0, doc="which diagonal: 0 the main one, positive above, negative below")
    axis1: Axis = param(0, doc="the axis whose index grows downwards")
    axis2: Axis = param(1, doc="the axis whose index grows to the right")

    def axes(self, ndim: int) -> tuple[int, int]:
        """(axis1, axis2), counted from the front. Raises ParamError when they are one, or there is no such axis."""
        axis1, axis2 = normal_axes((self.axis1, self.axis2), ndim, "axis1, axis2")
        return axis1, axis2


def cut_length(k: int, rows: int, columns: int) -> int:
    """Length of the k-th diagonal of a matrix, 0 of one outside."""
    return max(min(rows + min(k, 0), columns - max(k, 0)), 0)


def _diagonal_shapes(p: DiagonalParams, ins: Shapes, outs: Shapes):
    """data (…, r, …, c, …) → (…, …, …, length of the diagonal)."""
    data = ins[0]
    if data is None:
        return ins, outs
    axis1, axis2 = p.axes(len(data))
    rows, columns = data[axis1], data[axis2]
    length = None if rows is None or columns is None else cut_length(p.offset, rows, columns)
    return ins, [(*(dim for i, dim in enumerate(data) if i not in (axis1, axis2)), length)]


def _numpy_diag_shapes(p: NumpyDiagParams, ins: Shapes, outs: Shapes):
    """data (n,) → (n + |k|, n + |k|); or data (r, c) → (length of the diagonal,)."""
    data = ins[0]
    if data is None:
        return ins, outs
    if len(data) == 1:
        return _diagflat_shapes(p, ins, outs)
    if len(data) != 2:
        raise InferenceError("Input must be 1- or 2-d", expected="one axis or two", got=format_shape(data))
    return _diagonal_shapes(DiagonalParams(offset=p.k), ins, outs)


def _diagflat_shapes(p: NumpyDiagParams, ins: Shapes, outs: Shapes):
    """data of n elements → (n + |k|, n + |k|)."""
    size = None if ins[0] is None else size_of(ins[0])
    side = None if size is None else size + abs(p.k)
    return ins, [(side, side)]


for _name, _params, _shapes, _adjoint, _doc in (
    (
        "_np_diag",
        NumpyDiagParams,
        _numpy_diag_shapes,
        "_backward_np_diag",
        "A diagonal of a matrix; of a vector, the matrix that has it on its k-th diagonal and zeros elsewhere.",
    ),
    (
        "_np_diagonal",
        DiagonalParams,
        _diagonal_shapes,
        "_backward_np_diagonal",
        "A diagonal of two axes of data, as a new last axis.",
    ),
    (
        "_np_diagflat",
        NumpyDiagParams,
        _diagflat_shapes,
        "_backward_np_diagflat",
        "The matrix that has all elements of data on its k-th diagonal and zeros elsewhere.",
    ),
):
    register_op(_name, params=_params, inputs=("data",), infer_shape=_shapes, flops=0, doc=_doc)
    linear(_name, of="data", adjoint=_adjoint, doc=f"The gradient of {_name}: ograd where data's elements went.")


def _diag_indices_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """data (n, n, …) → (number of axes, n)."""
    data = ins[0]
    if data is None:
        return ins, [(None, None)]
    sides = {dim for dim in data if dim is not None}
    if len(data) < 2 or len(sides) > 1:
        raise InferenceError(
            "All dimensions of input must be of equal length",
            expected="at least two axes of one length",
            got=format_shape(data),
        )
    side = next(iter(sides), None)
    return [(side,) * len(data)], [(len(data), side)]


register_op(
    "_npi_diag_indices_from",
    inputs=("data",),
    infer_shape=_diag_indices_shapes,
    infer_type=lambda p, ins, outs: (ins, ["int64"]),
    gradient=lambda node, ograds: [None],
    FIgnoreInputs=lambda attrs: (0,),
    flops=0,
    doc="The indices of the main diagonal of data, one row for each of its axes.",
)


# -- tril ------------------------------------------------------------------------------------------------------------


def _tril_shapes(p: NumpyDiagParams, ins: Shapes, outs: Shapes):
    """data (…, r, c) ↔ the same shape; data (n,) → (n, n)."""
    data = ins[0]
    if data == ():
        raise InferenceError("A number has no triangle", expected="at least one axis", got="()")
    if data is not None and len(data) == 1:
        return ins, [(*data, *data)]
    return same_shape(p, ins, outs) if data is not None else (ins, outs)


register_op(
    "_npi_tril",
    params=NumpyDiagParams,
    inputs=("data",),
    infer_shape=_tril_shapes,
    gradient=lambda node, ograds: [
        apply("_sum_like", apply("_npi_tril", ograds[0], k=node.attrs.parsed.k), node.inputs[0])
    ],
    **MOVES,
    doc="The matrices of the last two axes with zeros above the k-th diagonal; a vector is repeated as rows.",
)
