"""Graph attributes in JSON: `["type", value]` pairs ↔ Python values, by one table of types."""

from __future__ import annotations

import numbers
import reprlib
from collections.abc import Callable
from typing import Any

from symjax_nnvm.errors import JSONFormatError
from symjax_nnvm.ir.types import DTypeList, ShapeList, dtype_code, shape_from_legacy, shape_to_legacy

_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 80


def brief(value: object) -> str:
    """A value for an error message, cut short: values from a file may be of any size and depth."""
    return _repr.repr(value)


def _is_int(value: object) -> bool:
    return type(value) is int


def _int(value: Any) -> int:
    if not _is_int(value):
        raise TypeError("an integer")
    return value


def _size(value: Any) -> int:
    if not _is_int(value) or value < 0:
        raise TypeError("an integer ≥ 0")
    return value


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a string")
    return value


def _list_str(value: Any) -> list[str]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise TypeError("a list of strings")
    return list(value)


def _list_int(value: Any) -> list[int]:
    if not isinstance(value, (list, tuple)) or not all(map(_is_int, value)):
        raise TypeError("a list of integers")
    return list(value)


def _list_shape(value: Any) -> ShapeList:
    if not isinstance(value, (list, tuple)) or not all(
        isinstance(shape, (list, tuple)) and all(map(_is_int, shape)) for shape in value
    ):
        raise TypeError("a list of lists of integers")
    return ShapeList(shape_from_legacy(shape) for shape in value)


def _dict_str_int(value: Any) -> dict[str, int]:
    if not isinstance(value, dict) or not all(isinstance(k, str) and _is_int(v) for k, v in value.items()):
        raise TypeError("an object whose values are integers")
    return dict(value)


ATTR_TYPES: dict[str, Callable[[Any], Any]] = {
    "str": _str,
    "list_str": _list_str,
    "list_int": _list_int,
    "list_shape": _list_shape,
    "dict_str_int": _dict_str_int,
    "size_t": _size,
    "int": _int,
}
"""Type tag → function from a JSON value to the Python value; it raises TypeError saying what it takes."""


def attr_from_json(key: str, type_name: object, value: Any) -> Any:
    """Return the Python value of a graph attribute stored as `[type_name, value]`.

    Shapes become a `ShapeList`; dtypes stay the codes they are. Raises JSONFormatError for an unknown type and for a
    value that is not of the type.
    """
    convert = ATTR_TYPES.get(type_name) if isinstance(type_name, str) else None
    if convert is None:
        raise JSONFormatError(
            f"Typename {type_name if isinstance(type_name, str) and len(type_name) <= 80 else brief(type_name)} "
            f"has not been registered via DMLC_JSON_ENABLE_ANY, in graph attribute {brief(key)}",
            expected=f"one of {', '.join(ATTR_TYPES)}",
        )
    try:
        return convert(value)
    except TypeError as error:
        raise JSONFormatError(
            f"Graph attribute {brief(key)} of type {type_name}", expected=error, got=brief(value)
        ) from None


def attr_to_json(key: str, value: Any) -> tuple[str, Any]:
    """Return (type name, JSON value) of a graph attribute. Raises JSONFormatError for a value that JSON cannot hold.

    Integers are written as `int`, also those that were read as `size_t`.
    """
    match value:
        case str():
            return "str", value
        case ShapeList():
            return "list_shape", [list(shape_to_legacy(shape)) for shape in value]
        case DTypeList():
            return "list_int", [dtype_code(dtype) for dtype in value]
        case numbers.Integral() if not isinstance(value, bool):
            return "int", int(value)
        case dict() if all(isinstance(k, str) and _is_int(v) for k, v in value.items()):
            return "dict_str_int", value
        case list() | tuple() if all(map(_is_int, value)):
            return "list_int", list(value)
        case list() | tuple() if all(isinstance(item, str) for item in value):
            return "list_str", list(value)
    raise JSONFormatError(
        f"Graph attribute {key!r} cannot be written as JSON: Type {type(value).__name__} has not been registered "
        "via DMLC_JSON_ENABLE_ANY",
        expected="a string, an integer, a list of either, a ShapeList, a DTypeList, or a dict of integers",
        got=brief(value),
        fix="Remove the attribute from the graph before saving it.",
    )
