"""What people give to functions of a symbol, and what they are told when it does not fit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from symjax_nnvm.errors import CallError, LoweringError, close_names, did_you_mean, listed, plain_list
from symjax_nnvm.roles import label_variables, learned_variables
from symjax_nnvm.symbol.symbol import Symbol


def require_symbol(symbol: Any, where: str) -> Symbol:
    """The symbol. Raises CallError for what is none: a path, or what `load_checkpoint` returns."""
    if isinstance(symbol, Symbol):
        return symbol
    if isinstance(symbol, tuple):
        fix = "load_checkpoint returns three things: net, args, aux = symjax_nnvm.load_checkpoint(prefix, epoch)."
    else:
        fix = "Load a file first: net, args, aux = symjax_nnvm.load_checkpoint(prefix, epoch), or symbol.load(path)."
    raise CallError(f"{where} takes a Symbol, got {type(symbol).__name__}. {fix}")


def require_named(given: Any, what: str, example: str) -> Mapping[str, Any]:
    """The arrays by name. Raises CallError for a list, or for one array: which is which is told by names."""
    if isinstance(given, Mapping):
        return given
    several = isinstance(given, list | tuple)
    got = f"a {type(given).__name__} of {len(given)}" if several else f"one {type(given).__name__}"
    order = " For a list in the order of symbol.list_arguments(): dict(zip(symbol.list_arguments(), arrays))."
    raise CallError(f"{what} must be a dict of arrays by name, got {got}. Call it so: {example}.{order * several}")


def require_key(key: Any) -> None:
    """Raises CallError for a number, or anything else that is no PRNG key of JAX."""
    fits = isinstance(key, jax.Array) and (
        jnp.issubdtype(key.dtype, jax.dtypes.prng_key) or (key.dtype == jnp.uint32 and key.ndim == 1)
    )
    if key is not None and not fits:
        raise CallError(f"key must be a PRNG key, got {type(key).__name__}: pass key=jax.random.key(0), with any seed.")


def shapes_by_name(shapes: Any, what: str, example: str) -> dict[str, tuple[int, ...]]:
    """Shapes as tuples. Raises CallError for what is no dict, and for values that are arrays and no shapes."""
    if not isinstance(shapes, Mapping):
        raise CallError(f"{what} must be given by name, got {type(shapes).__name__}. Call it so: {example}.")
    for name, shape in shapes.items():
        if hasattr(shape, "shape") and hasattr(shape, "dtype"):
            found = tuple(shape.shape)
            raise CallError(f"{name!r} needs a shape and got an array: pass {name}={found}, which is its .shape.")
        if not isinstance(shape, list | tuple):
            raise CallError(f"{name!r} needs a shape, a tuple of sizes, got {shape!r}. Call it so: {example}.")
    return {name: tuple(shape) for name, shape in shapes.items()}


def misfit(symbol: Symbol, args: Collection[str], aux: Collection[str]) -> LoweringError:
    """The error for arrays whose names are not exactly those of the graph: what is wrong, and each way out."""
    parts: list[str] = []
    expected: list[str] = []
    for what, given, names in (
        ("arguments", args, symbol.list_arguments()),
        ("auxiliary states", aux, symbol.list_auxiliary_states()),
    ):
        missing = [name for name in names if name not in given]
        unknown = [name for name in given if name not in set(names)]
        found = [f"{how} {listed(which)}" for how, which in (("missing", missing), ("unknown", unknown)) if which]
        if found:
            parts.append(f"The {what} do not fit the graph: {' and '.join(found)}")
            expected.append(listed(names))
    text = f"{'. '.join(parts)}; expected exactly {' and '.join(expected)}."
    return LoweringError(" ".join((text, *_ways_out(symbol, set(args), set(aux)))))


def _ways_out(symbol: Symbol, args: set[str], aux: set[str]) -> Iterator[str]:
    arg_names, aux_names = set(symbol.list_arguments()), set(symbol.list_auxiliary_states())
    missing, surplus = (arg_names - args) | (aux_names - aux), (args - arg_names) | (aux - aux_names)
    if args & aux_names and aux & arg_names:
        yield "args and aux are swapped: arguments come first, f(args, aux)."
        return
    if (args & aux_names) or (aux & arg_names):
        yield (
            "Arguments and auxiliary states go into two dicts, f(args, aux); where they have been merged, "
            "args, aux = symjax_nnvm.subset(symbol, arrays) takes them apart."
        )
        missing, surplus = missing - args - aux, surplus - arg_names - aux_names
    if any(name.startswith(("arg:", "aux:")) for name in surplus):
        yield (
            "'arg:' and 'aux:' are how files tell the two: symjax_nnvm.load_checkpoint(prefix, epoch) takes them off, "
            "or found = symjax_nnvm.match_params(symbol, arrays), then found.args and found.aux."
        )
        return
    yield from _about_missing(symbol, missing, surplus, aux)
    close = {name for name in surplus if did_you_mean(name, missing, cutoff=0.6)}
    if surplus - close:
        yield (
            "Arrays of a larger network are left out by args, aux = symjax_nnvm.subset(symbol, args, aux) "
            f"(not {plain_list(map(repr, sorted(surplus - close)), 3)})."
        )


def _about_missing(symbol: Symbol, missing: set[str], surplus: set[str], aux: set[str]) -> Iterator[str]:
    ordered = [name for name in symbol.list_inputs() if name in missing]
    if typos := close_names([name for name in sorted(surplus) if did_you_mean(name, missing, cutoff=0.6)], ordered):
        yield typos
        ordered = [name for name in ordered if not did_you_mean(name, surplus, cutoff=0.6)]
    labels = {node.name for node in label_variables(symbol)}.intersection(ordered)
    if labels:
        yield (
            f"{plain_list(map(repr, sorted(labels)))}: a label, which only training needs; "
            "symjax_nnvm.inference_symbol(symbol) is the network without it."
        )
    states = [name for name in ordered if name in set(symbol.list_auxiliary_states())]
    if states and not aux:
        yield "Auxiliary states are the second argument: f(args, aux)."
    learned = {node.name for node in learned_variables(symbol)} - set(states)
    fed = [name for name in ordered if name not in labels and name not in states and name not in learned]
    if fed:
        yield f"Data are arguments like the others: args | {{{fed[0]!r}: x}}."
    if learned.intersection(ordered):
        yield (
            "Parameters are read by symjax_nnvm.load_checkpoint(prefix, epoch), or made by "
            "lowering.init_params(symbol, {'data': shape}, seed)."
        )
