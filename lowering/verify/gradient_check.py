"""The gradient witness: MXGradient against `jax.vjp` of the forward function and against finite differences.

Where they differ `nodes.py` names the nodes that make them differ. These two modules are the only ones of the library
that use a derivative of JAX's. Everything runs in float64, in a local context.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from lowering.api.gradient import is_float_array
from lowering.core.cache import Programs
from lowering.host.staged import Staged
from lowering.messages.arguments import arrays_by_name, head_gradients
from lowering.messages.migration_hints import with_migration_hints
from lowering.verify.nodes import NodeFinding, NodeWitness, moved
from lowering.verify.reports import (
    GradientReport,
    GradientRow,
    GradientsDisagreeError,
    ProjectionReport,
    ProjectionRow,
)
from lowering.verify.witness import Witness, witness
from symjax_nnvm.errors import GradientError, explain
from symjax_nnvm.pipeline import Options
from symjax_nnvm.symbol.symbol import Symbol

__all__ = [
    "GradientReport",
    "GradientRow",
    "GradientsDisagreeError",
    "NodeFinding",
    "ProjectionReport",
    "ProjectionRow",
    "Witness",
    "check_gradients",
    "check_projection",
    "relative_difference",
    "witness",
]

Arrays = Mapping[str, Any]
R = TypeVar("R", GradientReport, ProjectionReport)

_CALL = "lowering.check_gradients(symbol, args | {'data': x, 'softmax_label': y}, aux)"

_DIRECTIONS = 32
"""Directions that finite differences probe: every element of an argument up to this size, random directions beyond."""

_STEP = 1e-6
"""Finite-difference step, for arguments of order 1: near the cube root of float64's resolution."""

_SMALLER = (1e-1, 1e-2, 1e-3)
"""Parts of the step that are tried where a derivative disagrees. A step may cross a kink, such as relu's after a
BatchNorm, which magnifies small weights; a smaller one stays on one side. A wrong gradient stays wrong."""


def relative_difference(ours: Any, theirs: Any) -> tuple[float, float]:
    """Return (largest absolute difference, the same relative to the largest magnitude of `theirs`)."""
    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    absolute = float(np.max(np.abs(ours - theirs), initial=0.0))
    scale = float(np.max(np.abs(theirs), initial=0.0))
    return absolute, absolute / max(scale, 1e-300) if absolute else 0.0


class _Point:
    """The point at which gradients are compared, and how, in float64: made and used inside `jax.enable_x64`.

    rtol, fd_rtol: bounds against JAX and against finite differences. finite: whether these are computed; they are not
    where our own gradient of a node is trusted. seed: of all that is random, and of the key where there is none.
    """

    trusted = False

    def __init__(
        self,
        symbol: Symbol,
        args: Arrays,
        aux: Arrays | None,
        key: jax.Array | None,
        wrt: Sequence[str] | None,
        head_grads: Sequence[Any] | None,
        is_train: bool,
        rtol: float,
        fd_rtol: float,
        finite: bool,
        seed: int,
    ):
        self.symbol, self.is_train, self.finite = symbol, is_train, finite
        self.rtol, self.fd_rtol, self.rng = rtol, fd_rtol, np.random.default_rng(seed)
        self.args, self.aux = _widen(args), _widen(aux or {})
        self.key = jax.random.key(seed) if key is None else key
        floats = [name for name in symbol.list_arguments() if is_float_array(self.args.get(name, 0))]
        self.names = floats if wrt is None else list(wrt)
        self.program = Programs(symbol).gradient(Options(is_train=is_train, wrt=tuple(self.names)))
        outputs, _, _ = jax.eval_shape(self.program.run_forward, self.args, self.aux, self.key)
        self.heads = _heads(outputs, head_gradients(head_grads), self.rng)
        self.witness = witness(symbol, self.heads, is_train=is_train)
        self.chosen = {name: self.args[name] for name in self.names}

    def value(self, chosen: Arrays, held: Mapping[int, jax.Array] | None = None) -> jax.Array:
        """Return the witness's scalar, as a function of the arguments that are differentiated."""
        return self.witness({**self.args, **chosen}, self.aux, self.key, held)

    def gradients(self, chosen: Arrays) -> dict[str, jax.Array]:
        """Return our gradients."""
        return self.program({**self.args, **chosen}, self.aux, self.key, self.heads)[1]

    def blocked(self, chosen: Arrays) -> dict[int, jax.Array]:
        """Return what no derivative passes through."""
        return self.witness.blocked({**self.args, **chosen}, self.aux, self.key)

    def beside(self) -> _Point:
        """Return a point a little beside this one: see `moved`."""
        other = copy.copy(self)
        keys = jax.random.split(jax.random.key(int(self.rng.integers(1 << 31))), max(1, len(self.names)))
        other.chosen = {name: moved(self.chosen[name], key) for name, key in zip(self.names, keys, strict=False)}
        other.args = {**self.args, **other.chosen}
        return other

    def trusting(self, nodes: NodeWitness, findings: Sequence[NodeFinding]) -> _Point:
        """Return the same point, where the witness takes our own gradient of the nodes that were found."""
        if not findings:
            return self
        other = copy.copy(self)
        other.witness = nodes.by_ours(self.witness, findings)
        other.finite, other.trusted = False, True
        return other


