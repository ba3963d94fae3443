"""A program computed by one lane: each equation of its jaxpr on the lane's samples.

What sums over samples becomes a summand, which the lanes add up where the sum is needed as a number. Whatever is not
understood raises `Unsplit` with the reason, and the program stays whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from lowering.lanes.pieces import Lane, Piece, Unsplit
from lowering.lanes.primitive_rules import RULES, bound, split_axis, whole
from lowering.native.unpromised import counts_of_scan

_INLINED = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call")

_MOMENTS = "batch_moments"
"""The function of `lowering.ops.nn.batch_norm` that computes mean and variance over samples."""


def run(
    lane: Lane,
    jaxpr: Any,
    constants: Sequence[Any],
    pieces: Sequence[Piece],
    equations: Sequence[Any] | None = None,
) -> list[Piece]:
    """Compute a jaxpr's results from pieces of its inputs. equations: those that results depend on; None: all. Raises
    Unsplit."""
    env: dict[Any, Piece] = dict(zip(jaxpr.invars, pieces, strict=True))
    env |= {variable: Piece(value) for variable, value in zip(jaxpr.constvars, constants, strict=True)}

    def read(atom: Any) -> Piece:
        return Piece(atom.val) if hasattr(atom, "val") else env[atom]

    for equation in jaxpr.eqns if equations is None else equations:
        operands = [read(atom) for atom in equation.invars]
        try:
            with jax.named_scope(str(equation.source_info.name_stack)):
                results = _compute(lane, equation, operands)
        except Unsplit as reason:
            place = str(equation.source_info.name_stack)
            raise reason if reason.node else Unsplit(reason.reason, place) from None
        if split_axis(results) is not None:
            lane.work += sum(piece.array.nbytes for piece in results)
        env.update(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _compute(lane: Lane, equation: Any, operands: list[Piece]) -> list[Piece]:
    name = equation.primitive.name
    if name == "scan":
        return _scan(lane, equation, operands)
    if name in _INLINED:
        inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr", equation.params.get("fun_jaxpr")))
        program = partial(run, jaxpr=getattr(inner, "jaxpr", inner), constants=getattr(inner, "consts", ()))
        return (_moments if equation.params.get("name") == _MOMENTS else _inlined)(lane, program, operands)
    if name in RULES:
        return RULES[name](lane, equation, operands)
    if split_axis([lane.summed(piece) for piece in operands]) is None:
        return whole(lane, equation, operands)
    raise Unsplit(f"there is no rule for {name}")


def _inlined(lane: Lane, program: Callable[..., list[Piece]], operands: list[Piece]) -> list[Piece]:
    return program(lane, pieces=operands)


def _moments(lane: Lane, program: Callable[..., list[Piece]], operands: list[Piece]) -> list[Piece]:
    """Join mean and variance of equally many samples of each lane, by Chan's formula: the lanes meet once."""
    [piece] = operands
    if lane.summed(piece).axis is None or lane.lane_sum is None:
        return program(lane, pieces=operands)
    alone = Lane(lane.count, lane.number, None)
    own = [alone.summed(result) for result in program(alone, pieces=[Piece(piece.array, piece.axis)])]
    lane.work += alone.work
    if split_axis(own) is not None:  # channels, not samples, are the lanes'
        return own
    both = [lane.of_lanes(result.array) for result in own]
    means, variances = (lane.summed(statistic).array for statistic in both)
    mean = means.mean(0)
    return [Piece(mean), Piece((variances + jnp.square(means - mean)).mean(0))]


