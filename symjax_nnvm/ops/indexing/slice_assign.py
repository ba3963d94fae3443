"""Operators that put new values into a copy of an array: at indices, at a slice, or at one place of each row."""

from __future__ import annotations

from typing import Any

from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.ir.node import Node, apply
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Entries, NoParams, Shapes, Types, register_op, same_shape
from symjax_nnvm.ir.rules.axes import known
from symjax_nnvm.ir.rules.size_symbols import is_at_most
from symjax_nnvm.ir.types import DType, Shape, format_shape
from symjax_nnvm.ops.indexing.gather_nd import ScatterNDParams, scatter_nd_shapes
from symjax_nnvm.ops.shape.slice import SliceParams, kept_length


def _values_type(position: int):
    """The rule of operators whose input number `position` holds indices of any dtype: all else has one dtype."""

    def rule(p: object, ins: Types, outs: Types):
        values = [dtype for i, dtype in enumerate(ins) if i != position]
        dtype: DType | None = next((t for t in (*outs, *values) if t is not None), None)
        return [ins[i] if i == position else dtype for i in range(len(ins))], [dtype]

    return rule


# -- at indices ------------------------------------------------------------------------------------------------------


def _index_copy_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """old_tensor (n, …), index_vector (m,), new_tensor (m, …) → (n, …)."""
    _, (whole,) = same_shape(p, [ins[0]], [outs[0]])
    index, new = ins[1:]
    if whole == () or new == ():
        raise InferenceError("There are no rows to copy", expected="at least one axis", got="()")
    count = known(*(shape[0] for shape in (index, new) if shape))
    _, (row,) = same_shape(p, [None if whole is None else whole[1:]], [None if new is None else new[1:]])
    rows = None if whole is None else whole[0]
    if count is not None and rows is not None and not is_at_most(count, rows):
        raise InferenceError(
            "There are more new rows than indices", input="new_tensor", expected=f"at most {rows} rows", got=count
        )
    if row is None:
        return [whole, (count,), new], [whole]
    return [(rows, *row), (count,), (count, *row)], [(rows, *row)]


def _index_copy_gradient(node: Node, ograds: Entries):
    """dOld = dY without the rows that were overwritten, dNew = those rows."""
    _, index, new = node.inputs
    (head,) = ograds
    return [
        apply("_contrib_index_copy", head, index, apply("zeros_like", new)),
        None,
        apply("take", head, index),
    ]


register_op(
    "_contrib_index_copy",
    inputs=("old_tensor", "index_vector", "new_tensor"),
    infer_shape=_index_copy_shapes,
    infer_type=_values_type(1),
    gradient=_index_copy_gradient,
    not_derivative="where indices repeat the last one wins, yet each element receives the gradient",
    flops=0,
    doc="old_tensor with the rows of new_tensor in the places of index_vector, which should be distinct. Places "
    "outside are clipped, where MXNet writes outside.",
)


def _scatter_set_nd_shapes(p: ScatterNDParams, ins: Shapes, outs: Shapes):
    """lhs shape (d0, …), rhs (i…, dm, …), indices (m, i…) → shape."""
    (rhs, indices), (out,) = scatter_nd_shapes(p, ins[1:], outs)
    return [out, rhs, indices], [out]


def _scatter_set_nd_gradient(node: Node, ograds: Entries):
    """dLhs = dY without what was overwritten, dRhs = what was written over."""
    _, rhs, indices = node.inputs
    (head,) = ograds
    return [
        apply("_scatter_set_nd", head, apply("zeros_like", rhs), indices, shape=node.attrs.parsed.shape),
        apply("gather_nd", head, indices),
        None,
    ]


register_op(
    "_scatter_set_nd",
    aliases=("_npi_scatter_set_nd",),
    params=ScatterNDParams,
    inputs=("lhs", "rhs", "indices"),
    infer_shape=_scatter_set_nd_shapes,
    infer_type=_values_type(2),
    gradient=_scatter_set_nd_gradient,
    flops=0,
    doc="lhs with the elements of rhs put at the indices, which should be distinct: a copy, where MXNet's works in "
    "place only, and with a gradient. Negative indices count from the end; others outside are clipped.",
)

# -- at a slice ------------------------------------------------------------------------------------------------------