def _proven(point: _Point, compare: Callable[[_Point], R], rows: str) -> R:
    """Return the report at the point. rows: what its rows are of, in the message of GradientsDisagreeError."""
    report = _settled(point, compare)
    if not report.ok:
        wrong = [getattr(row, "argument", i + 1) for i, row in enumerate(report.rows) if not row.ok]
        raise GradientsDisagreeError(explain(f"Gradients disagree {rows} {wrong}"), report)
    return report


def _settled(point: _Point, compare: Callable[[_Point], R]) -> R:
    """Return the report at the point; where something differs, with the nodes that make it differ, and off its kinks.

    A kink is left by moving the point a little. Where a node is at one wherever the point is, or its gradient is meant
    not to be the derivative, our own gradient of that node counts, and all others are held to theirs.
    """
    report = compare(point)
    if report.ok or not point.names:
        return report
    nodes = NodeWitness(point.symbol, point.names, is_train=point.is_train, finite_differences=point.finite)

    def examine(at: _Point) -> list[NodeFinding]:
        return nodes.examine(at.args, at.aux, at.key, rtol=point.rtol, fd_rtol=point.fd_rtol)

    here = there = examine(point)
    kinks = [finding for finding in here if finding.kind == "at a kink"]
    if not here or any(finding.kind == "wrong" for finding in here):
        return replace(report, nodes=tuple(here))
    if kinks:
        point = point.beside()
        report = replace(compare(point), nodes=tuple(here), moved=True)
        if report.ok:
            return report
        there = examine(point)
    every = tuple({finding.node: finding for finding in (*here, *there)}.values())
    if not there or any(finding.kind == "wrong" for finding in there):
        return replace(report, nodes=every)
    return replace(compare(point.trusting(nodes, there)), nodes=every, moved=bool(kinks), trusted=True)


