"""How each primitive of JAX is computed by one lane: on its rows, as a summand, or as the whole.

A rule takes a lane, an equation and its pieces, and returns the pieces of its results. Primitives without a rule are
computed on whole values alone: where they get rows, the program is not split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import jax
import numpy as np

from lowering.lanes.pieces import Lane, Piece, Unsplit

Rule = Callable[[Lane, Any, list[Piece]], list[Piece]]

RULES: dict[str, Rule] = {}


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def registered(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return registered


def bound(equation: Any, arrays: Sequence[Any], **changed: Any) -> list[Any]:
    """Return an equation's results for other arrays, with some of its parameters changed."""
    results = equation.primitive.bind(*arrays, **(equation.params | changed))
    return list(results) if equation.primitive.multiple_results else [results]


def _one(equation: Any, arrays: Sequence[Any], axis: int | None, **changed: Any) -> list[Piece]:
    return [Piece(array, axis) for array in bound(equation, arrays, **changed)]


def whole(lane: Lane, equation: Any, pieces: list[Piece]) -> list[Piece]:
    """Compute an equation of whole values."""
    return _one(equation, [lane.summed(piece).array for piece in pieces], None)


def split_axis(pieces: Sequence[Piece]) -> int | None:
    """Return the axis along which some pieces are split."""
    return next((piece.axis for piece in pieces if piece.axis is not None), None)


# -- element by element ------------------------------------------------------------------------------------------------

_ELEMENTWISE = """
    abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil clamp clz complex conj
    convert_element_type copy copy_p cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt igamma igammac
    imag integer_pow is_finite le lgamma log log1p log2 logistic lt max min mul ne neg nextafter not one_minus_square
    optimization_barrier or polygamma population_count pow real reduce_precision regularized_incomplete_beta rem round
    rsqrt select_n shift_left shift_right_arithmetic shift_right_logical sign sin sinh sqrt square stop_gradient sub tan
    tanh xor zeta
"""


@_rule(*_ELEMENTWISE.split())
def _elementwise(lane: Lane, equation: Any, pieces: list[Piece]) -> list[Piece]:
    name = equation.primitive.name
    if name == "optimization_barrier":  # of values that need not have one shape
        arrays = bound(equation, [piece.array for piece in pieces])
        pairs = zip(arrays, pieces, strict=True)
        return [lane.partial(array, of) if of.partial else Piece(array, of.axis) for array, of in pairs]
    if (summand := _linear(lane, equation, pieces)) is not None:
        return summand
    axis = split_axis([lane.summed(piece) for piece in pieces])
    if axis is None:
        return whole(lane, equation, pieces)
    return _one(equation, [p.array if not np.ndim(p.array) else lane.rows(p, axis) for p in pieces], axis)


def _linear(lane: Lane, equation: Any, pieces: list[Piece]) -> list[Piece] | None:
    """Return the summand where an equation is linear in summands; None where it is not."""
    partial = [piece for piece in pieces if piece.partial]
    others = [piece for piece in pieces if not piece.partial]
    if not partial or split_axis(others) is not None:
        return None
    match equation.primitive.name:
        case "add" | "add_any" | "sub":
            fits = True
        case "mul" | "dot_general":
            fits = len(partial) == 1
        case "div":
            is_inexact = jax.numpy.issubdtype(equation.outvars[0].aval.dtype, jax.numpy.inexact)
            fits = pieces[0].partial and len(partial) == 1 and is_inexact  # that of integers rounds
        case "neg" | "copy" | "copy_p" | "stop_gradient" | "reduce_sum":
            fits = True
        case "transpose" | "squeeze" | "slice" | "unstack" | "rev":
            fits = True
        case "broadcast_in_dim" | "reshape":
            fits = prod(equation.params.get("shape", equation.outvars[0].aval.shape)) == pieces[0].array.size
        case "concatenate" | "stack":
            fits = not others
        case _:
            fits = False
    if not fits:
        return None
    added = equation.primitive.name in ("add", "add_any", "sub")
    arrays = [lane.summand(piece) if added else piece.array for piece in pieces]
    return [lane.partial(array, *partial) for array in bound(equation, arrays)]


# -- axes in other places ----------------------------------------------------------------------------------------------