class ScalarFirst(Params):
    scalar: float = param(0.0, doc="the new value; of integer data only its whole part counts")


class SliceAssignScalarParams(SliceParams, ScalarFirst):  # fields of the last base come first, as MXNet has them
    pass


def assigned_shape(p: SliceParams, shape: Shape) -> Shape:
    """How many indices are assigned of each axis; None where that is not known. Raises ParamError for too many axes."""
    if len(p.begin) > len(shape):
        raise ParamError(
            "The slice has too many axes", param="begin", expected=f"at most {len(shape)} axes", got=p.begin
        )
    return tuple(kept_length(p, axis, dim) for axis, dim in enumerate(shape))


def _slice_assign_shapes(p: SliceParams, ins: Shapes, outs: Shapes):
    """lhs (d0, d1, …), rhs (places of d0, places of d1, …) → (d0, d1, …)."""
    _, (whole,) = same_shape(p, [ins[0]], [outs[0]])
    if whole is None:
        return ins, outs
    return [whole, assigned_shape(p, whole)], [whole]


def _slice_assign_scalar_shapes(p: SliceAssignScalarParams, ins: Shapes, outs: Shapes):
    """data (d0, d1, …) ↔ the same shape."""
    _, (whole,) = same_shape(p, ins, outs)
    if whole is not None:
        assigned_shape(p, whole)
    return [whole], [whole]


def _slice(p: SliceParams) -> dict[str, Any]:
    return {"begin": p.begin, "end": p.end, "step": p.step}


def _slice_assign_gradient(node: Node, ograds: Entries):
    """dLhs = dY with zeros at the slice, dRhs = dY at the slice."""
    p: SliceParams = node.attrs.parsed
    return [apply("_slice_assign_scalar", ograds[0], **_slice(p)), apply("slice", ograds[0], **_slice(p))]


register_op(
    "_slice_assign",
    aliases=("_crop_assign", "_npi_slice_assign"),
    params=SliceParams,
    inputs=("lhs", "rhs"),
    infer_shape=_slice_assign_shapes,
    gradient=_slice_assign_gradient,
    flops=0,
    doc="lhs with rhs in place of a slice, which is given as Python slices are. Unlike MXNet's it has a gradient.",
)
register_op(
    "_slice_assign_scalar",
    aliases=("_crop_assign_scalar", "_npi_slice_assign_scalar"),
    params=SliceAssignScalarParams,
    infer_shape=_slice_assign_scalar_shapes,
    gradient=lambda node, ograds: [apply("_slice_assign_scalar", ograds[0], **_slice(node.attrs.parsed))],
    flops=0,
    doc="data with one value in every element of a slice, which is given as Python slices are. Unlike MXNet's it has a "
    "gradient.",
)

# -- at one place of each row ----------------------------------------------------------------------------------------


def _fill_element_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """lhs (n, d), mhs (n,), rhs (n,) → (n, d)."""
    _, (whole,) = same_shape(p, [ins[0]], [outs[0]])
    if whole is not None and len(whole) != 2:
        raise InferenceError("The data must be a matrix", input="lhs", expected="2 axes", got=format_shape(whole))
    rows = known(*(shape[0] for shape in (whole, *ins[1:]) if shape))
    matrix = (rows, None if whole is None else whole[1])
    return [matrix, (rows,), (rows,)], [matrix]


def _fill_element_gradient(node: Node, ograds: Entries):
    """dLhs = dY but where it was overwritten, dMhs = dY where it was; nothing where the index is outside."""
    lhs, mhs, rhs = node.inputs
    (head,) = ograds
    nothing = apply("zeros_like", head)
    written = apply("fill_element_0index", apply("zeros_like", lhs), apply("ones_like", mhs), rhs)
    return [
        apply("where", written, nothing, head),
        apply("sum", apply("where", written, head, nothing), axis=(1,)),
        None,
    ]


register_op(
    "fill_element_0index",
    inputs=("lhs", "mhs", "rhs"),
    infer_shape=_fill_element_shapes,
    infer_type=_values_type(2),
    gradient=_fill_element_gradient,
    flops=0,
    doc="lhs with mhs[i] in the place rhs[i] of every row i; an index outside leaves its row alone. MXNet has it as an "
    "imperative function only, and without a gradient.",
)
