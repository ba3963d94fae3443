"""How loops and branches run: by XLA's own, or step by step in the caller's thread where their programs have Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from lowering.core.program import Program
from lowering.core.python_calls import in_step, shapes_of
from lowering.core.segments import is_traced

__all__ = ["ByXLA", "Here", "flow_for"]


class ByXLA:
    """Loops and branches of a program that is traced."""

    scan = staticmethod(lax.scan)
    cond = staticmethod(lax.cond)
    while_loop = staticmethod(lax.while_loop)
    shapes = staticmethod(jax.eval_shape)


class Here:
    """The same in this thread, on arrays that are there."""

    shapes = staticmethod(shapes_of)

    @staticmethod
    def scan(
        step: Callable[[Any, Any], tuple[Any, Any]], carry: Any, stacked: Any, reverse: bool = False
    ) -> tuple[Any, Any]:
        """Run `lax.scan`; the stacked values are one array or several, of at least one step."""
        length = jax.tree.leaves(stacked)[0].shape[0]
        rows: list[Any] = [None] * length
        for number in reversed(range(length)) if reverse else range(length):
            with in_step(number):
                carry, rows[number] = step(carry, jax.tree.map(lambda array, i=number: array[i], stacked))
        return carry, jax.tree.map(lambda *values: jnp.stack(values), *rows)

    @staticmethod
    def cond(predicate: Array, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
        """Run `lax.cond`."""
        return then() if predicate else otherwise()

    @staticmethod
    def while_loop(going: Callable[[Any], Array], advance: Callable[[Any], Any], carry: Any) -> Any:
        """Run `lax.while_loop`."""
        number = 0
        while True:
            with in_step(number):
                if not going(carry):
                    return carry
                carry = advance(carry)
            number += 1


def flow_for(programs: Sequence[Program], inputs: Sequence[Array], key: Array | None) -> type[ByXLA | Here]:
    """How the loop or branch over these programs runs."""
    python = any(program.segments is not None for program in programs)
    return Here if python and not is_traced(inputs, key) else ByXLA