def _moves(*names: str) -> Callable[[Callable[..., tuple[int, dict[str, Any]]]], None]:
    """Register a rule of primitives with one array, or several alike. The function: (lane, equation, axis of the rows)
    → their axis in the result, and changed parameters."""

    def registered(moved: Callable[[Lane, Any, int], tuple[int, dict[str, Any]]]) -> None:
        def rule(lane: Lane, equation: Any, pieces: list[Piece]) -> list[Piece]:
            if (summand := _linear(lane, equation, pieces)) is not None:
                return summand
            axis = split_axis([lane.summed(piece) for piece in pieces])
            if axis is None:
                return whole(lane, equation, pieces)
            to, changed = moved(lane, equation, axis)
            rank = len(equation.invars[0].aval.shape)
            arrays = [lane.rows(piece, axis) if np.ndim(piece.array) == rank else piece.array for piece in pieces]
            return _one(equation, arrays, to, **changed)

        RULES.update(dict.fromkeys(names, rule))

    return registered


def _refuse(equation: Any, what: str = "") -> Unsplit:
    return Unsplit(f"{equation.primitive.name} mixes samples{what}")


@_moves("transpose")
def _transpose(lane: Lane, equation: Any, axis: int) -> tuple[int, dict[str, Any]]:
    return equation.params["permutation"].index(axis), {}


@_moves("squeeze")
def _squeeze(lane: Lane, equation: Any, axis: int) -> tuple[int, dict[str, Any]]:
    return axis - sum(dim < axis for dim in equation.params["dimensions"]), {}


@_moves("broadcast_in_dim")
def _broadcast(lane: Lane, equation: Any, axis: int) -> tuple[int, dict[str, Any]]:
    to = equation.params["broadcast_dimensions"][axis]
    return to, {"shape": lane.local(equation.params["shape"], to), "sharding": None}


@_moves("reshape")
def _reshape(lane: Lane, equation: Any, axis: int) -> tuple[int, dict[str, Any]]:
    """Rows stay blocks of memory where as many elements stand before them as before."""
    before, sizes = equation.invars[0].aval.shape, equation.params["new_sizes"]
    for to, size in enumerate(sizes):
        if prod(sizes[:to]) == prod(before[:axis]) and size > 1 and size % lane.count == 0:
            return to, {"new_sizes": lane.local(sizes, to)}
    raise Unsplit(f"reshape from {before} to {sizes} takes samples apart")


@_moves("rev")
def _rev(lane: Lane, equation: Any, axis: int) -> tuple[int, dict[str, Any]]:
    if axis in equation.params["dimensions"]:
        raise _refuse(equation)
    return axis, {}


@_moves("concatenate", "cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp", "sort")
def _along(lane: Lane, equation: Any, axis: int) -> tuple[int, dict[str, Any]]:
    """Operations along one axis."""
    if axis == equation.params.get("dimension", equation.params.get("axis")):
        raise _refuse(equation)
    return axis, {}


@_moves("stack")
def _stack(lane: Lane, equation: Any, axis: int) -> tuple[int, dict[str, Any]]:
    return axis + (axis >= equation.params["axis"]), {}


@_rule("unstack")
def _unstack(lane: Lane, equation: Any, pieces: list[Piece]) -> list[Piece]:
    if (summands := _linear(lane, equation, pieces)) is not None:
        return summands
    [piece], along = pieces, equation.params["axis"]
    if piece.axis is None:
        return whole(lane, equation, pieces)
    if piece.axis == along:
        raise _refuse(equation)
    return [Piece(array, piece.axis - (piece.axis > along)) for array in bound(equation, [piece.array])]


@_moves("pad")
def _pad(lane: Lane, equation: Any, axis: int) -> tuple[int, dict[str, Any]]:
    if any(equation.params["padding_config"][axis]):
        raise _refuse(equation)
    return axis, {}


@_moves("tile")
def _tile(lane: Lane, equation: Any, axis: int) -> tuple[int, dict[str, Any]]:
    if equation.params["reps"][axis] > 1:
        raise _refuse(equation)
    return axis, {}


@_moves("slice")
def _slice_beside(lane: Lane, equation: Any, axis: int) -> tuple[int, dict[str, Any]]:
    """A part of each sample."""
    return axis, {"limit_indices": lane.local(equation.params["limit_indices"], axis)}


_sliced = RULES["slice"]


