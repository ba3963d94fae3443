"""Operators that put new values where a mask holds, as `x[mask] = value` does."""

from __future__ import annotations

from typing import ClassVar

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, apply
from symjax_nnvm.ir.params import Axis, Params, param
from symjax_nnvm.ir.register import Entries, Shapes, Types, check_number, register_op, same_shape, same_type
from symjax_nnvm.ir.types import Shape, format_shape


class MaskAssignParams(Params):
    start_axis: Axis = param(ge=0, doc="the first axis of data that the mask covers")

    any_key: ClassVar[bool] = True


class MaskAssignScalarParams(Params):
    value: float = param(doc="the new value")
    start_axis: Axis = param(ge=0, doc="the first axis of data that the mask covers")

    any_key: ClassVar[bool] = True


def _assigned_shapes(p: MaskAssignParams | MaskAssignScalarParams, ins: Shapes, outs: Shapes):
    """data (…, m…, …), mask (m…), values → the shape of data."""
    (data,), _ = same_shape(p, ins[:1], outs)
    mask = ins[1]
    if data is not None and mask is not None:
        covered = data[p.start_axis : p.start_axis + len(mask)]
        if len(covered) != len(mask) or any(a != b for a, b in zip(covered, mask, strict=True) if None not in (a, b)):
            raise InferenceError(
                "The mask does not fit the axes it covers",
                input="mask",
                expected=format_shape(covered),
                got=format_shape(mask),
            )
        for value in ins[2:]:
            _check_values(p.start_axis, data, len(mask), value)
    return [data, *ins[1:]], [data]


def _check_values(start_axis: int, data: Shape, masked: int, value: Shape | None) -> None:
    """Raise InferenceError for values that are not broadcast to data with one axis in place of the masked ones."""
    before, after = data[:start_axis], data[start_axis + masked :]
    room = (*before, None, *after)
    if value is None:
        return
    pairs = zip(value[::-1], room[::-1], strict=False)
    if len(value) > len(room) or any(dim not in (1, None, size) for dim, size in pairs if size is not None):
        raise InferenceError(
            "The values do not fit where the mask holds",
            input="value",
            expected=f"a shape that broadcasts to {format_shape(room)}",
            got=format_shape(value),
        )


def _assigned_types(p: MaskAssignParams | MaskAssignScalarParams, ins: Types, outs: Types):
    """data, values and the result have one dtype; a mask has any."""
    values, outputs = same_type(p, [ins[0], *ins[2:]], outs)
    if isinstance(p, MaskAssignScalarParams):
        check_number("value", p.value, outputs[0])
    return [values[0], ins[1], *values[1:]], outputs


def _gradient_outside(node: Node, ograds: Entries):
    """dData = dY with zeros where the mask holds."""
    return apply(
        "_npi_boolean_mask_assign_scalar",
        ograds[0],
        node.inputs[1],
        value=0.0,
        start_axis=node.attrs.parsed.start_axis,
    )


def _assign_gradient(node: Node, ograds: Entries):
    """dData = dY with zeros where the mask holds, dValue = dY there."""
    _, mask, value = node.inputs
    start_axis = node.attrs.parsed.start_axis
    back = apply("_values_at_mask", ograds[0], mask, value, start_axis=start_axis)
    return [_gradient_outside(node, ograds), None, back]


register_op(
    "_npi_boolean_mask_assign_scalar",
    params=MaskAssignScalarParams,
    inputs=("data", "mask"),
    infer_shape=_assigned_shapes,
    infer_type=_assigned_types,
    gradient=lambda node, ograds: [_gradient_outside(node, ograds), None],
    flops=0,
    deviation="it has a gradient; MXNet's is zero",
    doc="data with one value wherever the mask holds: a copy, where MXNet's works in place only.",
)
register_op(
    "_npi_boolean_mask_assign_tensor",
    params=MaskAssignParams,
    inputs=("data", "mask", "value"),
    infer_shape=_assigned_shapes,
    infer_type=_assigned_types,
    gradient=_assign_gradient,
    flops=0,
    deviation="it has a gradient; MXNet's is zero",
    doc="data with the values, one after the other or the same one, wherever the mask holds: a copy, where MXNet's "
    "works in place only.",
)
register_op(
    "_values_at_mask",
    params=MaskAssignParams,
    inputs=("ograd", "mask", "value"),
    infer_shape=lambda p, ins, outs: (ins, [ins[2] if ins[2] is not None else outs[0]]),
    infer_type=_assigned_types,
    gradient=lambda node, ograds: [
        apply(
            "_npi_boolean_mask_assign_tensor",
            apply("zeros_like", node.inputs[0]),
            node.inputs[1],
            ograds[0],
            start_axis=node.attrs.parsed.start_axis,
        ),
        None,
        None,
    ],
    FIgnoreInputs=lambda attrs: (2,),
    flops=0,
    own=True,
    doc="The elements where the mask holds, in the shape of the values that are put there: the gradient of "
    "_npi_boolean_mask_assign_tensor by them.",
)
