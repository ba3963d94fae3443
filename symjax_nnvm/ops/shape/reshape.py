"""Operators that put the same elements in another shape: Reshape, Flatten, reshape_like; and shapes as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.ir.node import Node, apply
from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.params import MAX_COUNT, Axis, Params, Tuple, param
from symjax_nnvm.ir.register import Entries, NoParams, Shapes, first_type, register_op, same_shape
from symjax_nnvm.ir.rules.axes import known, size_of, solve_sizes
from symjax_nnvm.ir.rules.costs import ARRANGES, MOVES
from symjax_nnvm.ir.rules.quantized_form import quantized_as
from symjax_nnvm.ir.rules.samples import rows
from symjax_nnvm.ir.types import Shape, format_shape


def _reshaped_back(node: Node, ograds: Entries):
    """dX = dY in the shape of X."""
    return [apply("reshape_like", ograds[0], node.inputs[0])]


# -- Reshape ---------------------------------------------------------------------------------------------------------


Code = int | Literal["copy", "infer", "rest", "merge", "split", "skip"]
"""A size of the result, or what becomes of the next axes of data: one copied, one computed (or dropped: the result has
it in their place), all that remain copied, two merged, one split in the two sizes that follow, one of length 1 left
out."""

_CLASSIC: dict[int, Code] = {0: "copy", -1: "infer", -2: "rest", -3: "merge", -4: "split"}
_NUMPY: dict[int, Code] = {-1: "infer", -2: "copy", -3: "skip", -4: "rest", -5: "merge", -6: "split"}


def _codes_problem(numbers: Sequence[int], meaning: Mapping[int, Code], param: str) -> str | None:
    """What is wrong with a shape of codes."""
    if min(numbers, default=0) < min(meaning):
        return f"Parameter {param} knows the codes {max(meaning)} to {min(meaning)}, got {min(numbers)}"
    free = list(numbers)
    split = next(number for number, code in meaning.items() if code == "split")
    while split in free:
        at = free.index(split)
        parts = free[at + 1 : at + 3]
        if len(parts) < 2 or parts == [-1, -1] or not all(part == -1 or part > 0 for part in parts):
            return f"Code {split} in parameter {param} needs two sizes after it, one of them may be -1, got {parts}"
        del free[at : at + 3]
    if free.count(-1) > 1:
        return "One and only one dim can be inferred"
    return None


class ReshapeParams(Params):
    shape: Tuple = param(
        (),
        alias="target",
        doc="new dimensions; 0 copies a dimension of data, -1 is computed, -2 copies all remaining ones, -3 merges "
        "two, -4 splits one into the two numbers that follow (one of them may be -1)",
    )
    reverse: bool = param(False, doc="match dimensions from right to left")
    target_shape: Tuple = param((), doc="(deprecated) new dimensions; one 0 is computed")
    keep_highest: bool = param(False, doc="(deprecated) with target_shape: keep the first dimension of data")

    meaning: ClassVar[Mapping[int, Code]] = _CLASSIC

    def check(self) -> str | None:
        if not self.numbers:
            return "Parameter shape of tuple of int is not presented and neither is target_shape"
        return _codes_problem(self.numbers, _CLASSIC, "shape")

    @property
    def numbers(self) -> tuple[int, ...]:
        """The codes in the order in which they are matched with the dimensions of data."""
        if self.shape:
            return self.shape[::-1] if self.reverse else self.shape
        keep = 1 if self.keep_highest and self.target_shape else 0
        return (0,) * keep + tuple(dim or -1 for dim in self.target_shape[keep:])

    @property
    def from_right(self) -> bool:
        """Whether that order is from right to left."""
        return self.reverse and bool(self.shape)


class NumpyReshapeParams(Params):
    newshape: Tuple = param(ge=-1, doc="new dimensions; one may be -1, which is computed")
    order: str = param("C", doc="only C: the last axis changes fastest")

    meaning: ClassVar[Mapping[int, Code]] = _NUMPY
    from_right: ClassVar[bool] = False

    def check(self) -> str | None:
        if self.newshape.count(-1) > 1:
            return "Can only specify one unknown dimension"
        return _empty_problem(self.newshape)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The codes, as `ReshapeParams.numbers`."""
        return self.newshape


