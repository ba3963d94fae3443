"""Operators that join arrays along an axis, and that split one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.ir.node import Node, NodeAttrs, apply
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.params import MAX_COUNT, Axis, Params, Tuple, param
from symjax_nnvm.ir.register import Entries, Shapes, register_op
from symjax_nnvm.ir.rules.axes import completed, known, normal_axis, replaced, size_of, without_axis
from symjax_nnvm.ir.rules.costs import MOVES
from symjax_nnvm.ir.rules.layout_rules import ChannelsLast, Corrected, along
from symjax_nnvm.ir.rules.linear import jointly_linear
from symjax_nnvm.ir.rules.quantized_form import quantized_as
from symjax_nnvm.ir.rules.samples import across
from symjax_nnvm.ir.rules.size_symbols import is_at_most, is_multiple, is_open
from symjax_nnvm.ir.rules.storage import Storage
from symjax_nnvm.ir.types import Shape, format_shape
from symjax_nnvm.ops.shape.reshape import at_least

# -- Concat ----------------------------------------------------------------------------------------------------------


class ConcatParams(Params):
    num_args: int = param(ge=1, le=MAX_COUNT, doc="number of inputs")
    dim: Axis = param(1, doc="the axis to join along; negative counts from the end")


class BackwardConcatParams(Params):
    num_args: int = param(ge=2, le=MAX_COUNT, doc="number of inputs: the head gradient, and the inputs of Concat")
    dim: Axis = param(1, doc="the axis that was joined")


def concat_shapes(p: ConcatParams, ins: Shapes, outs: Shapes, sharing: int = 1):
    """(…, d0, …), (…, d1, …), … ↔ (…, d0 + d1 + …, …); the other dimensions are common to all.

    sharing: up to how many unknown lengths share alike what the known ones leave of the result's.
    """
    out = outs[0]
    first = next((shape for shape in (*ins, out) if shape is not None), None)
    if first is None:
        return ins, outs
    axis = normal_axis(p.dim, len(first), "dim")
    alike = [shape for shape in (*ins, out) if shape is not None and len(shape) == len(first)]
    common = tuple(known(*(shape[i] for shape in alike)) for i in range(len(first)))
    # A shape of another rank keeps its own dimension here; the pass words the conflict.
    parts = [None if shape is None or len(shape) != len(first) else shape[axis] for shape in ins]
    total = None if out is None or len(out) != len(first) else out[axis]
    known_total = sum(part for part in parts if part is not None)
    if None not in parts:
        total = known_total
    elif total is not None and parts.count(None) <= sharing:
        share = _share(total, known_total, parts.count(None), axis)
        parts = [share if part is None else part for part in parts]
    return [replaced(common, axis, part) for part in parts], [replaced(common, axis, total)]


def _share(total: int, known_total: int, count: int, axis: int) -> int:
    """The length of each of `count` unknown inputs. Raises InferenceError when there is none."""
    if total <= known_total:
        raise InferenceError(
            "The inputs are longer than the result", expected=f"less than {total} along axis {axis}", got=known_total
        )
    share, remainder = divmod(total - known_total, count)
    if remainder:
        raise InferenceError(
            f"{count} inputs of unknown length cannot have one length",
            expected=f"a multiple of {count} left of the {total} along axis {axis}",
            got=f"{total - known_total}, as the others have {known_total}",
            fix="Give the shape of one of them.",
        )
    return share


def _scaled_parts(attrs: NodeAttrs, axis: int, shapes: list[Shape | None]) -> Sequence[tuple[int, int] | None] | None:
    """Every input is scaled alike, or, along the axis that is joined, has its own piece of the vectors."""
    dim, rank = attrs.parsed.dim, next((len(shape) for shape in shapes if shape is not None), None)
    if rank is not None:
        dim, axis = dim % rank, axis % rank
    elif (dim < 0) != (axis < 0):
        return None
    if dim != axis:
        return [None] * len(shapes)
    lengths = [shape[axis] if shape is not None and len(shape) == rank else None for shape in shapes]
    if None in lengths:
        return None
    ends = list(accumulate(length or 0 for length in lengths))
    return list(pairwise([0, *ends]))


def _concat_storage(p: ConcatParams, ins: Storage) -> str:
    return "csr" if set(ins) == {"csr"} and p.dim == 0 else "default"


# The input weights of both directions of a recurrent layer have one shape, so two unknown lengths are the same.
for _name, _aliases, _shapes, _doc in (
    ("Concat", ("_sparse_concat", "concat"), concat_shapes, "Join arrays along an axis."),
    (
        "_rnn_param_concat",
        ("_npi_rnn_param_concat",),
        partial(concat_shapes, sharing=2),
        "Join the parameters of a recurrent layer. One or two inputs may be of unknown length: they share alike what "
        "the others leave of the result.",
    ),
):
    register_op(
        _name,
        aliases=_aliases,
        params=ConcatParams,
        variadic="num_args",
        infer_shape=_shapes,
        flops=0,
        precision="either" if _name == "Concat" else None,
        layout=along("dim") if _name == "Concat" else None,
        samples=across("dim") if _name == "Concat" else None,
        recompute="if forced" if _name == "Concat" else None,
        storage=_concat_storage if _name == "Concat" else None,
        FScaledParts=_scaled_parts,
        doc=_doc,
    )
Op.get("Concat").set_attr("FQuantized", quantized_as("_contrib_quantized_concat", lambda p: p.dim > 0))


_pieces = jointly_linear(
    "Concat",
    adjoint="_backward_Concat",
    params=BackwardConcatParams,
    doc="The gradient of Concat: the first input in pieces of the lengths of the others.",
)
Op.get("_rnn_param_concat").set_attr("FGradient", _pieces)

# -- joining as NumPy does -------------------------------------------------------------------------------------------


class JoinParams(Params):
    num_args: int = param(ge=1, le=MAX_COUNT, doc="number of inputs")


class JoinAlongParams(JoinParams):
    dim: Axis = param(1, doc="nothing: the operator knows its axis")


class ConcatenateParams(JoinParams):
    axis: Axis | None = param(0, doc="the axis to join along; None: all arrays are flattened first")


class BackwardJoinParams(Params):
    num_args: int = param(ge=2, le=MAX_COUNT, doc="number of inputs: the head gradient, and the joined arrays")


class BackwardConcatenateParams(BackwardJoinParams):
    axis: Axis | None = param(0, doc="the axis that was joined; None: arrays had been flattened")


@dataclass(frozen=True)
class Join:
    """A row: an operator that gives arrays more axes, as many as it needs, and joins them along one.

    axis: (parameters, number of axes then) → the one to join along. lifted: (parameters, a shape) → the shape then.
    """

    name: str
    params: type
    input: str
    output: str
    axis: Callable[[Any, int], int]
    lifted: Callable[[Any, Shape], Shape]
    doc: str

    @property
    def adjoint(self) -> str:
        """The name of its gradient."""
        return f"_backward_np_{self.name.removeprefix('_npi_').removesuffix('enate')}"


def _flattened(p: Any, shape: Shape) -> Shape:
    return (size_of(shape),) if p.axis is None else shape


def _column(p: Any, shape: Shape) -> Shape:
    return (*at_least(1, shape), 1) if len(shape) < 2 else shape


JOINS = (
    Join(
        "_npi_concatenate",
        ConcatenateParams,
        "data",
        "out",
        lambda p, ndim: p.axis or 0,
        _flattened,
        "Join arrays along an axis.",
    ),
    Join(
        "_npi_hstack",
        JoinAlongParams,
        "data",
        "out",
        lambda p, ndim: int(ndim > 1),
        lambda p, shape: at_least(1, shape),
        "Join arrays along the second axis, or vectors along their only one.",
    ),
    Join(
        "_npi_vstack",
        JoinParams,
        "arg",
        "output",
        lambda p, ndim: 0,
        lambda p, shape: at_least(2, shape),
        "Join arrays along the first axis; vectors are rows.",
    ),
    Join(
        "_npi_dstack",
        JoinAlongParams,
        "data",
        "out",
        lambda p, ndim: 2,
        lambda p, shape: at_least(3, shape),
        "Join arrays along the third axis.",
    ),
    Join(
        "_npi_column_stack",
        JoinParams,
        "arg",
        "output",
        lambda p, ndim: 1,
        _column,
        "Join arrays along the second axis; vectors are columns.",
    ),
)


def joined_shapes(join: Join, p: Any, ins: Shapes, outs: Shapes):
    """Arrays → the shape that they have when each has enough axes and they are joined."""
    if any(shape == () for shape in ins) and join.lifted(p, ()) == ():
        raise InferenceError("zero-dimensional arrays cannot be concatenated", expected="at least one axis", got="()")
    lifted = [None if shape is None else join.lifted(p, shape) for shape in ins]
    first = next((shape for shape in lifted if shape is not None), None)
    if first is None:
        return ins, outs
    along_axis = ConcatParams(num_args=p.num_args, dim=join.axis(p, len(first)))
    inputs, out = concat_shapes(along_axis, lifted, outs)
    for i, (new, part) in enumerate(zip(inputs, lifted, strict=True)):
        if part is not None and (len(part) != len(first) or completed(part, new) != completed(new, part)):
            raise InferenceError(
                "all the input array dimensions except for the concatenation axis must match exactly",
                input=f"{join.input}{i}",
                expected=format_shape(new),
                got=format_shape(part),
            )
    # What is inferred of an input is its own shape where it had its axes already.
    return [new if old == part else old for new, old, part in zip(inputs, ins, lifted, strict=True)], out


for _join in JOINS:
    register_op(
        _join.name,
        params=_join.params,
        variadic="num_args",
        list_inputs=lambda attrs, name=_join.input: [f"{name}{i}" for i in range(attrs.parsed.num_args)],
        outputs=(_join.output,),
        infer_shape=partial(joined_shapes, _join),
        **MOVES,
        doc=_join.doc,
    )
    jointly_linear(
        _join.name,
        adjoint=_join.adjoint,
        params=BackwardConcatenateParams if _join.params is ConcatenateParams else BackwardJoinParams,
        doc=f"The gradient of {_join.name}: the first input in pieces of the shapes of the others.",
    )

# -- stack -----------------------------------------------------------------------------------------------------------


class StackParams(Params):
    axis: Axis = param(0, doc="the place of the new axis in the result; negative counts from the end")
    num_args: int = param(ge=1, le=MAX_COUNT, doc="number of inputs")


def _stack_shapes(p: StackParams, ins: Shapes, outs: Shapes):
    """n arrays (…, …) ↔ (…, n, …)."""
    out = outs[0]
    shape = completed(*ins, without_axis(out, p.axis))
    if shape is None:
        return ins, outs
    axis = normal_axis(p.axis, len(shape) + 1)
    return [shape] * len(ins), [(*shape[:axis], p.num_args, *shape[axis:])]


def _stack_gradient(node: Node, ograds: Entries):
    """Each input's row of dY."""
    p: StackParams = node.attrs.parsed
    grad = apply("SliceChannel", ograds[0], num_outputs=p.num_args, axis=p.axis, squeeze_axis=True)
    return [grad._replace(index=i) for i in range(p.num_args)]


