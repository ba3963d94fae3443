"""Nested lists of arrays, symbols and None as flat lists, with a format that describes the nesting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lowering.mx.gluon.gluon_errors import BlockValueError
from lowering.mx.ndarray.array import CLASSIC, NUMPY, NDArray, in_dialect
from lowering.mx.symbol.runnable import OF_DIALECT
from symjax_nnvm.symbol.symbol import Symbol

Format = Any
"""0: one array. n > 1: a symbol of n outputs. -1: None. A list: the formats of a list's items."""


def _flatten(args: Any, inout_str: str) -> tuple[list[Any], Format]:
    """Return (arrays and symbols in a flat list, how they were nested). inout_str: "input" or "output", for errors.

    Raises BlockValueError for anything else.
    """
    if isinstance(args, NDArray):
        return [args], 0
    if isinstance(args, Symbol):
        count = len(args.list_outputs())
        return [args], count if count > 1 else 0
    if args is None:
        return [None], -1
    if not isinstance(args, list | tuple):
        raise BlockValueError(
            f"When hybridized, the {inout_str} of HybridBlock must be (nested) list of Symbol or NDArray, but got "
            f"{args!r:.80} of type {type(args)}"
        )
    pairs = [_flatten(arg, inout_str) for arg in args]
    return [item for flat, _ in pairs for item in flat], [fmt for _, fmt in pairs]


def _regroup(args: Sequence[Any], fmt: Format) -> Any:
    """Nest flat arrays again by a format. Raises BlockValueError for an array in place of None."""
    return _taken(iter(args), fmt)


def _taken(items: Iterator[Any], fmt: Format) -> Any:
    if not isinstance(fmt, int):
        return [_taken(items, inner) for inner in fmt]
    if fmt == 0:
        return next(items)
    if fmt > 0:
        return [next(items) for _ in range(fmt)]
    item = next(items)
    if item is not None:
        raise BlockValueError(
            "We do not support passing types that are not None when the initial HybridBlock has received NoneType and "
            f"has been hybridized. Received arg = {item!r:.80}, fmt = {fmt}."
        )
    return None


def fits(fmt: Format, cached: Format) -> bool:
    """Whether arguments nested so fit what a block was traced with: None at the end may be left out, or added."""
    if fmt == cached:
        return True
    shorter, longer = sorted((fmt, cached), key=len)
    return longer[: len(shorter)] == shorter and all(part == -1 for part in longer[len(shorter) :])


def kinds_in(args: Any) -> tuple[bool, bool, list[Any]]:
    """(whether there are symbols, whether there are arrays, their contexts, the first one's first)."""
    symbols, arrays, contexts = False, False, {}
    pending = [args]
    while pending:
        arg = pending.pop(0)
        if isinstance(arg, NDArray):
            arrays = True
            contexts[arg.context] = None
        elif isinstance(arg, Symbol):
            symbols = True
        elif isinstance(arg, list | tuple):
            pending[:0] = arg
    return symbols, arrays, list(contexts)


def dialects_of(value: Any) -> Iterator[str]:
    """The dialects of arrays and symbols, nested as they may be."""
    if isinstance(value, NDArray):
        yield value.dialect
    elif isinstance(value, Symbol):
        yield NUMPY if isinstance(value, OF_DIALECT[NUMPY]) else CLASSIC
    elif isinstance(value, list | tuple):
        for item in value:
            yield from dialects_of(item)


def converted(value: Any, dialect: str) -> Any:
    """Arrays, and symbols, in a dialect, nested as they were given; anything else as it is."""
    if isinstance(value, NDArray):
        return in_dialect(value, dialect)
    if isinstance(value, Symbol):
        return OF_DIALECT[dialect](value.outputs)
    return type(value)(converted(item, dialect) for item in value) if isinstance(value, list | tuple) else value