class NumpyXReshapeParams(Params):
    newshape: Tuple = param(
        doc="new dimensions; -1 is computed, -2 copies a dimension of data, -3 leaves out one of length 1, -4 copies "
        "all remaining ones, -5 merges two, -6 splits one into the two numbers that follow (one of them may be -1)"
    )
    reverse: bool = param(False, doc="match dimensions from right to left")
    order: str = param("C", doc="only C: the last axis changes fastest")

    meaning: ClassVar[Mapping[int, Code]] = _NUMPY

    def check(self) -> str | None:
        return _codes_problem(self.numbers, _NUMPY, "newshape") or _empty_problem(self.newshape)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The codes, as `ReshapeParams.numbers`."""
        return self.newshape[::-1] if self.reverse else self.newshape

    @property
    def from_right(self) -> bool:
        """Whether dimensions are matched from right to left."""
        return self.reverse


def _empty_problem(shape: Sequence[int]) -> str | None:
    if -1 in shape and 0 in shape:
        return f"Cannot reshape array of size 0 into shape {tuple(shape)}: any number could stand for -1"
    return None


AnyReshapeParams = ReshapeParams | NumpyReshapeParams | NumpyXReshapeParams


def reshape_shapes(p: AnyReshapeParams, ins: Shapes, outs: Shapes):
    """data (…) → the dimensions that the codes give; as many elements as before."""
    data, out = ins[0], outs[0]
    if data is None:
        return ins, [_without_data(p)]
    direction = -1 if p.from_right else 1
    source: list[int | None] = list(data[::direction])
    target, pieces = _match(p, source)
    if out is not None and len(out) == len(target):
        target = [known(dim, size) for dim, size in zip(target, out[::direction], strict=True)]
    for a, b in pieces:
        source[a], target[b] = solve_sizes(source[a], target[b])
    whole = solve_sizes(source, target)
    return [whole[0][::direction]], [whole[1][::direction]]


def _without_data(p: AnyReshapeParams) -> Shape | None:
    """The part of the result's shape that the codes alone give."""
    codes = [p.meaning.get(number, number) for number in p.numbers]
    if "rest" in codes:
        return None
    # The two numbers after a split are plain sizes.
    dims = tuple(code if isinstance(code, int) else None for code in codes if code not in ("split", "skip"))
    return dims[::-1] if p.from_right else dims


def _match(p: AnyReshapeParams, source: Sequence[int | None]) -> tuple[list[int | None], list[tuple[slice, slice]]]:
    """The target's dimensions, and which pieces of source and target hold the same elements."""
    target: list[int | None] = []
    pieces: list[tuple[slice, slice]] = []
    at = 0
    numbers = iter(p.numbers)
    for number in numbers:
        code, taken = p.meaning.get(number, number), 1
        match code:
            case "rest":
                taken, matched = max(len(source) - at, 0), list(source[at:])
                pieces += [
                    (slice(at + i, at + i + 1), slice(len(target) + i, len(target) + i + 1)) for i in range(taken)
                ]
            case "split":
                matched = [part if part > 0 else None for part in (next(numbers), next(numbers))]
            case "merge":
                taken, matched = 2, [size_of(source[at : at + 2])]
            case "copy":
                matched = [source[at] if at < len(source) else None]
            case "skip":
                matched = []
            case "infer":
                matched = [None]
            case int():
                matched = [code]
        if code in ("copy", "merge", "split", "skip"):
            if at + taken > len(source):
                raise ParamError(
                    f"Code {number} needs a dimension that data does not have",
                    param="shape" if p.meaning is _CLASSIC else "newshape",
                    expected=f"at most {len(source)} dimensions of data to be used",
                    got=format_shape(tuple(source)),
                )
            pieces.append((slice(at, at + taken), slice(len(target), len(target) + len(matched))))
        at += taken
        target += matched
    return target, pieces