for _name in ("stack", "_npi_stack"):
    register_op(
        _name,
        params=StackParams,
        variadic="num_args",
        infer_shape=_stack_shapes,
        gradient=_stack_gradient,
        **MOVES,
        doc="Join arrays of one shape along a new axis.",
    )

# -- split -----------------------------------------------------------------------------------------------------------


class SliceChannelParams(Params):
    num_outputs: int = param(ge=1, le=MAX_COUNT, doc="number of equal parts")
    axis: Axis = param(1, doc="the axis to split; negative counts from the end")
    squeeze_axis: bool = param(False, doc="drop the axis, which must have as many elements as there are parts")


class SplitV2Params(Params):
    indices: Tuple = param(doc="where each part begins; used when sections is 0")
    axis: Axis = param(1, doc="the axis to split; negative counts from the end")
    squeeze_axis: bool = param(False, doc="drop the axis, which must have length 1 in every part")
    sections: int = param(0, ge=0, le=MAX_COUNT, doc="parts, the first 1 longer if need be; 0: at the indices")

    def check(self) -> str | None:
        if not self.sections and not self.indices:
            return "Parameters sections and indices are both empty"
        return None

    @property
    def num_outputs(self) -> int:
        """Number of parts."""
        return self.sections or len(self.indices)


def lengths(p: SliceChannelParams | SplitV2Params, length: int) -> list[int]:
    """The lengths of the parts of an axis. Raises ParamError when it cannot be split like this."""
    if isinstance(p, SplitV2Params) and not is_open(length) and not length:
        return [0] * p.num_outputs
    if isinstance(p, SplitV2Params) and not p.sections:
        bounds = [*p.indices, length]
        parts = [after - before for before, after in pairwise(bounds)]
        if p.indices[0] != 0 or not all(is_at_most(0, part) for part in parts):
            raise ParamError(
                f"Cannot split an axis of length {length}",
                param="indices",
                expected=f"ascending numbers, the first 0, the last at most {length}",
                got=p.indices,
            )
    else:
        count = p.num_outputs
        even = isinstance(p, SliceChannelParams)
        if is_open(length) and not even:
            raise ParamError(f"An axis of open length {length} cannot be split", param="axis", got=p.axis)
        part, longer = divmod(length, count)
        if even and not is_multiple(length, count):
            raise ParamError(
                f"An axis of length {length} has no equal parts",
                param="num_outputs",
                expected=f"a divisor of {length}",
                got=count,
                fix="split_v2 splits in parts that are nearly equal.",
            )
        parts = [part + 1] * longer + [part] * (count - longer)
    if p.squeeze_axis and set(parts) != {1}:
        raise ParamError(
            "Only an axis of length 1 can be dropped",
            param="squeeze_axis",
            expected=f"as many parts as the {length} elements of axis {p.axis}",
            got=f"parts of lengths {parts}",
        )
    return parts


