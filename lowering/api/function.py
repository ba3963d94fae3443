"""`to_jax`: a symbol as one pure JAX function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from numpy.typing import DTypeLike

from lowering.core.cache import Programs
from lowering.core.options import DATA_AXIS, chosen_options, on_mesh_around, platform_by
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

    args, aux: dicts of arrays by name, exactly `list_arguments()` and `list_auxiliary_states()`. key: a PRNG key,
    needed when the graph draws random numbers. outputs: list, in the order of `list_outputs()`. new_aux: the auxiliary
    states after the call. The function composes with jit, vmap, grad and sharding; nothing is hidden or global.

    is_train: whether Dropout drops, BatchNorm uses batch statistics, and so on. platform: "cpu", "gpu" or "tpu" to
    lower for, "any" for all of them; default that of the mesh, or of the device on which JAX runs where the function is
    traced. What runs elsewhere than where it is traced, as `jax.export`'s programs do, has to say it. compute_dtype:
    "bfloat16" or "float16", by name, or of NumPy or JAX, for matrix products and convolutions of a network in float32;
    its arguments, states and outputs stay float32 (`passes.reduce_precision` lists which operator runs in which dtype).
    mesh: a `jax.sharding.Mesh`, to whose axes the graph's `__sharding__` refers; default the one that `jax.set_mesh`
    has set when the function is traced; without any the attribute means nothing. data_axis: the axis, or axes, of the
    mesh that samples are split over, so that rules that compute sample by sample do so on each device's own. Arrays
    stay where they are, on one device or many. Of arguments on explicit axes outputs are on such, too, split along the
    first axis like the first argument of as many samples, unless `__sharding__` says otherwise. effort: "quick": as
    platform="any", which is traced and compiled sooner, and is slower; None, "auto" and "full": as for its platform.
    Raises LoweringError (no rule, missing or unknown arguments), InferenceError (shapes that contradict the graph),
    CallError (arguments that are no dicts of arrays of numbers), SymbolValueError (no such platform), PassError (no
    such half precision), TrainingError (axes that the mesh lacks).
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