for _name, _aliases, _params, _inputs, _doc in (
    (
        "Reshape",
        ("reshape",),
        ReshapeParams,
        None,
        "The same elements in another shape. Unlike MXNet, a shape with another number of elements is an error.",
    ),
    ("_np_reshape", (), NumpyReshapeParams, ("a",), "The same elements in another shape, as NumPy gives it."),
    (
        "_npx_reshape",
        ("_npi_reshape",),
        NumpyXReshapeParams,
        ("a",),
        "The same elements in another shape, of sizes and codes.",
    ),
):
    register_op(
        _name,
        aliases=_aliases,
        params=_params,
        inputs=_inputs,
        infer_shape=reshape_shapes,
        gradient=_reshaped_back,
        inplace=((0, 0),),
        **ARRANGES,
        samples=rows,
        shape_parameters=("shape", "target_shape") if _name == "Reshape" else ("newshape",),
        doc=_doc,
    )

# -- Flatten, reshape_like -------------------------------------------------------------------------------------------


def flatten_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """data (n, …) ↔ (n, d), d the product of the other dimensions."""
    data, out = ins[0], outs[0] if outs[0] is not None and len(outs[0]) == 2 else (None, None)
    if data is None:
        return ins, [out]
    if not data:
        raise InferenceError("There is nothing to flatten", expected="at least one axis", got="none")
    dims, flat = solve_sizes(data[1:], [out[1]])
    batch = known(data[0], out[0])
    return [(batch, *dims)], [(batch, *flat)]


register_op(
    "Flatten",
    FQuantized=quantized_as("_contrib_quantized_flatten"),
    aliases=("_npx_batch_flatten", "flatten"),
    infer_shape=flatten_shapes,
    gradient=_reshaped_back,
    inplace=((0, 0),),
    **ARRANGES,
    samples=rows,
    doc="Collapse all axes but the first: (n, …) → (n, d).",
)


class ReshapeLikeParams(Params):
    lhs_begin: Axis | None = param(None, doc="first axis of lhs that is reshaped; default 0")
    lhs_end: Axis | None = param(None, doc="the axis of lhs after the last that is reshaped; default all")
    rhs_begin: Axis | None = param(None, doc="first axis of rhs whose shape is taken; default 0")
    rhs_end: Axis | None = param(None, doc="the axis of rhs after the last whose shape is taken; default all")

    @property
    def is_whole(self) -> bool:
        """Whether the whole shape is taken."""
        return (self.lhs_begin, self.lhs_end, self.rhs_begin, self.rhs_end) == (None,) * 4


def reshape_like_shapes(p: ReshapeLikeParams, ins: Shapes, outs: Shapes):
    """lhs (a…, x…, b…), rhs (…, y…, …) → (a…, y…, b…), where x… and y… have as many elements."""
    lhs, rhs = ins
    out = outs[0]
    if p.is_whole:
        out = rhs if rhs is not None else out
        if lhs is not None and out is not None:
            lhs, out = solve_sizes(lhs, out)
        return [lhs, out], [out]
    if lhs is None or rhs is None:
        return ins, outs
    left = _axis_range("lhs", p.lhs_begin, p.lhs_end, len(lhs))
    right = _axis_range("rhs", p.rhs_begin, p.rhs_end, len(rhs))
    old, new = solve_sizes(lhs[left], rhs[right])
    before, after = lhs[: left.start], lhs[left.stop :]
    return [(*before, *old, *after), (*rhs[: right.start], *new, *rhs[right.stop :])], [(*before, *new, *after)]


