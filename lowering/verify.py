"""The gradient witness: MXGradient against `jax.vjp` of the forward function and against finite differences.

This is the only module of the library that asks JAX for a derivative. Everything runs in float64, in a local context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowering.arguments import require_named
from lowering.function import to_jax
from lowering.gradient import GradientProgram, is_float_array
from lowering.interpret import Program
from lowering.mxnet_words import takes_our_words
from lowering.verify_reports import (
    GradientReport,
    GradientRow,
    GradientsDisagreeError,
    ProjectionReport,
    ProjectionRow,
)
from symjax_nnvm.errors import GradientError, explain
from symjax_nnvm.ir.node import NodeEntry
from symjax_nnvm.ir.op import FLossEquivalent, Op
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.symbol.symbol import Symbol

__all__ = [
    "GradientReport",
    "GradientRow",
    "GradientsDisagreeError",
    "ProjectionReport",
    "ProjectionRow",
    "Witness",
    "check_gradients",
    "check_projection",
    "relative_difference",
    "witness",
]

Arrays = Mapping[str, Any]

_CALL = "lowering.check_gradients(symbol, args | {'data': x, 'softmax_label': y}, aux)"

_DIRECTIONS = 32
"""Directions that finite differences probe: every element of an argument up to this size, random directions beyond."""

_STEP = 1e-6
"""Finite-difference step, for arguments of order 1: near the cube root of float64's resolution."""


def relative_difference(ours: Any, theirs: Any) -> tuple[float, float]:
    """(largest absolute difference, the same relative to the largest magnitude of `theirs`)."""
    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    absolute = float(np.max(np.abs(ours - theirs), initial=0.0))
    scale = float(np.max(np.abs(theirs), initial=0.0))
    return absolute, absolute / max(scale, 1e-300) if absolute else 0.0


@dataclass(frozen=True)
class Witness:
    """The scalar function `phi(args, aux, key)` whose derivative the gradients of a symbol must be.

    It is the outputs weighted with their head gradients; a loss head contributes the loss it stands for instead, and
    passes no derivative through its output. Made by `witness`.
    """

    program: Program
    plain: tuple[int, ...]
    head_grads: Sequence[Any]

    def __call__(
        self, args: Arrays, aux: Arrays, key: jax.Array | None, held: Mapping[int, jax.Array] | None = None
    ) -> jax.Array:
        """The value; held: what `blocked` returned, for finite differences, which would see what JAX is kept from."""
        outputs, _ = self.program.collect(self.program.run(self.program.bind(args, aux), key, held))
        values = outputs[len(self.head_grads) :]
        total = sum((jnp.sum(value) for value in values[len(self.plain) :]), jnp.zeros(()))
        for i, value in zip(self.plain, values, strict=False):
            total = total + jnp.sum(value * self.head_grads[i])
        return total

    def blocked(self, args: Arrays, aux: Arrays, key: jax.Array | None) -> dict[int, jax.Array]:
        """The outputs of loss heads and of BlockGrad, through which no derivative passes, by slot."""
        env = self.program.run(self.program.bind(args, aux), key)
        nodes, block_grad = self.program.index.nodes, Op.get("BlockGrad")
        return {
            slot: env[slot]
            for step in self.program.steps
            if nodes[step.nid].source.op in FLossEquivalent or nodes[step.nid].source.op is block_grad
            for slot in step.outputs
        }


def witness(
    symbol: Symbol, head_grads: Sequence[Any], *, is_train: bool = True, platform: str | None = None
) -> Witness:
    """The witness of a symbol with these head gradients, one for each output; see `Witness`."""
    losses = [FLossEquivalent[n.op](n) for n in post_order(symbol.outputs) if n.op in FLossEquivalent]
    plain = tuple(i for i, entry in enumerate(symbol.outputs) if entry.node.op not in FLossEquivalent)
    entries: list[NodeEntry] = [symbol.outputs[i] for i in plain] + losses
    program = Program([*symbol.outputs, *entries], is_train=is_train, platform=platform, stop_at_loss_heads=True)
    return Witness(program, plain, head_grads)