@_rule("slice")
def _slice(lane: Lane, equation: Any, pieces: list[Piece]) -> list[Piece]:
    """Samples that one lane has are its summand, and the others' are zeros."""
    [piece], params = pieces, equation.params
    axis, size = piece.axis, 0 if piece.axis is None else equation.invars[0].aval.shape[piece.axis]
    if axis is None or equation.outvars[0].aval.shape[axis] == size:
        return _sliced(lane, equation, pieces)
    rows, start, limit = size // lane.count, params["start_indices"][axis], params["limit_indices"][axis]
    owner = start // rows
    if (limit - 1) // rows != owner:
        raise _refuse(equation)
    begin, end = [*params["start_indices"]], [*params["limit_indices"]]
    begin[axis], end[axis] = start - owner * rows, limit - owner * rows
    [own] = bound(equation, [piece.array], start_indices=tuple(begin), limit_indices=tuple(end))
    if lane.lane_sum is None:
        return [Piece(own)]
    return [lane.partial(jax.numpy.where(lane.number == owner, own, jax.numpy.zeros_like(own)))]


@_moves("split")
def _split(lane: Lane, equation: Any, axis: int) -> tuple[int, dict[str, Any]]:
    if axis == equation.params["axis"]:
        raise _refuse(equation)
    return axis, {}


@_moves("reduce_window_sum", "reduce_window_max", "reduce_window_min", "select_and_gather_add")
def _window(lane: Lane, equation: Any, axis: int) -> tuple[int, dict[str, Any]]:
    if equation.params["window_dimensions"][axis] != 1 or any(equation.params["padding"][axis]):
        raise _refuse(equation)
    return axis, {}


RULES["select_and_scatter_add"] = RULES["reduce_window_sum"]


@_moves("reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or", "reduce_xor", "argmax", "argmin")
def _reduce(lane: Lane, equation: Any, axis: int) -> tuple[int, dict[str, Any]]:
    axes = equation.params["axes"]
    if axis in axes:
        raise _refuse(equation)
    return axis - sum(other < axis for other in axes), {}


@_rule("reduce_sum")
def _reduce_sum(lane: Lane, equation: Any, pieces: list[Piece]) -> list[Piece]:
    [piece] = pieces
    if piece.axis in equation.params["axes"]:
        return [lane.partial(array) for array in bound(equation, [piece.array])]
    return RULES["reduce_max"](lane, equation, pieces)


@_rule("dynamic_slice", "dynamic_update_slice")
def _dynamic(lane: Lane, equation: Any, pieces: list[Piece]) -> list[Piece]:
    """A part of each sample; where it begins is the same for all."""
    updates = equation.primitive.name == "dynamic_update_slice"
    arrays, starts = pieces[: 1 + updates], [lane.summed(start) for start in pieces[1 + updates :]]
    axis = split_axis([lane.summed(piece) for piece in arrays])
    if axis is None and split_axis(starts) is None:
        return whole(lane, equation, pieces)
    if axis is None or split_axis(starts) is not None:
        raise _refuse(equation)
    part = equation.invars[1].aval.shape if updates else equation.params["slice_sizes"]
    if part[axis] != equation.invars[0].aval.shape[axis]:
        raise _refuse(equation)
    changed = {} if updates else {"slice_sizes": lane.local(part, axis)}
    return _one(equation, [*(lane.rows(a, axis) for a in arrays), *(s.array for s in starts)], axis, **changed)


# -- products ----------------------------------------------------------------------------------------------------------


@_rule("dot_general")
def _dot_general(lane: Lane, equation: Any, pieces: list[Piece]) -> list[Piece]:
    if (summand := _linear(lane, equation, pieces)) is not None:
        return summand
    contracted, batched = equation.params["dimension_numbers"]
    at = 0 if lane.summed(pieces[0]).axis is not None else 1
    axis, other = lane.summed(pieces[at]).axis, lane.summed(pieces[1 - at])
    if axis is None:
        return whole(lane, equation, pieces)
    for (here, there), added in ((batched, False), (contracted, True)):
        here, there = (here, there) if at == 0 else (there, here)
        if axis in here:
            place = here.index(axis)
            rows = [lane.rows(pieces[at], axis), lane.rows(other, there[place])]
            results = bound(equation, rows if at == 0 else rows[::-1])
            return [lane.partial(array) if added else Piece(array, place) for array in results]
    if other.axis is not None:
        raise _refuse(equation)
    ranks = [len(variable.aval.shape) for variable in equation.invars]
    used = {*contracted[at], *batched[at]}
    free = [i for i in range(ranks[at]) if i not in used]
    before = len(batched[0]) + (ranks[0] - len(contracted[0]) - len(batched[0]) if at else 0)
    return _one(equation, [piece.array for piece in pieces], before + free.index(axis))


