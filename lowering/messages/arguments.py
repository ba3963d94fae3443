"""Checks of the arguments of functions that take a symbol; an error names the argument that does not fit."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from functools import lru_cache
from numbers import Real
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from numpy.typing import DTypeLike

from lowering.host.numpy_keys import key_of_seed
from lowering.jax_casts import is_narrowed, require_held
from symjax_nnvm.errors import CallError, LoweringError, NNVMError, close_names, cut, did_you_mean, listed, plain_list
from symjax_nnvm.inspect.roles import label_variables, learned_variables
from symjax_nnvm.ir.rules.quantized_parameters import way_out_of_mixing
from symjax_nnvm.ir.types import DType, dtype_name, whole_number
from symjax_nnvm.symbol.symbol import Symbol


class Kind(NamedTuple):
    """The kind of values that a parameter takes.

    read: a value as Python's own (an int of `numpy.int64`, a bool of `numpy.bool_`, a list of names of a generator).
    Raises TypeError for a value of another kind. words: what is taken, for messages.
    """

    read: Callable[[Any], Any]
    words: str


def prng_key(key: Any) -> Any:
    """Return the PRNG key of a seed; a key as it is."""
    try:
        return key_of_seed(whole_number(key))
    except TypeError:
        return key


def _flag(value: Any) -> bool:
    if isinstance(value, bool | np.bool_) or whole_number(value) in (0, 1):
        return bool(value)
    raise TypeError("neither 0 nor 1")


def _number(value: Any) -> Any:
    """Leave arrays of JAX where they are."""
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        if value.shape != () or not (value.dtype.kind in "iu" or jnp.issubdtype(value.dtype, jnp.floating)):
            raise TypeError("an array, or not a number")
    elif isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError("no number")
    return value if isinstance(value, int | jax.Array) else float(value)


def _names(value: Any) -> str | list[str] | tuple[str, ...]:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping | bytes) or not isinstance(value, Iterable):
        raise TypeError("no names")
    names = value if isinstance(value, list | tuple) else list(value)
    if not all(isinstance(name, str) for name in names):
        raise TypeError("things that are not names")
    return sorted(names) if isinstance(value, set | frozenset) else names  # a set's order differs in each process


def _dtype(value: Any) -> DType:
    if not isinstance(value, str | type | np.dtype):  # a number is MXNet's code of a dtype, in files
        raise TypeError("no dtype")
    try:
        return dtype_name(value)
    except ValueError as error:
        raise TypeError("not one of these dtypes") from error


def compute_dtype_of(dtype: DTypeLike | None) -> DType | None:
    """Return the dtype of products and convolutions as a plan has it: None for float32, which is as they are."""
    name = None if dtype is None else _dtype(dtype)
    return None if name == "float32" else name


def _key_or_seed(value: Any) -> Any:
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return value
    if isinstance(value, jax.Array | np.ndarray) and value.shape != () and value.dtype.kind in "iu":
        return value
    return whole_number(value)


def _one_of(takes: Callable[[Any], bool], words: str) -> Kind:
    """Return a kind of values that stay as they are."""

    def read(value: Any) -> Any:
        if not takes(value):
            raise TypeError(words)
        return value

    return Kind(read, words)


_FLAG = Kind(_flag, "True or False")
_WHOLE = Kind(whole_number, "a whole number")
_NUMBER = Kind(_number, "a number")
_NAMES = Kind(_names, "a list of names")
_ANY_NAMES = Kind(lambda value: _names([*value] if isinstance(value, Mapping) else value), "names")
_DTYPE = Kind(_dtype, "a dtype such as 'bfloat16' or jnp.bfloat16")
_SEED = Kind(_key_or_seed, "a seed or a PRNG key, jax.random.key(0)")
_SIZE = Kind(
    lambda value: value if isinstance(value, str) else whole_number(value), "a whole number, or text such as '4G'"
)
_TEXT = _one_of(lambda value: isinstance(value, str), "text")
_PATH = _one_of(
    lambda value: isinstance(value, str | os.PathLike) and value != "" and isinstance(os.fspath(value), str), "a path"
)
_PATH_OR_NONE = _one_of(lambda value: value == "" or _PATH.read(value) is not None, "a path")
_BY_NAME = _one_of(lambda value: isinstance(value, Mapping), "a dict")
_RULES = _one_of(
    lambda value: isinstance(value, str | list | tuple | Mapping), "a word, or pairs of a pattern and a split"
)
_MIRROR = _one_of(lambda value: isinstance(value, Hashable), "a word or a function of a node")
_REQUESTS = _one_of(
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
    "Collection[str]": _ANY_NAMES,  # a dict of the arrays, too
    "DTypeLike": _DTYPE,
    "str | os.PathLike[str]": _PATH,
    "StrPath": _PATH_OR_NONE,  # MXNet's iterators take "" for no file
    "Mapping[str, Any]": _BY_NAME,
    "Mapping[str, Sequence[int | str]]": _BY_NAME,
    "Mapping[str, Context]": _BY_NAME,
}
"""Annotation → what it means."""

_OF_OTHER_NAMES: Mapping[str, Kind] = {"Mirror": _MIRROR, "GradReq": _REQUESTS}
"""The same for parameters that may be None although their annotation lacks None."""


def kind_of(annotation: Any) -> Kind | None:
    """Return the kind of values that a parameter of a public function takes, read from its annotation, or None."""
    text = str(annotation)
    if text in _OF_OTHER_NAMES:
        kind, optional = _OF_OTHER_NAMES[text], True
    else:
        kind, optional = _KINDS.get(text.removesuffix(" | None")), text.endswith(" | None")
        if text.startswith("Literal["):  # the function itself checks which words are allowed
            kind = _TEXT
    if kind is None or not optional:
        return kind
    return Kind(lambda value: None if value is None else kind.read(value), f"{kind.words}, or None")


def require_symbol(symbol: Any, where: str) -> Symbol:
    """Return the symbol. Raises CallError for anything else, such as a path or what `load_checkpoint` returns."""
    if isinstance(symbol, Symbol):
        return symbol
    if isinstance(symbol, tuple):
        fix = "load_checkpoint returns three things: net, args, aux = symjax_nnvm.load_checkpoint(prefix, epoch)."
    else:
        fix = "Load a file first: net, args, aux = symjax_nnvm.load_checkpoint(prefix, epoch), or symbol.load(path)."
    raise CallError(f"{where} takes a Symbol, got {type(symbol).__name__}. {fix}")


def require_named(arrays: Any, what: str, example: str) -> Mapping[str, Any]:
    """Return the arrays by name. Raises CallError for a list, or for one array, because arrays are matched by name."""
    if isinstance(arrays, Mapping):
        others = [name for name in arrays if not isinstance(name, str)]
        if others:
            raise CallError(
                f"The names in {what} must be strings, got {cut(repr(others), 80)}. For example: {example}."
            )
        return arrays
    several = isinstance(arrays, list | tuple)
    got = f"a {type(arrays).__name__} of {len(arrays)}" if several else f"one {type(arrays).__name__}"
    order = " For a list in the order of symbol.list_arguments(): dict(zip(symbol.list_arguments(), arrays))."
    raise CallError(f"{what} must be a dict of arrays by name, got {got}. For example: {example}.{order * several}")


def arrays_by_name(arrays: Any, what: str, example: str) -> Mapping[str, Any]:
    """Return the arrays by name, each converted by `as_array`; the same mapping where they are so already. Raises
    CallError for anything that is not a dict, and for values that are not arrays of numbers."""
    named = require_named(arrays, what, example)
    if all(map(_is_of_jax, set(map(type, named.values())))):
        return named
    others = [n for n, array in named.items() if type(array) is not np.ndarray or not _is_as_jax(array.dtype)]
    return {**named, **{name: as_array(named[name], name) for name in others}} if others else named


def refuse_traced(arrays: Mapping[str, Any], door: str) -> None:
    """Raise CallError for arrays that JAX traces, which have no values yet. door: what was called, for the message."""
    traced = [name for name, array in arrays.items() if isinstance(array, Tracer)]
    if traced:
        raise CallError(
            f"{door} cannot be called inside jax.jit, jax.grad or jax.vmap: {listed(traced)} has no values there",
            fix="lowering.to_jax(net) is a function that JAX may trace: outputs, _ = f(args | {'data': x}).",
        )


@lru_cache(64)
def _is_of_jax(kind: type) -> bool:
    return issubclass(kind, jax.Array)


@lru_cache(64)
def _is_native(dtype: np.dtype) -> bool:
    """Return whether JAX has the dtype, and the bytes are in this machine's order. It has no longdouble; its own,
    bfloat16 among them, are of NumPy's kind V."""
    if dtype.kind in "fc":
        return dtype.isnative and dtype.itemsize <= (8 if dtype.kind == "f" else 16)
    return dtype.isnative and (dtype.kind in "biu" or (dtype.kind == "V" and jnp.issubdtype(dtype, np.number)))


