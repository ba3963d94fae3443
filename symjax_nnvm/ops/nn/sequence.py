"""Operators on batches of sequences of different lengths: SequenceMask, SequenceLast, SequenceReverse."""

from __future__ import annotations

from typing import Any, ClassVar

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Entries, Shapes, Types, register_op
from symjax_nnvm.ir.rules.axes import known
from symjax_nnvm.ir.rules.costs import MOVES
from symjax_nnvm.ir.rules.linear import linear, self_adjoint
from symjax_nnvm.ir.types import Shape, format_shape


class SequenceParams(Params):
    use_sequence_length: bool = param(False, doc="take the lengths; else every sequence is as long as the axis")
    axis: int = param(0, ge=0, le=1, doc="the axis of steps; the other one of the first two is the batch")


class SequenceMaskParams(SequenceParams):
    positional: ClassVar = ("use_sequence_length", "value", "axis")
    value: float = param(0.0, doc="the value of elements past the end of a sequence")


def _inputs(p: SequenceParams) -> tuple[str, ...]:
    return ("data", "sequence_length")[: 1 + p.use_sequence_length]


def _checked(data: Shape | None) -> Shape | None:
    if data is not None and len(data) < 2:
        raise InferenceError(
            "The data array must be of rank 2 or greater",
            input="data",
            expected="an axis of steps and one of the batch",
            got=format_shape(data),
        )
    return data


def _with_batch(p: SequenceParams, data: Shape, lengths: Shapes) -> Shape:
    """The shape of data with the batch size of the lengths."""
    batch = known(data[1 - p.axis], *(shape[0] for shape in lengths if shape))
    return (data[0], batch, *data[2:]) if p.axis == 0 else (batch, *data[1:])


def _same_shapes(p: SequenceParams, ins: Shapes, outs: Shapes):
    """data (t, n, …), sequence_length (n,) ↔ (t, n, …); (n, t, …) for axis 1."""
    data = _checked(ins[0] if ins[0] is not None else outs[0])
    if data is None:
        return ins, outs
    if outs[0] is not None and len(outs[0]) == len(data):
        data = tuple(known(*dims) for dims in zip(data, outs[0], strict=True))
    data = _with_batch(p, data, ins[1:])
    return [data, *[(data[1 - p.axis],)] * (len(ins) - 1)], [data]


def _last_shapes(p: SequenceParams, ins: Shapes, outs: Shapes):
    """data (t, n, …), sequence_length (n,) → (n, …)."""
    data, out = _checked(ins[0]), outs[0]
    if data is None and not out:
        return ins, outs
    if data is None and out:
        data = (None, *out) if p.axis == 0 else (out[0], None, *out[1:])
    assert data is not None
    steps, other_dims = data[p.axis], (data[1 - p.axis], *data[2:])
    if out is not None and len(out) == len(other_dims):
        other_dims = tuple(known(*dims) for dims in zip(other_dims, out, strict=True))
    data = _with_batch(p, (steps, *other_dims) if p.axis == 0 else (other_dims[0], steps, *other_dims[1:]), ins[1:])
    batch = data[1 - p.axis]
    return [data, *[(batch,)] * (len(ins) - 1)], [(batch, *data[2:])]


def _types(p: SequenceParams, ins: Types, outs: Types):
    """Data and result of one dtype; the lengths have any, by default that of data."""
    dtype = next((t for t in (*outs, ins[0]) if t is not None), None)
    return [dtype, *(length or dtype for length in ins[1:])], [dtype]


def _mask_gradient(node: Node, ograds: Entries) -> list[NodeEntry | None]:
    """dX = dY, masked with zeros; nothing flows into the lengths."""
    p, lengths = node.attrs.parsed, node.inputs[1:]
    masked = apply("SequenceMask", ograds[0], *lengths, use_sequence_length=p.use_sequence_length, axis=p.axis)
    return [masked, *[None] * len(lengths)]


_CARD: dict[str, Any] = {
    "inputs": ("data", "sequence_length"),
    "inputs_used": _inputs,
    "infer_type": _types,
    "drawing": "recurrent",
    **MOVES,
}

register_op(
    "SequenceMask",
    aliases=("_npx_sequence_mask",),
    params=SequenceMaskParams,
    infer_shape=_same_shapes,
    gradient=_mask_gradient,
    inplace=((0, 0),),
    **_CARD,
    doc="The data, with `value` past the end of each sequence. The identity without use_sequence_length.",
)
register_op(
    "SequenceReverse",
    params=SequenceParams,
    infer_shape=_same_shapes,
    **_CARD,
    gradient=self_adjoint,
    doc="Each sequence in reverse order; elements past its end stay. Lengths past the axis count as its length, "
    "where MXNet reads outside the array, and axis may be 1, too.",
)
register_op(
    "SequenceLast",
    params=SequenceParams,
    infer_shape=_last_shapes,
    **_CARD,
    doc="The last step of each sequence. A length outside 1 … t counts as the nearest one inside, where MXNet reads "
    "outside the array.",
)
linear(
    "SequenceLast",
    of="data",
    adjoint="_backward_SequenceLast",
    doc="The gradient of SequenceLast: ograd at the last step of each sequence, 0 elsewhere.",
)