@with_migration_hints("check_gradients", _CALL)
def check_gradients(
    symbol: Symbol,
    args: Arrays,
    aux: Arrays | None = None,
    key: jax.Array | None = None,
    *,
    wrt: Sequence[str] | None = None,
    head_grads: Sequence[Any] | None = None,
    is_train: bool = True,
    rtol: float = 1e-9,
    fd_rtol: float = 1e-5,
    finite_differences: bool = True,
    seed: int = 0,
) -> GradientReport:
    """Prove MXGradient's gradients of a symbol at one point; the report prints as a table.

    Each gradient is compared with JAX's derivative and with finite differences, in float64. Finite differences probe
    each element of a small argument and random directions of a large one. Use `check_projection` for a network of
    millions of parameters. Where something differs, each node is examined by itself.

    A point at a kink (relu at 0, ties, clip at its bounds) is moved: each element of the arguments goes 0.0005 to 0.001
    of the way to the least or greatest of its array, so that it stays within the given values. A node whose gradient is
    intentionally not the derivative (FNotDerivative), or whose kink no move leaves, counts as correct, and everything
    else is compared. The report's `nodes` name them.

    A kink near the point may lie between the two ends of a finite difference. A derivative that disagrees is therefore
    taken with steps of 1e-7, 1e-8 and 1e-9, too, and must agree within the same bounds; the report shows where one was
    needed.

    Args:
        symbol: the network.
        args: arguments by name; float ones are converted to float64.
        aux: auxiliary states by name.
        key: the PRNG key, where the graph draws random numbers.
        wrt: names of arguments; None for every float argument.
        head_grads: one array for each output; None for random ones, so that no symmetry hides an error. A loss head is
            compared through the loss that it stands for.
        is_train: run in training mode.
        rtol: the bound for the difference from JAX's derivative, relative to the largest magnitude of each gradient.
        fd_rtol: the same for finite differences.
        finite_differences: compare with finite differences as well.
        seed: the seed of random directions and head gradients.

    Raises:
        GradientsDisagreeError: a gradient disagrees. The error, a GradientError, has the report, whose `nodes` are the
            operators with a wrong gradient of their own.
    """
    with jax.enable_x64(True):
        point = _Point(symbol, args, aux, key, wrt, head_grads, is_train, rtol, fd_rtol, finite_differences, seed)
        return _proven(point, _compare_arguments, "for")


def _compare_arguments(point: _Point) -> GradientReport:
    """Return a row for each argument."""

    def at_point(chosen: Arrays) -> tuple[dict[str, jax.Array], dict[str, jax.Array], dict[int, jax.Array]]:
        return point.gradients(chosen), jax.grad(point.value)(chosen), point.blocked(chosen)

    ours, theirs, held = Staged(at_point)(point.chosen)
    value = Staged(point.value)
    probed = (lambda chosen: value(chosen, held)) if point.finite else None
    rows = [_row(point, name, ours[name], theirs[name], probed) for name in point.names]
    return GradientReport(tuple(rows), point.rtol, point.fd_rtol)


@with_migration_hints("check_gradients", "lowering.check_projection(symbol, args | {'data': x}, aux)")
def check_projection(
    symbol: Symbol,
    args: Arrays,
    aux: Arrays | None = None,
    key: jax.Array | None = None,
    *,
    wrt: Sequence[str] | None = None,
    head_grads: Sequence[Any] | None = None,
    is_train: bool = True,
    directions: int = 4,
    rtol: float = 1e-9,
    fd_rtol: float = 1e-5,
    finite_differences: bool = True,
    seed: int = 0,
    watch: Callable[[range], Iterable[int]] = iter,
) -> ProjectionReport:
    """Prove MXGradient's gradients of a large symbol along random directions through all arguments at once.

    The inner product of our gradient with a direction must be the derivative along it. `jax.jvp` computes that
    forwards, without any gradient; central differences compute it from values alone. A direction moves every element by
    a random sign. Arguments are scaled so that all contribute alike, however small their gradients, down to a
    thousandth of the largest. An error of relative size e in the gradient of one of K arguments therefore shows as
    about e / √K. Kinks are handled as in `check_gradients`.

    Args:
        symbol: the network.
        args: as in `check_gradients`.
        aux: as in `check_gradients`.
        key: as in `check_gradients`.
        wrt: as in `check_gradients`.
        head_grads: as in `check_gradients`.
        is_train: run in training mode.
        directions: the number of directions.
        rtol: the bound for the difference from `jax.jvp`, relative to the average size of the derivative over
            directions.
        fd_rtol: the same for finite differences.
        finite_differences: compare with finite differences as well.
        seed: the seed of random directions and head gradients.
        watch: gets the range of directions and yields it; it can show progress.

    Raises:
        GradientsDisagreeError: a direction disagrees. The error, a GradientError, has the report.
    """
    with jax.enable_x64(True):
        point = _Point(symbol, args, aux, key, wrt, head_grads, is_train, rtol, fd_rtol, finite_differences, seed)
        return _proven(point, partial(_compare_directions, watch=watch, directions=directions), "along directions")


