"""`to_jax`: a symbol as one pure JAX function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax

from lowering.arguments import require_named, require_symbol
from lowering.mxnet_words import takes_our_words
from lowering.programs import Programs
from symjax_nnvm.pipeline import Options
from symjax_nnvm.symbol.symbol import Symbol

ForwardFunction = Callable[..., tuple[list[jax.Array], dict[str, jax.Array]]]

CALL = "outputs, new_aux = f(args | {'data': x}, aux)"
"""How a function of a symbol is called, for messages."""


@takes_our_words("compile", "lowering.to_jax(symbol, is_train=False)")
def to_jax(symbol: Symbol, *, is_train: bool = False, platform: str | None = None) -> ForwardFunction:
    """The symbol as a pure function `f(args, aux={}, key=None) -> (outputs, new_aux)`.

    args, aux: dicts of arrays by name, exactly `list_arguments()` and `list_auxiliary_states()`. key: a PRNG key,
    needed when the graph draws random numbers. outputs: list, in the order of `list_outputs()`. new_aux: the auxiliary
    states after the call. The function composes with jit, vmap, grad and sharding; nothing is hidden or global.

    is_train: whether Dropout drops, BatchNorm uses batch statistics, and so on. platform: "cpu", "gpu" or "tpu" to
    lower for; default the one JAX runs on.
    Raises LoweringError (no rule, missing or unknown arguments), InferenceError (shapes that contradict the graph),
    CallError (arguments that are no dicts).
    """
    symbol = require_symbol(symbol, "to_jax")
    program = Programs(symbol).forward(Options(is_train=is_train, platform=platform))

    def forward(
        args: Mapping[str, Any], aux: Mapping[str, Any] | None = None, key: jax.Array | None = None
    ) -> tuple[list[jax.Array], dict[str, jax.Array]]:
        args, aux = require_named(args, "args", CALL), require_named({} if aux is None else aux, "aux", CALL)
        return program.collect(program.run(program.bind(args, aux), key))

    forward.__name__ = forward.__qualname__ = symbol.name or "symbol"
    return forward