def _axis_range(side: str, begin: int | None, end: int | None, ndim: int) -> slice:
    first = 0 if begin is None else begin + ndim * (begin < 0)
    last = ndim if end is None else end + ndim * (end < 0)
    if not 0 <= first < last <= ndim:
        raise ParamError(
            "No such range of axes",
            param=f"{side}_begin, {side}_end",
            expected=f"0 ≤ begin < end ≤ {ndim}, the number of axes of {side}",
            got=f"{begin}, {end}",
        )
    return slice(first, last)


register_op(
    "reshape_like",
    aliases=("_npx_reshape_like",),
    params=ReshapeLikeParams,
    inputs=("lhs", "rhs"),
    infer_shape=reshape_like_shapes,
    infer_type=first_type,
    gradient=lambda node, ograds: [*_reshaped_back(node, ograds), None],
    inplace=((0, 0),),
    FIgnoreInputs=lambda attrs: (1,),
    **ARRANGES,
    samples=rows,
    doc="The elements of lhs in the shape of rhs, or in that of some of its axes.",
)

# -- shapes as data --------------------------------------------------------------------------------------------------


for _name, _aliases, _rank, _doc in (
    ("shape_array", ("_npx_shape_array",), lambda data: None if data is None else (len(data),), "The shape of data."),
    ("size_array", (), lambda data: (1,), "The number of elements of data."),
):
    register_op(
        _name,
        aliases=_aliases,
        infer_shape=lambda p, ins, outs, rank=_rank: (ins, [rank(ins[0])]),
        infer_type=lambda p, ins, outs: (ins, ["int64"]),
        gradient=lambda node, ograds: [None],
        FIgnoreInputs=lambda attrs: (0,),
        flops=0,
        doc=_doc,
    )

# -- at least so many axes; copies -----------------------------------------------------------------------------------


class AtLeastParams(Params):
    num_args: int = param(ge=1, le=MAX_COUNT, doc="number of inputs")


AT_LEAST = {f"_np_atleast_{ndim}d": ndim for ndim in (1, 2, 3)}
"""Operator → the number of axes that its results have at least."""


def at_least(ndim: int, shape: Shape) -> Shape:
    """The shape with axes of length 1 before it, and behind it if it is to have three, so that it has so many."""
    if len(shape) >= ndim:
        return shape
    if ndim == 3 and shape:
        return (*at_least(2, shape), 1)
    return (1,) * (ndim - len(shape)) + shape


for _name, _ndim in AT_LEAST.items():
    register_op(
        _name,
        params=AtLeastParams,
        variadic="num_args",
        list_inputs=lambda attrs: [f"ary{i}" for i in range(attrs.parsed.num_args)],
        num_outputs=lambda p: p.num_args,
        infer_shape=lambda p, ins, outs, ndim=_ndim: (
            ins,
            [None if shape is None else at_least(ndim, shape) for shape in ins],
        ),
        gradient=lambda node, ograds: [apply("reshape_like", dy, x) for dy, x in zip(ograds, node.inputs, strict=True)],
        **MOVES,
        deviation=Deviation("the gradient passes; MXNet's is zero", affects="training"),
        doc=f"Arrays with axes of length 1 more, so that each has at least {_ndim}.",
    )

register_op(
    "_np_copy",
    inputs=("a",),
    infer_shape=same_shape,
    gradient=lambda node, ograds: [ograds[0]],
    inplace=((0, 0),),
    **ARRANGES,
    layout="agnostic",
    doc="The array itself.",
)

register_op(
    "_npi_share_memory",
    inputs=("a", "b"),
    infer_shape=lambda p, ins, outs: (ins, [()]),
    infer_type=lambda p, ins, outs: (ins, ["bool"]),
    gradient=lambda node, ograds: [None, None],
    flops=0,
    deviation="arrays share memory when they are one array; MXNet knows views of one, too",
    doc="Whether two arrays are one; of views of one array MXNet says so, too.",
)
