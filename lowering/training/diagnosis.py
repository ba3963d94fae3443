"""A diagnosis names variables that are not finite, and the nodes whose inputs are finite and whose outputs are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from lowering.core.gradient_program import GradientProgram
from lowering.core.program import Program
from lowering.training.inputs import Inputs
from lowering.training.state import TrainState
from symjax_nnvm.tables import lines_html


@dataclass(frozen=True)
class NonFinite:
    """Reports a value with elements that are not finite. node: its name; op: the operator's, None for an input, a
    parameter or a state. output: which of the node's. nans, infinities: how many of its `size` elements. of_batch:
    whether the batch brought it."""

    node: str
    op: str | None
    output: int
    nans: int
    infinities: int
    size: int
    of_batch: bool = False

    def __str__(self) -> str:
        what = "variable" if self.op is None else f"operator {self.op!r}, output {self.output} of node"
        return f"{what} {self.node!r}: {self.nans} NaN and {self.infinities} infinite of {self.size} elements"


@dataclass(frozen=True)
class Diagnosis:
    """The variables and nodes that numbers that are not finite come from, in running order: forward, then
    backward if that ran, too. Empty: all is finite."""

    origins: tuple[NonFinite, ...]

    @property
    def ok(self) -> bool:
        """Return whether every number is finite."""
        return not self.origins

    def __str__(self) -> str:
        if self.ok:
            return "Every value of the forward and the backward pass is finite; the update itself may overflow."
        variables = [origin for origin in self.origins if origin.op is None]
        lost = [origin for origin in variables if not origin.of_batch]
        parts = [
            *_listed("Parameters or states that are not finite, before the batch", lost),
            *([_LOST] if lost else []),
            *_listed("Arrays of the batch that are not finite", [origin for origin in variables if origin.of_batch]),
            *_listed(
                "Numbers stop being finite here, from finite inputs",
                [origin for origin in self.origins if origin.op is not None],
            ),
        ]
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        return lines_html(str(self).splitlines())


_LOST = (
    "Training cannot repair them. Load a checkpoint with finite ones, trainer.state, _ = "
    "lowering.Checkpoints(folder).restore(trainer.state), or start again with trainer.init; then use fit(..., "
    'check_finite="step"), which stops before the update that breaks them.'
)


def _listed(what: str, origins: Sequence[NonFinite]) -> list[str]:
    """Return the lines that list some values; none where there are none."""
    if not origins:
        return []
    lines = [f"  {i + 1}. {origin}" for i, origin in enumerate(origins[:10])]
    return [f"{what}:", *lines, *([f"  and {len(origins) - 10} more"] if len(origins) > 10 else [])]


def diagnose(program: GradientProgram, inputs: Inputs, state: TrainState, batch: Any) -> Diagnosis:
    """Run the forward and the backward pass of a batch, and look at every value. Compiles once more."""
    inner = program.program

    def evaluate(state: TrainState, batch: Any) -> list[Any]:
        key = jax.random.fold_in(state.key, state.step)
        args = {**state.params, **state.frozen, **inputs.prepare(batch)}
        env = program.forward_values(args, state.aux, key)
        outputs = inner.collect(env)[0][: program.num_outputs]
        for nid, value in program.head_values(outputs, None).items():
            env[inner.index.entry_rptr[nid]] = value
        inner.run_steps(program.backward_steps, env, key)
        return env

    return _look(inner, [*program.forward_steps, *program.backward_steps], evaluate, state, batch)


def diagnose_forward(
    program: Program, bind: Callable[[TrainState, Any], dict[int, jax.Array]], state: TrainState, batch: Any
) -> Diagnosis:
    """Run the forward pass of a batch alone, and look at every value. Compiles once more.

    bind: (state, batch) → values of the variables, as `Program.bind` gives them.
    """
    return _look(program, program.steps, lambda s, b: program.run(bind(s, b), s.key), state, batch)


def _look(
    inner: Program,
    steps: Sequence[Any],
    evaluate: Callable[[TrainState, Any], list[Any]],
    state: TrainState,
    batch: Any,
) -> Diagnosis:
    """Return the variables that are not finite, and the nodes whose inputs are and whose outputs are not. evaluate: the
    environment, of state and batch."""
    sizes: dict[int, int] = {}

    @jax.jit
    def count(state: TrainState, batch: Any) -> dict[int, jax.Array]:
        counts_by_slot: dict[int, jax.Array] = {}
        for slot, value in enumerate(evaluate(state, batch)):
            if value is not None and jnp.issubdtype(value.dtype, jnp.floating):
                counts_by_slot[slot] = jnp.stack([jnp.sum(jnp.isnan(value)), jnp.sum(jnp.isinf(value))])
                sizes[slot] = value.size
        return counts_by_slot

    counts = {slot: (int(pair[0]), int(pair[1])) for slot, pair in jax.device_get(count(state, batch)).items()}
    bad = {slot for slot, pair in counts.items() if any(pair)}

    def non_finite(nid: int, slots: tuple[int, ...]) -> Iterator[NonFinite]:
        source = inner.index.nodes[nid].source
        of_batch = source.op is None and source.name in batch
        op = None if source.op is None else source.op.name
        for output, slot in enumerate(slots):
            if slot in bad:
                yield NonFinite(source.name, op, output, *counts[slot], sizes[slot], of_batch)

    origins = [row for nid in inner.variables for row in non_finite(nid, (inner.index.entry_rptr[nid],))]
    for step in steps:
        if not bad.intersection(step.inputs):
            origins += non_finite(step.nid, step.outputs)
    return Diagnosis(tuple(origins))