def _compare_directions(point: _Point, watch: Callable[[range], Iterable[int]], directions: int) -> ProjectionReport:
    """Return a row for each direction."""
    ours, held = Staged(lambda chosen: (point.gradients(chosen), point.blocked(chosen)))(point.chosen)
    gradients = {name: np.asarray(ours[name]) for name in point.names}
    scales, size = _scales(gradients)
    along = _along(point)
    value = partial(jax.jit(point.value), held=held)
    # Moving many elements at once takes proportionally smaller steps: else some ReLUs cross their kinks.
    step = _STEP / max(1.0, float(np.sqrt(math.fsum(scales[n] ** 2 * g.size for n, g in gradients.items()))))
    noise = _noise(value(point.chosen), step) if point.finite else 0.0
    rows = []
    for _ in watch(range(directions)):
        signs = {name: point.rng.choice([-1.0, 1.0], gradient.shape) for name, gradient in gradients.items()}
        direction = {name: scales[name] * signs[name] for name in point.names}
        mine = math.fsum(float(np.vdot(gradients[name], direction[name])) for name in point.names)
        theirs = float(along(point.chosen, direction))
        scale = max(size, abs(theirs), 1e-300)
        difference = abs(mine - theirs)
        ok = difference <= point.rtol * max(scale, 1e-3)
        fd = fd_rel = fd_step = None
        if point.finite:
            bound = max(noise, point.fd_rtol * scale)

            def slope(h: float, direction: Arrays = direction) -> float:
                upper, lower = (
                    float(value({n: x + sign * h * direction[n] for n, x in point.chosen.items()})) for sign in (1, -1)
                )
                return (upper - lower) / (2 * h)

            fd, fd_step = _beside_kinks(mine, slope, step, bound)
            fd_rel = abs(mine - fd) / scale
            ok = ok and abs(mine - fd) <= bound
        rows.append(ProjectionRow(mine, theirs, difference / scale, fd, fd_rel, ok, fd_step))
    elements = sum(gradient.size for gradient in gradients.values())
    return ProjectionReport(tuple(rows), point.rtol, point.fd_rtol, len(gradients), elements)


def _along(point: _Point) -> Callable[[Arrays, Arrays], Any]:
    """Return a function (arguments, direction) → the derivative along it: forwards, without any gradient, unless ours
    is trusted."""
    if not point.trusted:
        return Staged(lambda chosen, direction: jax.jvp(point.value, (chosen,), (direction,))[1])
    gradient = Staged(jax.grad(point.value))  # our own gradients run backwards only

    def along(chosen: Arrays, direction: Arrays) -> float:
        grads = gradient(chosen)
        return math.fsum(float(np.vdot(np.asarray(grads[name]), direction[name])) for name in direction)

    return along


def _scales(gradients: Mapping[str, np.ndarray]) -> tuple[dict[str, float], float]:
    """Return what each argument's signs are multiplied with, at most 1; and the derivative's root mean square then."""
    norms = {name: float(np.linalg.norm(gradient)) for name, gradient in gradients.items()}
    largest = max(norms.values(), default=0.0)
    weights = {name: max(norm, largest * 1e-3) or 1.0 for name, norm in norms.items()}
    least = min(weights.values(), default=1.0)
    scales = {name: least / weight for name, weight in weights.items()}
    return scales, float(np.linalg.norm([scales[name] * norm for name, norm in norms.items()]))


def _noise(value: Any, step: float = _STEP) -> float:
    """Return what a difference quotient of values of this order cannot resolve: its own rounding over the step."""
    return float(4 * np.finfo(np.float64).eps * (1 + abs(float(value))) / step)