class _Point:
    """The point at which gradients are compared, in float64: made and used inside `jax.enable_x64`."""

    def __init__(
        self,
        symbol: Symbol,
        args: Arrays,
        aux: Arrays | None,
        key: jax.Array,
        wrt: Sequence[str] | None,
        head_grads: Sequence[Any] | None,
        is_train: bool,
        rng: np.random.Generator,
    ):
        self.args, self.aux, self.key = _widen(args), _widen(aux or {}), key
        floats = [name for name in symbol.list_arguments() if is_float_array(self.args.get(name, 0))]
        self.names = floats if wrt is None else list(wrt)
        self.program = GradientProgram(symbol, self.names, is_train=is_train)
        outputs, _ = jax.eval_shape(to_jax(symbol, is_train=is_train), self.args, self.aux, key)
        self.heads = _heads(outputs, head_grads, rng)
        self.witness = witness(symbol, self.heads, is_train=is_train)
        self.chosen = {name: self.args[name] for name in self.names}

    def value(self, chosen: Arrays, held: Mapping[int, jax.Array] | None = None) -> jax.Array:
        """The witness's scalar, as a function of the arguments that are differentiated."""
        return self.witness({**self.args, **chosen}, self.aux, self.key, held)

    def gradients(self, chosen: Arrays) -> dict[str, jax.Array]:
        """Ours."""
        return self.program({**self.args, **chosen}, self.aux, self.key, self.heads)[1]

    def blocked(self, chosen: Arrays) -> dict[int, jax.Array]:
        """What no derivative passes through."""
        return self.witness.blocked({**self.args, **chosen}, self.aux, self.key)


@takes_our_words("check_gradients", _CALL)
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
    """Prove MXGradient's gradients of a symbol at one point; returns a report that prints as a table.

    args, aux: dicts of arrays; float ones are taken to float64. wrt: argument names, None for every float argument.
    head_grads: left out, random ones, so that no error hides in a symmetry; loss heads are compared through the loss
    they stand for. rtol, fd_rtol: bounds relative to the largest magnitude of each gradient. Finite differences probe
    each element of a small argument and random directions of a large one; they assume the point is not on a kink.
    A network of millions of parameters takes `check_projection`.

    Raises GradientsDisagreeError, a GradientError with the report, when any gradient disagrees.
    """
    key = jax.random.key(seed) if key is None else key
    rng = np.random.default_rng(seed)
    with jax.enable_x64(True):
        point = _Point(symbol, args, aux, key, wrt, head_grads, is_train, rng)

        @jax.jit  # one compilation for all that is computed at the point itself
        def at_point(chosen: Arrays) -> tuple[dict[str, jax.Array], dict[str, jax.Array], dict[int, jax.Array]]:
            return point.gradients(chosen), jax.grad(point.value)(chosen), point.blocked(chosen)

        ours, theirs, held = at_point(point.chosen)
        probed = partial(jax.jit(point.value), held=held) if finite_differences else None
        rows = [
            _row(
                name,
                ours[name],
                theirs[name],
                point.chosen,
                probed,
                rng,
                rtol=rtol,
                fd_rtol=fd_rtol,
            )
            for name in point.names
        ]
    report = GradientReport(tuple(rows), rtol, fd_rtol)
    if not report.ok:
        wrong = [row.argument for row in report.rows if not row.ok]
        raise GradientsDisagreeError(explain(f"Gradients disagree for {wrong}"), report)
    return report


