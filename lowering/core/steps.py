"""Steps: the operators that a program runs one after the other, each by itself or in a group of mirrored copies.

XLA sees that a mirrored copy computes a value that exists already, and would keep that value instead. The means to
prevent it depends on the platform, and is chosen in this module alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from lowering.core.rules import LoweringRule, Need

__all__ = ["Environment", "Recomputation", "Running", "Step"]

Environment = list[Any] | MutableMapping[int, Any]
"""A value, or None, in each slot."""


class Running(Protocol):
    """One run of a program, as its steps see it."""

    platform: str

    def provide(self, need: Need, step: Step, key: jax.Array | None, env: Environment) -> Any:
        """Return the value that the step's rule needs besides parameters and inputs."""
        ...

    def empty(self, step: Step) -> list[Any] | None:
        """Return the step's results, if all of them are arrays without elements."""
        ...

    def call(self, step: Step, inputs: list[Any], extra: dict[str, Any], env: Environment) -> list[Any]:
        """Return the values that the step's rule returns. Raises LoweringError naming operator, node and shapes."""
        ...


@dataclass(slots=True, eq=False)
class Step:
    """One operator: which rule, on which slots, to which slots.

    draw_place: its place among the nodes that draw. programs: its subgraphs, each a `Program`.

    No code changes a step; a frozen dataclass would double the time that building a program takes.
    """

    nid: int
    rule: LoweringRule
    params: Any
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    draw_place: int
    programs: tuple[Any, ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        """Return the operators of the step: this one."""
        return (self,)

    @property
    def python(self) -> bool:
        """Return whether the step runs Python (a user's operator, or a rule that reads values), itself or in a
        subgraph."""
        return self.rule.runs_apart(self.params) or any(program.segments is not None for program in self.programs)

    def run(self, running: Running, env: Environment, key: jax.Array | None) -> None:
        """Fill the output slots of an environment."""
        results = running.empty(self)
        if results is None:
            extra = {need: running.provide(need, self, key, env) for need in self.rule.needs}
            results = running.call(self, [env[slot] for slot in self.inputs], extra, env)
        for slot, value in zip(self.outputs, results, strict=True):
            env[slot] = value


@dataclass(frozen=True, slots=True)
class Recomputation:
    """The steps of one group of mirrored copies.

    inputs, outputs: slots that they read and that others read of them. guarded: the inputs that distinguish the steps
    from their originals. after: slots of the gradients to wait for.
    """

    steps: tuple[Step, ...]
    inputs: tuple[int, ...]
    guarded: tuple[int, ...]
    outputs: tuple[int, ...]
    after: tuple[int, ...]

    def run(self, running: Running, env: Environment, key: jax.Array | None) -> None:
        """Fill the output slots of an environment."""
        after = [env[slot] for slot in self.after if env[slot] is not None]
        guard = _behind_choice if running.platform == "cpu" else _behind_barrier
        guarded, key = guard([env[slot] for slot in self.guarded], key, after)
        inner: MutableMapping[int, Any] = defaultdict(lambda: None, ((slot, env[slot]) for slot in self.inputs))
        inner.update(zip(self.guarded, guarded, strict=True))
        for step in self.steps:
            step.run(running, inner, key)
        for slot in self.outputs:
            env[slot] = inner[slot]


def _behind_barrier(values: list[Any], key: Any, after: list[Any]) -> tuple[list[Any], Any]:
    """Pass the inputs through an optimisation barrier together with the gradient: GPU and TPU keep it to the end."""
    values, key, _ = jax.lax.optimization_barrier((values, key, after))
    return values, key


def _behind_choice(values: list[Any], key: Any, after: list[Any]) -> tuple[list[Any], Any]:
    """Choose the inputs against zeros by a condition on the gradient, always true, which XLA cannot see.

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