def _is_as_jax(dtype: np.dtype) -> bool:
    """Return whether JAX has an array of NumPy's as it is: in the mode of 32 bits none of 64."""
    return _is_native(dtype) and not (dtype.itemsize == 8 and is_narrowed(dtype))


def as_array(value: Any, name: str, error: type[NNVMError] = CallError) -> Any:
    """Return the value of an input as JAX takes it: arrays of JAX and NumPy, and Python's numbers, as they are, in this
    machine's byte order; an array of everything else that can be one.

    Raises the error for lists of unequal length, for masked arrays, and for anything that is not a number of a dtype
    that JAX has; TooWideError for numbers of 64 bits that 32 do not hold, where JAX has no more.
    """
    if type(value) is np.ndarray and _is_as_jax(value.dtype):
        return value
    if isinstance(value, jax.Array | bool | float | complex):
        return value
    if isinstance(value, int):
        bounds = np.iinfo(jax.dtypes.canonicalize_dtype(np.int64))
        if not bounds.min <= value <= bounds.max:
            raise error(
                "JAX cannot hold this number", input=name, expected=f"one that fits in {bounds.dtype}", got=_seen(value)
            )
        return value
    expected = "an array of numbers"
    if isinstance(value, np.ma.MaskedArray):
        raise error(
            "A masked array is not supported",
            input=name,
            expected=expected,
            got=_seen(value),
            fix="Replace the masked elements: array.filled(0).",
        )
    try:
        array = _made_array(value)
    except (TypeError, ValueError, OverflowError) as failed:
        reason, *_ = str(failed).splitlines() or [""]
        got = f"{_seen(value)} ({cut(reason, 100)})"
        raise error("An input cannot be converted to an array", input=name, expected=expected, got=got) from failed
    if not isinstance(array, np.ndarray):
        return array
    array = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    if not _is_native(array.dtype):
        raise error(
            "The input is not an array of numbers",
            input=name,
            expected=expected,
            got=_seen(value),
            fix=_to_numbers(array),
        )
    return require_held(array, name)