@_rule("conv_general_dilated")
def _convolution(lane: Lane, equation: Any, pieces: list[Piece]) -> list[Piece]:
    data, weight = (lane.summed(piece) for piece in pieces)
    numbers, params = equation.params["dimension_numbers"], equation.params
    (batch, channels, *_), (_, inputs, *_) = numbers.lhs_spec, numbers.rhs_spec
    if data.axis is None and weight.axis is None:
        return whole(lane, equation, pieces)
    if params["batch_group_count"] != 1 or data.axis not in (batch, channels):
        raise _refuse(equation)
    if data.axis == batch and weight.axis is None:
        return _one(equation, [data.array, weight.array], numbers.out_spec[0])
    if data.axis != channels or weight.axis != inputs or params["feature_group_count"] != 1:
        raise _refuse(equation)
    return [lane.partial(array) for array in bound(equation, [data.array, weight.array])]


@_rule("library_call")
def _library_call(lane: Lane, equation: Any, pieces: list[Piece]) -> list[Piece]:
    """A call of a library takes samples along an axis of its first array, or adds up those of all."""
    function = equation.params["function"]
    axis: int = function.samples_axis
    data, *others = (lane.summed(piece) for piece in pieces)
    if split_axis([data, *others]) is None:
        return whole(lane, equation, pieces)
    if function.adds_samples:
        arrays = [lane.rows(piece, axis) for piece in (data, *others)]
        return [lane.partial(function.of_samples(arrays[0].shape[axis])(*arrays))]
    if data.axis != axis or split_axis(others) is not None:
        raise _refuse(equation)
    own = function.of_samples(data.array.shape[axis])
    return [Piece(own(data.array, *(other.array for other in others)), axis)]


# -- indexed -----------------------------------------------------------------------------------------------------------


@_rule("gather")
def _gather(lane: Lane, equation: Any, pieces: list[Piece]) -> list[Piece]:
    operand, indices = (lane.summed(piece) for piece in pieces)
    numbers, rank = equation.params["dimension_numbers"], len(equation.outvars[0].aval.shape)
    if operand.axis is None and indices.axis is None:
        return whole(lane, equation, pieces)
    batch = [i for i in range(rank) if i not in numbers.offset_dims]
    together = [*zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)]
    for of_operand, of_indices in together:
        if operand.axis == of_operand or indices.axis == of_indices:
            arrays = [lane.rows(operand, of_operand), lane.rows(indices, of_indices)]
            return _one(equation, arrays, batch[of_indices])
    if operand.axis is None and indices.axis is not None and indices.axis < len(indices.array.shape) - 1:
        return _one(equation, [operand.array, indices.array], batch[indices.axis])
    sizes = equation.params["slice_sizes"]
    gone = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    if operand.axis is None or indices.axis is not None or operand.axis in gone:
        raise _refuse(equation)
    if sizes[operand.axis] != equation.invars[0].aval.shape[operand.axis]:
        raise _refuse(equation)
    offset = [i for i in range(len(sizes)) if i not in gone].index(operand.axis)
    local = lane.local(sizes, operand.axis)
    return _one(equation, [operand.array, indices.array], numbers.offset_dims[offset], slice_sizes=local)


@_rule("scatter-add", "scatter_add")
def _scatter_add(lane: Lane, equation: Any, pieces: list[Piece]) -> list[Piece]:
    operand, (indices, updates) = pieces[0], (lane.summed(piece) for piece in pieces[1:])
    numbers, rank = equation.params["dimension_numbers"], len(equation.invars[2].aval.shape)
    if operand.axis is None and indices.axis is None and updates.axis is None:
        return whole(lane, equation, pieces)
    batch = [i for i in range(rank) if i not in numbers.update_window_dims]
    together = zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True)
    for of_operand, of_indices in together:
        if operand.axis == of_operand or indices.axis == of_indices:
            arrays = [lane.rows(operand, of_operand), lane.rows(indices, of_indices)]
            return _one(equation, [*arrays, lane.rows(updates, batch[of_indices])], of_operand)
    if operand.axis is not None or updates.axis not in batch:
        raise _refuse(equation)
    rows = [lane.rows(indices, batch.index(updates.axis)), updates.array]
    return [lane.partial(array) for array in bound(equation, [lane.summand(operand), *rows])]
