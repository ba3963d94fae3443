"""Checks of the arguments that users pass: symbols, arrays by name, shapes by name."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from symjax_nnvm.errors import SymbolTypeError, SymbolValueError, explain
from symjax_nnvm.ir.types import DType, Shape, dtype_name, shape_from_legacy
from symjax_nnvm.symbol.symbol import Symbol


def expect_symbol(value: object, function: str) -> None:
    """Raise SymbolTypeError, with the way to make a symbol, unless the value is one."""
    if not isinstance(value, Symbol):
        fix = "A file's is symjax_nnvm.symbol.load(path), a checkpoint's the first of load_checkpoint(prefix, epoch)."
        raise SymbolTypeError(f"{function} works on a Symbol", got=_brief(value), fix=fix)


def expect_arrays(value: object, what: str, lists: bool = True) -> None:
    """Raise SymbolTypeError unless the value is a dict of arrays by name. lists: lists of numbers are arrays, too."""
    if not isinstance(value, Mapping):
        fix = "A file's are symjax_nnvm.load_arrays(path); zip names and arrays where they come as lists."
        raise SymbolTypeError(f"{what} are arrays by name, a dict", got=_brief(value), fix=fix)
    kinds = (list, tuple) if lists else ()
    others = [name for name, array in value.items() if not (hasattr(array, "shape") or isinstance(array, kinds))]
    if others:
        got = f"{_brief(value[others[0]])} as {others[0]!r}"
        raise SymbolTypeError(f"{what} are arrays by name", got=got, fix="numpy.asarray(value) is an array.")


def known_shapes(shapes: Mapping[str, Sequence[int]]) -> dict[str, Shape | None]:
    """Return shapes as users write them, with 0 and -1 for unknown dimensions, as the passes take them.

    Raises SymbolTypeError, SymbolValueError.
    """
    if not isinstance(shapes, Mapping):
        fix = "Name the input that it is the shape of: {'data': (1, 3, 224, 224)}."
        raise SymbolTypeError("Shapes are given by name, a dict", got=_brief(shapes), fix=fix)
    return {name: _shape(name, shape) for name, shape in shapes.items()}


def known_dtypes(dtypes: Mapping[str, Any]) -> dict[str, DType]:
    """Return dtypes by name, each given as a name, a NumPy dtype or type, or an MXNet code. Raises SymbolTypeError."""
    if not isinstance(dtypes, Mapping):
        fix = "Name the input that it is the dtype of: {'data': 'float16'}."
        raise SymbolTypeError("Dtypes are given by name, a dict", got=_brief(dtypes), fix=fix)
    try:
        return {name: dtype_name(dtype) for name, dtype in dtypes.items()}
    except ValueError as error:
        raise SymbolTypeError(f"No dtype: {error}") from None


def _shape(name: str, shape: Any) -> Shape | None:
    try:
        sizes = tuple(map(operator.index, shape))
    except TypeError:
        fix = "Of an array it is array.shape." if hasattr(shape, "shape") else "One axis is written (5,)."
        raise SymbolTypeError(
            f"No shape for {name!r}", expected="whole numbers, as in (1, 3, 224, 224)", got=_brief(shape), fix=fix
        ) from None
    try:
        return shape_from_legacy(sizes) if sizes else ()
    except ValueError as error:
        raise SymbolValueError(explain(f"No shape for {name!r}: {error}")) from None


def _brief(value: object) -> str:
    """A value of any size in a few words."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"an array of shape {value.shape}"  # type: ignore[attr-defined]
    return (
        f"{type(value).__name__} {repr(value)[:60]}" if isinstance(value, (str, int, float)) else type(value).__name__
    )