@takes_our_words("check_gradients", "lowering.check_projection(symbol, args | {'data': x}, aux)")
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

    The inner product of our gradient with a direction must be the derivative along it, which `jax.jvp` computes
    forwards, without any gradient, and central differences from values alone. A direction moves every element by a
    random sign; arguments are scaled so that each contributes alike, however small its gradient, down to a thousandth
    of the largest. So an error of relative size e in the gradient of one of K arguments shows as about e / √K.

    rtol, fd_rtol: bounds relative to the size that the derivative has on average over directions. watch: is given the
    range of directions and yields it, to show progress. The rest is as in `check_gradients`.

    Raises GradientsDisagreeError, a GradientError with the report, when any direction disagrees.
    """
    key = jax.random.key(seed) if key is None else key
    rng = np.random.default_rng(seed)
    with jax.enable_x64(True):
        point = _Point(symbol, args, aux, key, wrt, head_grads, is_train, rng)
        ours, held = jax.jit(lambda chosen: (point.gradients(chosen), point.blocked(chosen)))(point.chosen)
        gradients = {name: np.asarray(ours[name]) for name in point.names}
        scales, size = _scales(gradients)
        along = jax.jit(lambda chosen, direction: jax.jvp(point.value, (chosen,), (direction,))[1])
        value = partial(jax.jit(point.value), held=held)
        # Moving many elements at once takes proportionally smaller steps: else some ReLUs cross their kinks.
        step = _STEP / max(1.0, float(np.sqrt(sum(scales[n] ** 2 * g.size for n, g in gradients.items()))))
        noise = _noise(value(point.chosen), step) if finite_differences else 0.0
        rows = []
        for _ in watch(range(directions)):
            signs = {name: rng.choice([-1.0, 1.0], gradient.shape) for name, gradient in gradients.items()}
            direction = {name: scales[name] * signs[name] for name in point.names}
            mine = sum(float(np.vdot(gradients[name], direction[name])) for name in point.names)
            theirs = float(along(point.chosen, direction))
            scale = max(size, abs(theirs), 1e-300)
            difference = abs(mine - theirs)
            ok = difference <= rtol * max(scale, 1e-3)
            fd = fd_rel = None
            if finite_differences:
                ends = ({n: x + sign * step * direction[n] for n, x in point.chosen.items()} for sign in (1, -1))
                upper, lower = (float(value(end)) for end in ends)
                fd = (upper - lower) / (2 * step)
                fd_rel = abs(mine - fd) / scale
                ok = ok and (fd_rel <= fd_rtol or abs(mine - fd) <= noise)
            rows.append(ProjectionRow(mine, theirs, difference / scale, fd, fd_rel, ok))
    elements = sum(gradient.size for gradient in gradients.values())
    report = ProjectionReport(tuple(rows), len(gradients), elements, rtol, fd_rtol)
    if not report.ok:
        wrong = [i + 1 for i, row in enumerate(report.rows) if not row.ok]
        raise GradientsDisagreeError(explain(f"Gradients disagree along directions {wrong}"), report)
    return report


def _scales(gradients: Mapping[str, np.ndarray]) -> tuple[dict[str, float], float]:
    """What each argument's signs are multiplied with, at most 1; and the root mean square of the derivative then."""
    norms = {name: float(np.linalg.norm(gradient)) for name, gradient in gradients.items()}
    largest = max(norms.values(), default=0.0)
    weights = {name: max(norm, largest * 1e-3) or 1.0 for name, norm in norms.items()}
    least = min(weights.values(), default=1.0)
    scales = {name: least / weight for name, weight in weights.items()}
    return scales, float(np.linalg.norm([scales[name] * norm for name, norm in norms.items()]))


def _noise(value: Any, step: float = _STEP) -> float:
    """What a difference quotient of values of this order cannot resolve: its own rounding over the step."""
    return float(4 * np.finfo(np.float64).eps * (1 + abs(float(value))) / step)


def _widen(arrays: Arrays) -> dict[str, jax.Array]:
    return {
        name: jnp.asarray(value, jnp.float64) if is_float_array(value) else jnp.asarray(value)
        for name, value in require_named(arrays, "args and aux", _CALL).items()
    }


def _heads(outputs: Sequence[jax.Array], given: Sequence[Any] | None, rng: np.random.Generator) -> list[jax.Array]:
    if given is None:
        return [jnp.asarray(rng.uniform(-1, 1, output.shape)) for output in outputs]
    if len(given) != len(outputs):
        raise GradientError(explain("Wrong number of head gradients", expected=len(outputs), got=len(given)))
    return [jnp.asarray(head, jnp.float64) for head in given]


def _row(
    name: str,
    ours: jax.Array,
    theirs: jax.Array,
    point: Arrays,
    phi: Callable[[Arrays], jax.Array] | None,
    rng: np.random.Generator,
    *,
    rtol: float,
    fd_rtol: float,
) -> GradientRow:
    vjp_abs, vjp_rel = relative_difference(ours, theirs)
    scale = float(np.max(np.abs(np.asarray(theirs)), initial=0.0))
    ok = ours.shape == theirs.shape and bool(vjp_rel <= rtol or vjp_abs <= rtol * 1e-3)
    fd_abs = fd_rel = None
    if phi is not None:
        directional, numeric = _finite_differences(name, ours, point, phi, rng)
        fd_abs, fd_rel = relative_difference(directional, numeric)
        ok = ok and bool(fd_rel <= fd_rtol or fd_abs <= max(_noise(phi(point)), fd_rtol * scale))
    return GradientRow(name, tuple(ours.shape), scale, vjp_abs, vjp_rel, fd_abs, fd_rel, ok)


def _finite_differences(
    name: str, grad: jax.Array, point: Arrays, phi: Callable[[Arrays], jax.Array], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(derivatives along directions from the gradient, the same from central differences)."""
    x = np.asarray(point[name])
    if x.size <= _DIRECTIONS:
        directions = np.eye(x.size)
    else:
        directions = rng.choice([-1.0, 1.0], (_DIRECTIONS, x.size))
    numeric = []
    for direction in directions:
        d = direction.reshape(x.shape) * _STEP
        numeric.append(float(phi({**point, name: x + d}) - phi({**point, name: x - d})) / (2 * _STEP))
    return directions @ np.asarray(grad).reshape(-1), np.asarray(numeric)