def _split_shapes(
    p: SliceChannelParams | SplitV2Params, ins: Shapes, outs: Shapes, of: Callable[[int], int] | None = None
):
    """data (…, d, …) ↔ parts (…, d / n, …), or (…, …) when the axis is dropped: of a vector numbers without axes.

    of: number of axes → the one to split, where it is not a parameter.
    """
    data = ins[0]
    part = next((shape for shape in outs if shape is not None), None)
    if data is None and part is None:
        return ins, outs
    ndim = len(data) if data is not None else len(part or ()) + p.squeeze_axis
    axis = normal_axis(p.axis if of is None else of(ndim), ndim)
    back: Shape | None = None
    if all(shape is not None and len(shape) == ndim - p.squeeze_axis for shape in outs):
        back = _whole(p, [shape for shape in outs if shape is not None], axis)
    if data is None:
        return [back], outs
    length = data[axis]
    parts = [None] * p.num_outputs if length is None else lengths(p, length)
    return [back], [replaced(data, axis) if p.squeeze_axis else replaced(data, axis, n) for n in parts]


def _whole(p: SliceChannelParams | SplitV2Params, outs: list[Shape], axis: int) -> Shape:
    """The shape of which these are the parts."""
    others = [shape if p.squeeze_axis else replaced(shape, axis) for shape in outs]
    common = tuple(known(*dims) for dims in zip(*others, strict=True))
    parts = [1 if p.squeeze_axis else shape[axis] for shape in outs]
    total = None if None in parts else sum(part or 0 for part in parts)
    return (*common[:axis], total, *common[axis:])