def _beside_kinks(
    ours: float, slope: Callable[[float], float], step: float, bound: float
) -> tuple[float, float | None]:
    """Return (a derivative by finite differences, its step where a smaller one was needed to agree, else None).

    slope: step → difference quotient. bound: how far from ours it may be. Where none agrees it is that of `step`.
    """
    first = slope(step)
    if abs(ours - first) <= bound:
        return first, None
    for part in _SMALLER:
        quotient = slope(step * part)
        if abs(ours - quotient) <= bound:
            return quotient, step * part
    return first, None


def _widen(arrays: Arrays) -> dict[str, jax.Array]:
    return {
        name: _placed(value, np.float64 if is_float_array(value) else None)
        for name, value in arrays_by_name(arrays, "args and aux", _CALL).items()
    }


def _placed(value: Any, dtype: Any) -> jax.Array:
    """Return JAX's array of a value. `jnp.asarray` would compile a program for each shape of NumPy's."""
    return jax.device_put(np.asarray(value, dtype)) if isinstance(value, np.ndarray) else jnp.asarray(value, dtype)


def _heads(outputs: Sequence[jax.Array], head_grads: Sequence[Any] | None, rng: np.random.Generator) -> list[jax.Array]:
    if head_grads is None:
        return [jax.device_put(rng.uniform(-1, 1, output.shape)) for output in outputs]
    if len(head_grads) != len(outputs):
        raise GradientError("The number of head gradients is wrong", expected=len(outputs), got=len(head_grads))
    return [_placed(head, np.float64) for head in head_grads]


def _row(
    point: _Point, name: str, ours: jax.Array, theirs: jax.Array, phi: Callable[[Arrays], jax.Array] | None
) -> GradientRow:
    vjp_abs, vjp_rel = relative_difference(ours, theirs)
    scale = float(np.max(np.abs(np.asarray(theirs)), initial=0.0))
    ok = ours.shape == theirs.shape and bool(vjp_rel <= point.rtol or vjp_abs <= point.rtol * 1e-3)
    fd_abs = fd_rel = fd_step = None
    if phi is not None:
        bound = max(_noise(phi(point.chosen)), point.fd_rtol * scale)
        directional, numeric, fd_step = _finite_differences(point, name, ours, phi, bound)
        fd_abs, fd_rel = relative_difference(directional, numeric)
        ok = ok and bool(fd_rel <= point.fd_rtol or fd_abs <= bound)
    return GradientRow(name, tuple(ours.shape), scale, vjp_abs, vjp_rel, fd_abs, fd_rel, ok, fd_step)


def _finite_differences(
    point: _Point, name: str, grad: jax.Array, phi: Callable[[Arrays], jax.Array], bound: float
) -> tuple[np.ndarray, np.ndarray, float | None]:
    """Return (derivatives along directions from the gradient, from central differences, their least smaller step).

    bound: what a derivative may differ by, besides the point's bound relative to the largest, before a smaller step is
    tried.
    """
    x = np.asarray(point.chosen[name])
    if x.size <= _DIRECTIONS:
        directions = np.eye(x.size)
    else:
        directions = point.rng.choice([-1.0, 1.0], (_DIRECTIONS, x.size))
    ours = directions @ np.asarray(grad).reshape(-1)
    allowed = max(bound, point.fd_rtol * float(np.max(np.abs(ours), initial=0.0)))

    def slope(step: float, direction: np.ndarray) -> float:
        d = direction.reshape(x.shape) * step
        return float(phi({**point.chosen, name: x + d}) - phi({**point.chosen, name: x - d})) / (2 * step)

    differences = [
        _beside_kinks(mine, partial(slope, direction=direction), _STEP, allowed)
        for mine, direction in zip(ours.tolist(), directions, strict=True)
    ]
    return (
        ours,
        np.asarray([value for value, _ in differences]),
        min((step for _, step in differences if step is not None), default=None),
    )
