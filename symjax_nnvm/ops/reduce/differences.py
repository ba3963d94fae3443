"""Differences of neighbours in MXNet's NumPy dialect: diff along an axis, ediff1d of all elements with ends."""

from __future__ import annotations

from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import MAX_COUNT, Axis, Params, param
from symjax_nnvm.ir.register import Entries, Shapes, register_op
from symjax_nnvm.ir.rules.axes import completed, normal_axis, replaced, size_of
from symjax_nnvm.ir.rules.costs import per_input
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ops.elementwise.binary import number_type


class DiffParams(Params):
    n: int = param(1, ge=0, le=MAX_COUNT, doc="how many times differences are taken")
    axis: Axis = param(-1, doc="along which axis")


def _diff_shapes(p: DiffParams, ins: Shapes, outs: Shapes):
    """a (…, d, …) → (…, d - n, …), no less than 0."""
    a = ins[0]
    if a is None:
        return ins, outs
    axis = normal_axis(p.axis, len(a))
    length = a[axis]
    return ins, [replaced(a, axis, None if length is None else max(0, length - p.n))]


register_op(
    "_npi_diff",
    params=DiffParams,
    inputs=("a",),
    infer_shape=_diff_shapes,
    infer_type=number_type,
    flops=lambda p, ins, outs: per_input(p.n)(p, ins, outs),
    doc="a[i + 1] - a[i] along an axis, n times.",
)
linear(
    "_npi_diff", of="a", adjoint="_backward_npi_diff", doc="The gradient of diff: differences of ograd, the other way."
)


class Ediff1dParams(Params):
    to_begin_arr_given: bool = param(False, doc="whether an input has values to put before the differences")
    to_end_arr_given: bool = param(False, doc="whether an input has values to put after them")
    to_begin_scalar: float | None = param(None, doc="a number to put before them, if no input has values")
    to_end_scalar: float | None = param(None, doc="a number to put after them")


def ends(p: Ediff1dParams) -> tuple[str, ...]:
    """The inputs in use."""
    count = 1 + p.to_begin_arr_given + p.to_end_arr_given
    return ("input1", "input2", "input3")[:count]


def _ediff1d_shapes(p: Ediff1dParams, ins: Shapes, outs: Shapes):
    """input1 (n elements), begin (b elements), end (e elements) → (b + max(n - 1, 0) + e,)."""
    sizes = [None if shape is None else size_of(shape) for shape in ins]
    if None in sizes:
        return ins, [(None,)]
    first, *others = (size or 0 for size in sizes)
    numbers = (p.to_begin_scalar is not None and not p.to_begin_arr_given) + (
        p.to_end_scalar is not None and not p.to_end_arr_given
    )
    return ins, [(max(0, first - 1) + sum(others) + numbers,)]


def _ediff1d_gradient(node: Node, ograds: Entries) -> Entries:
    """The gradients of all inputs at once: they are linear in dY together."""
    whole = apply("_backward_npi_ediff1d", ograds[0], *node.inputs, **vars(node.attrs.parsed))
    return [whole._replace(index=i) for i in range(len(node.inputs))]


register_op(
    "_npi_ediff1d",
    params=Ediff1dParams,
    inputs=("input1", "input2", "input3"),
    inputs_used=ends,
    infer_shape=_ediff1d_shapes,
    infer_type=number_type,
    gradient=_ediff1d_gradient,
    flops=1,
    doc="x[i + 1] - x[i] of all elements in one line, with values before and after them.",
)


def _backward_shapes(p: Ediff1dParams, ins: Shapes, outs: Shapes):
    """dY, the inputs → their shapes."""
    shapes = [completed(like, out) for like, out in zip(ins[1:], outs, strict=True)]
    _, (dy,) = _ediff1d_shapes(p, shapes, [None])
    return [completed(ins[0], dy), *shapes], shapes


def _backward_gradient(node: Node, ograds: Entries) -> list[NodeEntry | None]:
    """dY's gradient is ediff1d of the inputs' directions, with 0 for numbers."""
    p: Ediff1dParams = node.attrs.parsed
    zeros = {name: 0.0 for name in ("to_begin_scalar", "to_end_scalar") if getattr(p, name) is not None}
    return [apply("_npi_ediff1d", *ograds, **{**vars(p), **zeros}), *[None] * len(ograds)]


register_op(
    "_backward_npi_ediff1d",
    params=Ediff1dParams,
    inputs=("ograd", "input1", "input2", "input3"),
    inputs_used=lambda p: ("ograd", *ends(p)),
    num_outputs=lambda p: len(ends(p)),
    infer_shape=_backward_shapes,
    infer_type=number_type,
    gradient=_backward_gradient,
    FIgnoreInputs=lambda attrs: tuple(range(1, 1 + len(ends(attrs.parsed)))),
    doc="The gradients of ediff1d.",
)
