"""`init_params`: the first values of a symbol's parameters and auxiliary states."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from lowering.initializer.composite import Load, Mixed
from lowering.initializer.drawn import Uniform
from lowering.initializer.initializer_base import InitDesc, ParameterName, create
from lowering.messages.arguments import prng_key, require_symbol, shapes_by_name
from lowering.messages.migration_hints import with_migration_hints
from symjax_nnvm.check.remedies import shape_remedy
from symjax_nnvm.errors import InferenceError, plain_list, refuse_unknown
from symjax_nnvm.symbol.automatic_names import names_by_rank
from symjax_nnvm.symbol.symbol import Symbol

Arrays = dict[str, jax.Array]


_CALL = "args, aux = lowering.init_params(symbol, {'data': (32, 3, 224, 224)}, 0)"


@with_migration_hints("init_params", _CALL)
def init_params(
    symbol: Symbol,
    shapes: Mapping[str, Sequence[int]],
    key: jax.Array | int,
    initializer: Any = None,
    *,
    without: Collection[str] = (),
    place: Callable[[str, jax.Array], jax.Array] | None = None,
) -> tuple[Arrays, Arrays]:
    """Return first values for a symbol's arguments and auxiliary states, as MXNet's Module initialises them.

    A variable's own `__init__` comes first, then the rules by name. An auxiliary state without `__init__` follows
    MXNet's older list of rules, which has `moving_mean` and the like. A parameter's numbers depend only on the key, its
    name and its shape; in an automatic name, the number counts as its rank in this network (`names_by_rank`). Dtypes
    are the inferred ones, else float32.

    Args:
        symbol: the network.
        shapes: shapes of inputs by name. Inputs get no values, and neither do arguments whose names end in "label".
        key: a PRNG key or a seed.
        initializer: an initialiser, its name or its JSON; None for Uniform(0.01), as in Module.
        without: further arguments that get no values.
        place: (name, value) → the value on its devices; it is called before the next value is made.

    Returns:
        Arguments and auxiliary states, by name.

    Raises:
        InitializerError: an initialiser is unknown or does not fit a parameter.
        InferenceError: the shapes do not decide those of all parameters.
    """
    require_symbol(symbol, "init_params")
    shapes = shapes_by_name(shapes, "shapes", _CALL)
    chosen = Uniform(0.01) if initializer is None else initializer
    chosen = chosen if isinstance(chosen, Load | Mixed) else create(chosen)
    base_key = prng_key(key)
    descriptions = parameter_names(symbol)
    arg_names, aux_names = symbol.list_arguments(), symbol.list_auxiliary_states()
    refuse_unknown(InferenceError, "Shapes of names that the graph lacks:", shapes, symbol.list_inputs(), "names")
    try:
        arg_shapes, _, aux_shapes = symbol.infer_shape_partial(**shapes)
    except InferenceError as error:
        raise InferenceError(f"{error} {shape_remedy(symbol, shapes)}".rstrip(), error.node) from error
    arg_dtypes, _, aux_dtypes = symbol.infer_type_partial()
    skipped = {*shapes, *without}
    skipped |= {name for name in arg_names if name.endswith("label")}

    def values(names: list[str], inferred_shapes: Sequence[Any], dtypes: Sequence[Any]) -> Arrays:
        rows = [row for row in zip(names, inferred_shapes, dtypes, strict=True) if row[0] not in skipped]
        undecided = [name for name, shape, _ in rows if not shape or 0 in shape]
        if undecided:
            raise InferenceError(
                f"The shapes of {plain_list(map(repr, undecided))} do not follow from those of "
                f"{plain_list(map(repr, shapes)) if shapes else 'no input'}",
                fix="Give the shapes of all inputs, or declare them: Variable(name, shape=...).",
            )
        arrays: Arrays = {}
        for name, shape, dtype in rows:
            value = chosen(descriptions[name], tuple(shape), np.float32 if dtype is None else dtype, base_key)
            arrays[name] = value if place is None else place(name, value)
        return arrays

    return values(arg_names, arg_shapes, arg_dtypes), values(aux_names, aux_shapes, aux_dtypes)


def parameter_names(symbol: Symbol) -> dict[str, ParameterName]:
    """Return a symbol's arguments and auxiliary states by name, as initialisers and optimisers get them.

    A state without an initialiser of its own is not an `InitDesc`, so that the older list of rules serves it.
    """
    attrs, by_rank, states = symbol.attr_dict(), names_by_rank(symbol), set(symbol.list_auxiliary_states())
    names: dict[str, ParameterName] = {}
    for name in symbol.list_inputs():
        own_attrs = attrs.get(name, {})
        if name in states and not own_attrs.get("__init__"):
            names[name] = ParameterName(name, drawn_as=by_rank.get(name))
        else:
            names[name] = InitDesc(name, own_attrs, drawn_as=by_rank.get(name))
    return names
