"""`to_jax`: a symbol as one pure JAX function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from numpy.typing import DTypeLike

from lowering.core.cache import Programs
from lowering.core.chosen_options import DATA_AXIS, chosen_options, on_mesh_around, platform_by
from lowering.messages.arguments import arrays_by_name, require_symbol
from lowering.messages.doors import FUNCTION, says_how_to_call
from lowering.messages.migration_hints import with_migration_hints
from lowering.sharding.explicit_axes import lying_like, outputs_lying_like, under_auto_axes
from symjax_nnvm.pipeline import Options
from symjax_nnvm.symbol.symbol import Symbol

ForwardFunction = Callable[..., tuple[list[jax.Array], dict[str, jax.Array]]]


@with_migration_hints("compile", "lowering.to_jax(symbol, is_train=False)")
def to_jax(
    symbol: Symbol,
    *,
    is_train: bool = False,
    platform: str | None = None,
    compute_dtype: DTypeLike | None = None,
    mesh: Any = None,
    data_axis: str | Sequence[str] = DATA_AXIS,
    effort: str | None = None,
) -> ForwardFunction:
    """Return the symbol as a pure function `f(args, aux={}, key=None) -> (outputs, new_aux)`.

    The function takes dicts of arrays by name, exactly those of `list_arguments()` and `list_auxiliary_states()`, and a
    PRNG key where the graph draws random numbers. It returns the outputs as a list in the order of `list_outputs()`,
    and the auxiliary states after the call. It composes with jit, vmap, grad and sharding, and keeps no state.

    Arrays stay where they are, on one device or many. If arguments lie on explicit mesh axes, so do outputs: they are
    split along the first axis like the first argument with the same number of samples, unless `__sharding__` declares
    another split.

    Args:
        symbol: the network.
        is_train: run in training mode: Dropout drops, BatchNorm uses batch statistics, and so on.
        platform: the platform to lower for: "cpu", "gpu", "tpu", "any" for all of them, or "plain" for the
            operations that `to_source` prints; None for that of the mesh, or of the device on which JAX runs when the
            function is traced. Name it for a function that runs elsewhere than it is traced, such as a program of
            `jax.export`.
        compute_dtype: "bfloat16" or "float16", as text or a dtype, for matrix products and convolutions of a float32
            network; arguments, states and outputs stay float32. `passes.reduce_precision` lists the dtype of each
            operator.
        mesh: the `jax.sharding.Mesh` to whose axes the graph's `__sharding__` refers; None for the one that
            `jax.set_mesh` has set when the function is traced. Without a mesh the attribute has no effect.
        data_axis: the mesh axis, or axes, along which samples are split. Rules that go sample by sample use it to work
            on each device's own samples.
        effort: "quick" for the program of platform "any", which is traced and compiled sooner and runs slower; None,
            "auto" or "full" for that of its platform.

    Raises:
        LoweringError: an operator has no rule, or arguments of a call are missing or unknown.
        InferenceError: shapes contradict the graph.
        CallError: the arguments of a call are not dicts of arrays of numbers.
        SymbolValueError: there is no such platform.
        PassError: there is no such half precision.
        TrainingError: the mesh does not have one of the axes.
    """
    symbol = require_symbol(symbol, "to_jax")
    programs = Programs(symbol)
    options = chosen_options(
        Options(is_train=is_train, platform=platform_by(effort, platform)), compute_dtype, mesh, data_axis
    )
    programs.forward(options)  # errors at once, not at the first call

    @under_auto_axes
    def run(args: Mapping[str, Any], aux: Mapping[str, Any], key: jax.Array | None):
        program = programs.forward(on_mesh_around(options))
        return program.evaluate(args, aux, key)

    @says_how_to_call(FUNCTION)
    def forward(
        args: Mapping[str, Any], aux: Mapping[str, Any] | None = None, key: jax.Array | None = None
    ) -> tuple[list[jax.Array], dict[str, jax.Array]]:
        args = arrays_by_name(args, "args", FUNCTION.call)
        aux = arrays_by_name({} if aux is None else aux, "aux", FUNCTION.call)
        outputs, new_aux = run(args, aux, key)
        return outputs_lying_like(outputs, symbol, args), lying_like(new_aux, aux)

    forward.__name__ = forward.__qualname__ = symbol.name or "symbol"
    return forward