def _split_gradient(node: Node, ograds: Entries):
    """dX = the parts' gradients, joined."""
    p: SliceChannelParams | SplitV2Params = node.attrs.parsed
    if p.squeeze_axis:
        return [apply("reshape_like", apply("stack", *ograds, axis=p.axis, num_args=len(ograds)), node.inputs[0])]
    return [apply("Concat", *ograds, dim=p.axis, num_args=len(ograds))]


def _split_layout(p: SliceChannelParams | SplitV2Params, order: ChannelsLast) -> Corrected | None:
    """Without the axis that was split, the others are in their old order if that one was channels."""
    layout = along("axis")(p, order)
    if not p.squeeze_axis or layout is None:
        return layout
    return layout._replace(outputs=0) if layout.params["axis"] == order.axis(1) else None


def _numbered_outputs(attrs: NodeAttrs) -> list[str]:
    """`output0`, …: as an operator of MXNet's older form it numbers a single output, too."""
    return [f"output{i}" for i in range(attrs.parsed.num_outputs)]


for _name, _aliases, _params, _doc in (
    ("SliceChannel", ("split",), SliceChannelParams, "Split an axis in equal parts."),
    ("_split_v2", ("_npi_split",), SplitV2Params, "Split an axis in nearly equal parts, or at given places."),
):
    register_op(
        _name,
        aliases=_aliases,
        params=_params,
        inputs=("data",),
        num_outputs=lambda p: p.num_outputs,
        infer_shape=_split_shapes,
        gradient=_split_gradient,
        flops=0,
        precision="either" if _name == "SliceChannel" else None,
        layout=_split_layout,
        samples=across("axis"),
        doc=_doc,
    )

Op.get("SliceChannel").set_attr("FListOutputNames", _numbered_outputs)

# -- splitting as NumPy does -----------------------------------------------------------------------------------------


SPLIT_AXES: dict[str, Callable[[int], int]] = {"_npi_hsplit": lambda ndim: int(ndim > 1), "_npi_dsplit": lambda ndim: 2}
"""Operator → number of axes → the one that it splits."""

for _name, _joined, _doc in (
    ("_npi_hsplit", "_npi_hstack", "Split the second axis, or the only one of a vector."),
    ("_npi_dsplit", "_npi_dstack", "Split the third axis."),
):
    register_op(
        _name,
        params=SplitV2Params,
        inputs=("data",),
        num_outputs=lambda p: p.num_outputs,
        infer_shape=partial(_split_shapes, of=SPLIT_AXES[_name]),
        gradient=lambda node, ograds, joined=_joined: [apply(joined, *ograds, num_args=len(ograds))],
        **MOVES,
        doc=_doc,
    )
