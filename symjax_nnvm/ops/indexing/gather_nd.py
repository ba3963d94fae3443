"""gather_nd and scatter_nd: elements by indices of several axes, and the way back."""

from __future__ import annotations

from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.ir.node import apply
from symjax_nnvm.ir.params import Params, Tuple, param
from symjax_nnvm.ir.register import NoParams, Shapes, first_type, register_op
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.types import Shape, format_shape


class ScatterNDParams(Params):
    shape: Tuple = param(ge=1, doc="shape of the result")


def _gathered(data: Shape, indices: Shape) -> Shape:
    """The shape of data[indices[0], indices[1], …]. Raises InferenceError when data has too few axes."""
    depth = indices[0]
    if depth == 0:
        raise InferenceError("The indices have no rows", input="indices", expected="at least one row", got=0)
    if depth is not None and depth > len(data):
        raise InferenceError(
            "The indices have more rows than the data have axes",
            input="indices",
            expected=f"at most {len(data)} rows",
            got=depth,
        )
    if depth == len(data) and len(indices) == 1:
        got = format_shape(indices)
        raise InferenceError("An element without axes", input="indices", expected="2 axes or more", got=got)
    return (*indices[1:], *data[depth:])


def _gather_nd_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """data (d0, …), indices (m, i…) → (i…, dm, …)."""
    data, indices = ins
    if not data or not indices or indices[0] is None:
        return ins, outs
    return ins, [_gathered(data, indices)]


def scatter_nd_shapes(p: ScatterNDParams, ins: Shapes, outs: Shapes):
    """data (i…, dm, …), indices (m, i…) → shape (d0, …)."""
    if not p.shape:
        raise ParamError("The result needs a shape", param="shape", expected="at least one axis", got="()")
    indices = ins[1]
    if not indices or indices[0] is None:
        return ins, [p.shape]
    return [_gathered(p.shape, indices), indices], [p.shape]


register_op(
    "gather_nd",
    aliases=("_npi_gather_nd", "_npx_gather_nd"),
    inputs=("data", "indices"),
    infer_shape=_gather_nd_shapes,
    infer_type=first_type,
    flops=0,
    deviation="indices beyond an axis are clipped, where MXNet stops with an error; those that count from the end have "
    "gradients, which MXNet writes outside of its memory",
    doc="Elements or slices of data by tuples of indices: data[indices[0], indices[1], …]. Negative indices count from "
    "the end, for the gradient, too, which MXNet writes outside of its memory; others outside are clipped, where MXNet "
    "has an error.",
)


linear(
    "gather_nd",
    of="data",
    adjoint="_backward_gather_nd",
    doc="The gradient of gather_nd: ograd added up at the indices, in the shape of data.",
)


register_op(
    "scatter_nd",
    params=ScatterNDParams,
    inputs=("data", "indices"),
    infer_shape=scatter_nd_shapes,
    infer_type=first_type,
    gradient=lambda node, ograds: [apply("gather_nd", ograds[0], node.inputs[1]), None],
    flops=0,
    not_derivative="where indices repeat the last one wins, yet each element receives the gradient",
    doc="Zeros with the elements of data put at the indices, which should be distinct.",
)