def _scan(lane: Lane, equation: Any, operands: list[Piece]) -> list[Piece]:
    """A loop whose steps are the same in every lane: samples are along other axes than steps are. One from sample to
    sample is that of the lane's samples, if it only adds to what it carries."""
    params, body = equation.params, equation.params["jaxpr"]
    consts, carried = counts_of_scan(equation)
    pieces = [lane.summed(piece) for piece in operands]
    if split_axis(pieces) is None:
        return whole(lane, equation, pieces)
    fixed, carry, steps = pieces[:consts], pieces[consts : consts + carried], pieces[consts + carried :]
    if any(piece.axis == 0 for piece in steps):
        adds = [_adds(body.jaxpr, i + consts, i) for i in range(carried)]
        separable = all(added or _rewrites(body.jaxpr, i + consts, i) for i, added in enumerate(adds))
        if split_axis([*fixed, *carry]) is not None or not separable:
            raise Unsplit("a loop passes something from sample to sample")
        begun = [lane.summand(p) if added else p.array for p, added in zip(carry, adds, strict=True)]
        arrays = [*(p.array for p in fixed), *begun, *(lane.rows(p, 0) for p in steps)]
        new_values = bound(equation, arrays, length=params["length"] // lane.count)
        last = lane.number == (0 if params["reverse"] else lane.count - 1)
        sums = [
            a if added else jnp.where(last, a, jnp.zeros_like(a)) for a, added in zip(new_values, adds, strict=False)
        ]
        return [*map(lane.partial, sums), *(Piece(a, 0) for a in new_values[carried:])]
    kinds: list[tuple[int | None, bool]] = [(piece.axis, False) for piece in carry]
    results: list[Piece] = []

    def step(values: Any, parts: Any) -> Any:
        nonlocal results
        inside = [Piece(piece.array, piece.axis) for piece in fixed]
        inside += [Piece(value, *kind) for value, kind in zip(values, kinds, strict=True)]
        rows = [None if piece.axis is None else piece.axis - 1 for piece in steps]
        inside += [Piece(part, axis) for part, axis in zip(parts, rows, strict=True)]
        with lane.looping():
            results = run(lane, body.jaxpr, getattr(body, "consts", ()), inside)
            result_kinds = [(piece.axis, piece.partial) for piece in results[:carried]]
            if [*map(_joined, kinds, result_kinds)] != kinds:
                raise _Grown(result_kinds)
            return (
                [_as(lane, piece, *kind) for piece, kind in zip(results[:carried], kinds, strict=True)],
                [piece.array for piece in results[carried:]],
            )

    parts = [piece.array for piece in steps]
    work = lane.work
    while True:
        lane.work = work
        values = [_as(lane, piece, *kind) for piece, kind in zip(carry, kinds, strict=True)]
        try:
            outputs = jax.lax.scan(step, values, parts, params["length"], params["reverse"], params["unroll"])
        except _Grown as grown:
            kinds = [*map(_joined, kinds, grown.found)]
        else:
            break
    lane.work += (lane.work - work) * (params["length"] - 1)
    pairs = [*zip(outputs[0], kinds, strict=True)]
    states = [lane.partial(value) if partial else Piece(value, axis) for value, (axis, partial) in pairs]
    stacked = [
        lane.partial(value) if piece.partial else Piece(value, None if piece.axis is None else piece.axis + 1)
        for value, piece in zip(outputs[1], results[carried:], strict=True)
    ]
    return states + stacked


class _Grown(Exception):
    """A loop's step returns samples or summands where what it carries was whole. found: axis, and whether it is a
    summand, of each result."""

    def __init__(self, found: Sequence[tuple[int | None, bool]]):
        super().__init__()
        self.found = found


def _as(lane: Lane, piece: Piece, axis: int | None, partial: bool) -> Any:
    """Return an array of one kind from a piece of that kind, or from a whole value."""
    if partial:
        return lane.summand(piece)
    return piece.array if axis is None else lane.rows(piece, axis)


def _joined(kind: tuple[int | None, bool], other: tuple[int | None, bool]) -> tuple[int | None, bool]:
    """Return the kind that a loop carries where it begins with one and a step returns another."""
    if kind == other or other == (None, False):
        return kind
    if kind != (None, False):
        raise Unsplit("a loop carries samples that become a sum")
    return other


def _adds(jaxpr: Any, argument: int, returned: int) -> bool:
    """Return whether a program returns an input, to which it adds what does not depend on it."""
    variable = jaxpr.invars[argument]
    while variable is not jaxpr.outvars[returned]:
        readers = [equation for equation in jaxpr.eqns if variable in equation.invars]
        if len(readers) != 1 or variable in jaxpr.outvars or readers[0].invars.count(variable) != 1:
            return False
        [reader] = readers
        if reader.primitive.name == "scan":
            consts, carried = counts_of_scan(reader)
            place = reader.invars.index(variable)
            if not consts <= place < consts + carried or not _adds(reader.params["jaxpr"].jaxpr, place, place - consts):
                return False
            variable = reader.outvars[place - consts]
        elif reader.primitive.name in ("add", "add_any"):
            variable = reader.outvars[0]
        else:
            return False
    return all(variable not in equation.invars for equation in jaxpr.eqns) and jaxpr.outvars.count(variable) == 1


def _rewrites(jaxpr: Any, argument: int, returned: int) -> bool:
    """Return whether a program writes over the same part of an input at each turn, and returns it: what another turn
    left in it is not read."""
    variable = jaxpr.invars[argument]
    readers = [equation for equation in jaxpr.eqns if variable in equation.invars]
    if len(readers) != 1 or readers[0].primitive.name != "dynamic_update_slice" or variable in jaxpr.outvars:
        return False
    written, _, *starts = readers[0].invars
    alike = all(hasattr(start, "val") for start in starts)
    return alike and written is variable and readers[0].outvars[0] is jaxpr.outvars[returned]
