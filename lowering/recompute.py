"""Recomputation that XLA neither merges with the forward part nor starts before the gradient has arrived.

XLA sees that a mirrored copy computes what is there already, and would keep that instead. What prevents it depends on
the platform, and is chosen here and nowhere else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import jax
import jax.numpy as jnp

from symjax_nnvm.ir.op import TSupersedes
from symjax_nnvm.passes.recompute import Recomputed

if TYPE_CHECKING:
    from lowering.interpret import Program, Step

__all__ = ["Recomputation", "recomputations"]

S = TypeVar("S")

RunStep = Callable[[S, MutableMapping[int, Any], "jax.Array | None"], None]


@dataclass(frozen=True, slots=True)
class Recomputation(Generic[S]):
    """The steps of one group of mirrored copies.

    inputs, outputs: slots that they read and that others read of them. guarded: those of the inputs without which no
    step could be told from its original. after: slots of the gradients to wait for.
    """

    steps: tuple[S, ...]
    inputs: tuple[int, ...]
    guarded: tuple[int, ...]
    outputs: tuple[int, ...]
    after: tuple[int, ...]

    def run(self, run_step: RunStep[S], env: list[Any], key: jax.Array | None, platform: str) -> None:
        """Fill the output slots of an environment."""
        after = [env[slot] for slot in self.after if env[slot] is not None]
        guard = _behind_choice if platform == "cpu" else _behind_barrier
        guarded, key = guard([env[slot] for slot in self.guarded], key, after)
        inner: MutableMapping[int, Any] = defaultdict(lambda: None, ((slot, env[slot]) for slot in self.inputs))
        inner.update(zip(self.guarded, guarded, strict=True))
        for step in self.steps:
            run_step(step, inner, key)
        for slot in self.outputs:
            env[slot] = inner[slot]


def _behind_barrier(values: list[Any], key: Any, after: list[Any]) -> tuple[list[Any], Any]:
    """The inputs pass an optimisation barrier together with the gradient: GPU and TPU keep it to the end."""
    values, key, _ = jax.lax.optimization_barrier((values, key, after))
    return values, key


def _behind_choice(values: list[Any], key: Any, after: list[Any]) -> tuple[list[Any], Any]:
    """The inputs are chosen against zeros by a condition on the gradient, always true, which XLA cannot know.

    XLA:CPU removes barriers before it merges equal instructions, and nothing is left of the copies: measured with JAX
    0.10, a barrier, an inner jit and a scan of one step all save nothing. A branch (`lax.cond`) saves as much as this
    does, but XLA:CPU compiles convolutions inside it to code that is 25 times slower.
    """
    witnesses = [x for x in (*after, *values) if x.size and jnp.issubdtype(x.dtype, jnp.floating)]
    if not witnesses:
        return values, key
    first = witnesses[0].ravel()[0]
    always = (first == first) | (first != first)  # not folded: NaN makes either half false

    def choose(value: jax.Array) -> jax.Array:
        return jnp.where(always, value, jnp.zeros_like(value))

    if key is not None and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.wrap_key_data(choose(jax.random.key_data(key)), impl=jax.random.key_impl(key))
    elif key is not None:
        key = choose(key)
    return [choose(value) for value in values], key


def recomputations(steps: Sequence[Step], program: Program) -> list[Step | Recomputation[Step]]:
    """Backward steps, each group of copies gathered into one, where the first of them stood.

    A group reads nothing but forward values and gradients that precede its first copy, so it can.
    """
    marks = [_mark(program, step.nid) for step in steps]
    members: dict[int, list[Step]] = {}
    for step, mark in zip(steps, marks, strict=True):
        if mark is not None:
            members.setdefault(mark.group, []).append(step)
    readers: dict[int, set[int | None]] = {}
    for step, mark in zip(steps, marks, strict=True):
        for slot in step.inputs:
            readers.setdefault(slot, set()).add(None if mark is None else mark.group)
    for slot in program.output_slots:
        readers.setdefault(slot, set()).add(None)
    variables = {program.index.entry_rptr[nid] for nid in program.index.input_nodes}
    gathered: list[Step | Recomputation[Step]] = []
    for step, mark in zip(steps, marks, strict=True):
        if mark is None:
            gathered.append(step)
        elif group := members.pop(mark.group, None):
            made = {slot: None for member in group for slot in member.outputs}
            inputs = {slot: None for member in group for slot in member.inputs if slot not in made}
            # A step that reads anything else besides variables is told from its original by that.
            by_variables = {slot for member in group if variables.issuperset(member.inputs) for slot in member.inputs}
            gathered.append(
                Recomputation(
                    steps=tuple(group),
                    inputs=tuple(inputs),
                    guarded=tuple(slot for slot in inputs if slot not in variables or slot in by_variables),
                    outputs=tuple(slot for slot in made if readers.get(slot, set()) - {mark.group}),
                    after=_after(program, mark),
                )
            )
    return gathered


def _mark(program: Program, nid: int) -> Recomputed | None:
    """What says that a node is a copy, or runs in the place of one."""
    source = program.index.nodes[nid].source
    if TSupersedes.get(source.op) and source.control_deps:
        source = source.control_deps[0]
    return source.info if isinstance(source.info, Recomputed) else None


def _after(program: Program, mark: Recomputed) -> tuple[int, ...]:
    """The slot of the gradient that a group waits for, if the program computes it."""
    index, entry = program.index, mark.after
    if entry is None or not index.exist(entry.node):
        return ()
    return (index.entry_rptr[program.stand_in(index.node_id(entry.node))] + entry.index,)
