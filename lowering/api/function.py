"""`to_jax`: a symbol as one pure JAX function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax

from lowering.core.cache import Programs, on_mesh, on_mesh_around
from lowering.messages.arguments import arrays_by_name, require_symbol
from lowering.messages.mxnet_words import takes_our_words
from lowering.sharding import chosen_mesh, lying_like, outputs_lying_like, under_auto_axes
from symjax_nnvm.pipeline import Options
from symjax_nnvm.symbol.symbol import Symbol

ForwardFunction = Callable[..., tuple[list[jax.Array], dict[str, jax.Array]]]

CALL = "outputs, new_aux = f(args | {'data': x}, aux)"
"""How a function of a symbol is called, for messages."""


@takes_our_words("compile", "lowering.to_jax(symbol, is_train=False)")
def to_jax(symbol: Symbol, *, is_train: bool = False, platform: str | None = None, mesh: Any = None) -> ForwardFunction:
    """The symbol as a pure function `f(args, aux={}, key=None) -> (outputs, new_aux)`.

    args, aux: dicts of arrays by name, exactly `list_arguments()` and `list_auxiliary_states()`. key: a PRNG key,
    needed when the graph draws random numbers. outputs: list, in the order of `list_outputs()`. new_aux: the auxiliary
    states after the call. The function composes with jit, vmap, grad and sharding; nothing is hidden or global.

    is_train: whether Dropout drops, BatchNorm uses batch statistics, and so on. platform: "cpu", "gpu" or "tpu" to
    lower for, "any" for all of them; default that of the mesh, or of the device on which JAX runs where the function is
    traced. What runs elsewhere than where it is traced, as `jax.export`'s programs do, has to say it. mesh: a
    `jax.sharding.Mesh`, to whose axes the graph's `__sharding__` refers; default the one that `jax.set_mesh` has set
    when the function is traced; without any the attribute means nothing. Arrays lie where they are, on one device or
    many. Of arguments on explicit axes outputs are on such, too, split along the first axis like the first argument of
    as many samples, unless `__sharding__` says otherwise.
    Raises LoweringError (no rule, missing or unknown arguments), InferenceError (shapes that contradict the graph),
    CallError (arguments that are no dicts of arrays of numbers), SymbolValueError (no such platform).
    """
    symbol = require_symbol(symbol, "to_jax")
    programs, options = Programs(symbol), Options(is_train=is_train, platform=platform)
    if mesh is not None:
        options = on_mesh(options, chosen_mesh(mesh))
    programs.forward(options)  # errors at once, not at the first call

    @under_auto_axes
    def run(args: Mapping[str, Any], aux: Mapping[str, Any], key: jax.Array | None):
        program = programs.forward(on_mesh_around(options))
        return program.evaluate(args, aux, key)

    def forward(
        args: Mapping[str, Any], aux: Mapping[str, Any] | None = None, key: jax.Array | None = None
    ) -> tuple[list[jax.Array], dict[str, jax.Array]]:
        args, aux = arrays_by_name(args, "args", CALL), arrays_by_name({} if aux is None else aux, "aux", CALL)
        outputs, new_aux = run(args, aux, key)
        return outputs_lying_like(outputs, symbol, args), lying_like(new_aux, aux)

    forward.__name__ = forward.__qualname__ = symbol.name or "symbol"
    return forward
