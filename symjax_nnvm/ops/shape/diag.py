"""diag: a diagonal out of an array, or a matrix around one."""

from __future__ import annotations

from symjax_nnvm.errors import ParamError
from symjax_nnvm.ir.params import Axis, Params, param
from symjax_nnvm.ir.register import Shapes, register_op
from symjax_nnvm.ir.rules.axes import known, normal_axes
from symjax_nnvm.ir.rules.linear import linear


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
