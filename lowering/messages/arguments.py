"""What people give to functions of a symbol, and what they are told when it does not fit."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from symjax_nnvm.errors import CallError, LoweringError, close_names, did_you_mean, listed, plain_list
from symjax_nnvm.inspect.roles import label_variables, learned_variables
from symjax_nnvm.symbol.symbol import Symbol


class Kind(NamedTuple):
    """What a parameter takes: whether a value is of it, and the words that say so."""

    takes: Callable[[Any], bool]
    words: str


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool | np.bool_) or (_is_whole(value) and value in (0, 1))


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_)


def _is_number(value: Any) -> bool:
    scalar = isinstance(value, np.ndarray | jax.Array) and value.shape == () and value.dtype.kind in "fiu"
    return scalar or (isinstance(value, Real) and not isinstance(value, bool | np.bool_))


def _are_names(value: Any) -> bool:
    if isinstance(value, str):
        return True
    fits = isinstance(value, Iterable) and not isinstance(value, Mapping | bytes | np.ndarray)
    return fits and (not isinstance(value, Collection) or all(isinstance(name, str) for name in value))


def _is_key_or_seed(value: Any) -> bool:
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return True
    return _is_whole(value) or (isinstance(value, jax.Array | np.ndarray) and value.dtype.kind in "iu")


_FLAG, _WHOLE, _NUMBER = (
    Kind(_is_flag, "True or False"),
    Kind(_is_whole, "a whole number"),
    Kind(_is_number, "a number"),
)
_NAMES = Kind(_are_names, "a list of names")
_TEXT = Kind(lambda value: isinstance(value, str), "text")
_PATH = Kind(lambda value: isinstance(value, str | bytes | os.PathLike) and value not in ("", b""), "a path")
_BY_NAME = Kind(lambda value: isinstance(value, Mapping), "a dict")
_SEED = Kind(_is_key_or_seed, "a seed or a PRNG key, jax.random.key(0)")
_SIZE = Kind(lambda value: _is_whole(value) or isinstance(value, str), "a whole number, or text such as '4G'")
_RULES = Kind(
    lambda value: isinstance(value, str | list | tuple | Mapping), "a word, or pairs of a pattern and a split"
)
_MIRROR = Kind(lambda value: isinstance(value, Hashable), "a word or a function of a node")
_REQUESTS = Kind(
    lambda value: isinstance(value, str | list | tuple | Mapping), "'write', 'add', 'null', a list or dict"
)

_KINDS: Mapping[str, Kind] = {
    "bool": _FLAG,
    "int": _WHOLE,
    "float": _NUMBER,
    "str": _TEXT,
    "int | str": _SIZE,
    "str | Rules": _RULES,
    "BatchStatistics": _TEXT,
    "jax.Array | int": _SEED,
    "int | jax.Array": _SEED,
    "Sequence[str]": _NAMES,
    "str | Sequence[str]": _NAMES,
    "str | os.PathLike[str]": _PATH,
    "Mapping[str, Any]": _BY_NAME,
    "Mapping[str, Sequence[int | str]]": _BY_NAME,
}
"""Annotation → what it means."""

_OF_OTHER_NAMES: Mapping[str, Kind] = {"Mirror": _MIRROR, "GradReq": _REQUESTS}
"""The same of those that may be None, though the annotation does not say so."""


def kind_of(annotation: Any) -> Kind | None:
    """What a parameter of a public function takes, by its annotation, where that says it; else None."""
    text = str(annotation)
    if text in _OF_OTHER_NAMES:
        found, optional = _OF_OTHER_NAMES[text], True
    else:
        found, optional = _KINDS.get(text.removesuffix(" | None")), text.endswith(" | None")
        if text.startswith("Literal["):  # which words, the functions themselves say
            found = _TEXT
    if found is None or not optional:
        return found
    return Kind(lambda value: value is None or found.takes(value), f"{found.words}, or None")


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
