"""The gradient witness: MXGradient against `jax.vjp` of the forward function and against finite differences.

This is the only module of the library that asks JAX for a derivative. Everything runs in float64, in a local context.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowering.function import to_jax
from lowering.gradient import GradientProgram, is_float_array
from lowering.interpret import Program
from symjax_nnvm.errors import GradientError, explain
from symjax_nnvm.ir.node import NodeEntry
from symjax_nnvm.ir.op import FLossEquivalent, Op
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.symbol.symbol import Symbol

__all__ = ["GradientReport", "GradientRow", "Witness", "check_gradients", "relative_difference", "witness"]

Arrays = Mapping[str, Any]

_DIRECTIONS = 32
"""Directions that finite differences probe: every element of an argument up to this size, random directions beyond."""

_STEP = 1e-6
"""Finite-difference step, for arguments of order 1: near the cube root of float64's resolution."""


@dataclass(frozen=True)
class GradientRow:
    """One argument: differences of our gradient from each witness, absolute and relative to the gradient's scale."""

    argument: str
    shape: tuple[int, ...]
    scale: float
    vjp_abs: float
    vjp_rel: float
    fd_abs: float | None
    fd_rel: float | None
    ok: bool


@dataclass(frozen=True)
class GradientReport:
    """What `check_gradients` found; prints as a table."""

    rows: tuple[GradientRow, ...]
    rtol: float
    fd_rtol: float

    @property
    def ok(self) -> bool:
        """Whether every argument's gradient agrees with every witness."""
        return all(row.ok for row in self.rows)

    def __str__(self) -> str:
        header = ("argument", "shape", "max |grad|", "vs jax.vjp: abs", "rel", "vs finite diff.: abs", "rel", "verdict")
        lines: list[tuple[str, ...]] = [header]
        for row in self.rows:
            numbers = (row.scale, row.vjp_abs, row.vjp_rel, row.fd_abs, row.fd_rel)
            shown = ["-" if number is None else f"{number:.1e}" for number in numbers]
            lines.append((row.argument, str(row.shape), *shown, "agrees" if row.ok else "DIFFERS"))
        widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
        text = ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines]
        text.insert(1, "  ".join("-" * w for w in widths))
        text.append(f"bounds, relative to max |grad|: {self.rtol:g} against jax.vjp, {self.fd_rtol:g} against finite")
        return "\n".join(text) + " differences; all in float64"


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

    Raises GradientError, with the report, when any gradient disagrees.
    """
    key = jax.random.key(seed) if key is None else key
    with jax.enable_x64(True):
        wide_args, wide_aux = _widen(args), _widen(aux or {})
        floats = [name for name in symbol.list_arguments() if is_float_array(wide_args.get(name, 0))]
        names = floats if wrt is None else list(wrt)
        program = GradientProgram(symbol, names, is_train=is_train)
        rng = np.random.default_rng(seed)
        outputs, _ = jax.eval_shape(to_jax(symbol, is_train=is_train), wide_args, wide_aux, key)
        heads = _heads(outputs, head_grads, rng)
        phi = witness(symbol, heads, is_train=is_train)

        def of_chosen(chosen: Arrays, held: Mapping[int, jax.Array] | None = None) -> jax.Array:
            return phi({**wide_args, **chosen}, wide_aux, key, held)

        @jax.jit  # one compilation for all that is computed at the point itself
        def at_point(chosen: Arrays) -> tuple[dict[str, jax.Array], dict[str, jax.Array], dict[int, jax.Array]]:
            everything = {**wide_args, **chosen}
            _, ours, _ = program(everything, wide_aux, key, heads)
            return ours, jax.grad(of_chosen)(chosen), phi.blocked(everything, wide_aux, key)

        point = {name: wide_args[name] for name in names}
        ours, theirs, held = at_point(point)
        probed = partial(jax.jit(of_chosen), held=held) if finite_differences else None
        rows = [
            _row(
                name,
                ours[name],
                theirs[name],
                point,
                probed,
                rng,
                rtol=rtol,
                fd_rtol=fd_rtol,
            )
            for name in names
        ]
    report = GradientReport(tuple(rows), rtol, fd_rtol)
    if not report.ok:
        wrong = [row.argument for row in report.rows if not row.ok]
        raise GradientError(explain(f"Gradients disagree for {wrong}") + "\n" + str(report))
    return report


def _widen(arrays: Arrays) -> dict[str, jax.Array]:
    return {
        name: jnp.asarray(value, jnp.float64) if is_float_array(value) else jnp.asarray(value)
        for name, value in arrays.items()
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
        # A difference quotient of values of order phi cannot resolve less than phi's own rounding over the step.
        noise = 4 * np.finfo(np.float64).eps * (1 + abs(float(phi(point)))) / _STEP
        ok = ok and bool(fd_rel <= fd_rtol or fd_abs <= max(noise, fd_rtol * scale))
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
