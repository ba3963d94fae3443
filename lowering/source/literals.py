"""Numbers, dtypes and parameters of primitives as Python."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np

_LONG = 8
"""Equal elements up to which a tuple is written out."""


def tuple_text(parts: Sequence[object]) -> str:
    """Return a tuple of texts."""
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(map(str, parts))})"


def dtype_text(dtype: Any) -> str:
    """Return a dtype as a name of jax.numpy."""
    name = np.dtype(dtype).name
    return "jnp.bool_" if name == "bool" else f"jnp.{name}"


def number_text(number: Any) -> str:
    """Return a number as Python writes it, which gives the same number in its dtype."""
    array = np.asarray(number)
    if array.dtype.kind in "biu":
        return str(array.item())
    if array.dtype.kind == "c":
        return repr(complex(array))
    value = float(array)
    if not math.isfinite(value):
        return "jnp.nan" if math.isnan(value) else "jnp.inf" if value > 0 else "-jnp.inf"
    if value.is_integer() and abs(value) < 2**53:
        return repr(value)
    short = float(str(array)) if array.dtype.kind == "f" else value
    return repr(short if np.asarray(short, array.dtype) == array else value).replace("e+", "e")


def size_text(size: Any, name_text: Callable[[str], str] = str) -> str:
    """Return a size, which may be open, as Python."""

    def python(node: ast.expr) -> ast.expr:
        match node:
            case ast.Name(name):
                return ast.Name(name_text(name))
            case ast.UnaryOp(operator, operand):
                return ast.UnaryOp(operator, python(operand))
            case ast.BinOp(left, operator, right):
                return ast.BinOp(python(left), operator, python(right))
            case ast.Call(ast.Name(name), arguments):  # a maximum or a minimum is a call in Python too
                texts, operator = [*map(python, arguments)], {"floordiv": ast.FloorDiv(), "mod": ast.Mod()}.get(name)
                return ast.BinOp(texts[0], operator, texts[1]) if operator else ast.Call(ast.Name(name), texts, [])
        return node

    return ast.unparse(python(ast.parse(str(size).replace("^", "**"), mode="eval").body))


def value_text(value: Any, size_text: Callable[[Any], str]) -> str:
    """Return a parameter of a primitive: numbers, words, open sizes and tuples of such."""
    if isinstance(value, (tuple, list)):
        texts = [value_text(one, size_text) for one in value]
        return f"({texts[0]},) * {len(texts)}" if len(texts) > _LONG and len(set(texts)) == 1 else tuple_text(texts)
    if isinstance(value, Enum):
        return f"lax.{type(value).__name__}.{value.name}"
    if isinstance(value, (bool, type(None))):
        return repr(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (int, float, np.integer, np.floating)):
        return number_text(value)
    return dtype_text(value) if isinstance(value, (np.dtype, type)) else size_text(value)
