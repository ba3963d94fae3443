"""The scalar function whose derivative the gradients of a symbol must be: what MXGradient is held against.

Nothing here uses a derivative of JAX's; `check.py` and `nodes.py` do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from lowering.core.cache import Programs
from lowering.core.program import Program
from symjax_nnvm.ir.attributes import FLossEquivalent, TStopsGradient
from symjax_nnvm.ir.node import NodeEntry
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.pipeline import Options
from symjax_nnvm.symbol.symbol import Symbol

Arrays = Mapping[str, Any]


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
        """Return the value; held: what `blocked` returned, for finite differences, which see what JAX is kept from."""
        outputs, _ = self.program.collect(self.program.run(self.program.bind(args, aux), key, held))
        values = outputs[len(self.head_grads) :]
        total = sum((jnp.sum(value) for value in values[len(self.plain) :]), jnp.zeros(()))
        for i, value in zip(self.plain, values, strict=False):
            total = total + jnp.sum(value * self.head_grads[i])
        return total

    def blocked(self, args: Arrays, aux: Arrays, key: jax.Array | None) -> dict[int, jax.Array]:
        """Return the outputs of loss heads and of BlockGrad, through which no derivative passes, by slot."""
        env = self.program.run(self.program.bind(args, aux), key)
        ops = [node.source.op for node in self.program.index.nodes]
        return {
            slot: env[slot]
            for step in self.program.steps
            if ops[step.nid] in FLossEquivalent or TStopsGradient.get(ops[step.nid])
            for slot in step.outputs
        }


def witness(
    symbol: Symbol, head_grads: Sequence[Any], *, is_train: bool = True, platform: str | None = None
) -> Witness:
    """Return the witness of a symbol with these head gradients, one for each output; see `Witness`."""
    losses = [FLossEquivalent[n.op](n) for n in post_order(symbol.outputs) if n.op in FLossEquivalent]
    plain = tuple(i for i, entry in enumerate(symbol.outputs) if entry.node.op not in FLossEquivalent)
    entries: list[NodeEntry] = [symbol.outputs[i] for i in plain] + losses
    everything = Symbol([*symbol.outputs, *entries])
    program = Programs(everything).forward(Options(is_train=is_train, platform=platform, witness=True))
    return Witness(program, plain, head_grads)