def _made_array(value: Any) -> Any:
    if hasattr(value, "__jax_array__"):
        return value.__jax_array__()
    try:
        return np.asarray(value)
    except jax.errors.TracerArrayConversionError:  # a list of what JAX traces
        return jnp.asarray(value)


def _to_numbers(array: np.ndarray) -> str | None:
    """Return how numbers are made of an array without any."""
    if array.dtype.kind in "SU" and array.ndim:
        return "Turn words into numbers first: classes, labels = np.unique(words, return_inverse=True)."
    return "Convert it: array.astype(np.float32)." if array.dtype.kind in "fc" else None


def _seen(value: Any) -> str:
    """A value in a few words."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{type(value).__name__} of shape {value.shape} and dtype {value.dtype}"
    return cut(f"{value!r} of type {type(value).__name__}", 100)


def head_gradients(heads: Any) -> list[Any] | None:
    """Return a list of head gradients, one for each output, each None or converted by `as_array`. Raises CallError."""
    if heads is None:
        return None
    if isinstance(heads, str | Mapping) or not isinstance(heads, Iterable) or getattr(heads, "shape", None) == ():
        fix = "For a network with one output pass head_grads=[array]."
        raise CallError(
            "head_grads must be a list of arrays", param="head_grads", expected="a list", got=_seen(heads), fix=fix
        )
    return [None if head is None else as_array(head, f"head_grads[{i}]") for i, head in enumerate(heads)]


def may_be_iterated(value: Any) -> bool:
    """Return whether `for` accepts a value; the value is not iterated."""
    return hasattr(value, "__iter__") or hasattr(value, "__getitem__")


def is_key(key: Any) -> bool:
    """Return whether a value is a PRNG key of JAX."""
    return isinstance(key, jax.Array) and (
        jnp.issubdtype(key.dtype, jax.dtypes.prng_key) or (key.dtype == jnp.uint32 and key.ndim == 1)
    )


def require_key(key: Any) -> None:
    """Raise CallError for a number, or anything else that is not a PRNG key of JAX."""
    if key is not None and not is_key(key):
        raise CallError(f"key must be a PRNG key, got {type(key).__name__}: pass key=jax.random.key(0), with any seed.")


def shapes_by_name(shapes: Any, what: str, example: str) -> dict[str, tuple[int, ...]]:
    """Return shapes as tuples. Raises CallError for anything that is not a dict, and for values that are arrays and no
    shapes."""
    if not isinstance(shapes, Mapping):
        raise CallError(f"{what} must be given by name, got {type(shapes).__name__}. For example: {example}.")
    for name, shape in shapes.items():
        if hasattr(shape, "shape") and hasattr(shape, "dtype"):
            sizes = tuple(shape.shape)
            raise CallError(f"{name!r} needs a shape and got an array: pass {name}={sizes}, which is its .shape.")
        if not isinstance(shape, list | tuple):
            raise CallError(
                f"{name!r} needs a shape, a tuple of sizes, got {cut(repr(shape), 80)}. For example: {example}."
            )
    try:
        sizes_by_name = {name: tuple(map(whole_number, shape)) for name, shape in shapes.items()}
        if all(size >= -1 for sizes in sizes_by_name.values() for size in sizes):
            return sizes_by_name
        raise TypeError
    except TypeError:
        raise CallError(
            f"{what} must be tuples of whole numbers from -1 on, got {cut(repr(shapes), 200)}. For example: {example}."
        ) from None


def misfit(symbol: Symbol, args: Collection[str], aux: Collection[str], call: str = "f(args, aux)") -> LoweringError:
    """Return the error for arrays whose names are not exactly those of the graph: what is wrong, and each way out.

    call: how the function that was called takes them.
    """
    parts: list[str] = []
    expected: list[str] = []
    for what, passed, names in (
        ("arguments", args, symbol.list_arguments()),
        ("auxiliary states", aux, symbol.list_auxiliary_states()),
    ):
        missing = [name for name in names if name not in passed]
        unknown = [name for name in passed if name not in set(names)]
        differences = [f"{how} {listed(which)}" for how, which in (("missing", missing), ("unknown", unknown)) if which]
        if differences:
            parts.append(f"The {what} do not fit the graph: {' and '.join(differences)}")
            expected.append(listed(names))
    text = f"{'. '.join(parts)}; expected exactly {' and '.join(expected)}."
    return LoweringError(" ".join((text, *_ways_out(symbol, set(args), set(aux), call))))


def _ways_out(symbol: Symbol, args: set[str], aux: set[str], call: str) -> Iterator[str]:
    arg_names, aux_names = set(symbol.list_arguments()), set(symbol.list_auxiliary_states())
    missing, surplus = (arg_names - args) | (aux_names - aux), (args - arg_names) | (aux - aux_names)
    if args & aux_names and aux & arg_names:
        yield f"args and aux are swapped: arguments come first, {call}."
        return
    if (args & aux_names) or (aux & arg_names):
        yield (
            f"Arguments and auxiliary states go into two dicts, {call}; to separate merged ones use "
            "args, aux = symjax_nnvm.subset(symbol, arrays)."
        )
        missing, surplus = missing - args - aux, surplus - arg_names - aux_names
    if any(name.startswith(("arg:", "aux:")) for name in surplus):
        yield (
            "'arg:' and 'aux:' belong to the file: symjax_nnvm.load_checkpoint(prefix, epoch) removes them, "
            "or use matched = symjax_nnvm.match_params(symbol, arrays), then matched.args and matched.aux."
        )
        return
    if way_out := way_out_of_mixing(arg_names, surplus):
        yield way_out
        return
    yield from _about_missing(symbol, missing, surplus, aux, call)
    close = {name for name in surplus if did_you_mean(name, missing, cutoff=0.6)}
    if surplus - close:
        yield (
            "To leave out arrays of a larger network: args, aux = symjax_nnvm.subset(symbol, args, aux) "
            f"(not {plain_list(map(repr, sorted(surplus - close)), 3)})."
        )


def _about_missing(symbol: Symbol, missing: set[str], surplus: set[str], aux: set[str], call: str) -> Iterator[str]:
    ordered = [name for name in symbol.list_inputs() if name in missing]
    if typos := close_names([name for name in sorted(surplus) if did_you_mean(name, missing, cutoff=0.6)], ordered):
        yield typos
        ordered = [name for name in ordered if not did_you_mean(name, surplus, cutoff=0.6)]
    labels = {node.name for node in label_variables(symbol)}.intersection(ordered)
    if labels:
        yield (
            f"{plain_list(map(repr, sorted(labels)))}: only training needs a label; "
            "symjax_nnvm.inference_symbol(symbol) is the network without it."
        )
    auxiliary = set(symbol.list_auxiliary_states())
    states = [name for name in ordered if name in auxiliary]
    if states and not aux:
        yield f"Auxiliary states come after the arguments: {call}."
    learned = {node.name for node in learned_variables(symbol)} - set(states)
    fed = [name for name in ordered if name not in labels and name not in states and name not in learned]
    if fed:
        yield f"Pass data with the other arguments: args | {{{fed[0]!r}: x}}."
    if learned.intersection(ordered):
        yield (
            "Read parameters with symjax_nnvm.load_checkpoint(prefix, epoch), or make them with "
            "lowering.init_params(symbol, {'data': shape}, seed)."
        )
