"""Texts of operator parameters and of variables' hints: of the declared type, and hostile in what they ask for.

`draw_text` draws from a parameter's schema; a text that the schema refuses is drawn again, so that what comes out gets
past the parser and meets the shape rules, the gradient rules and the lowering.
"""

from __future__ import annotations

import random
import types
import typing
from typing import Any, Literal, get_args, get_origin

from symjax_nnvm.ir.params import ParamField, value_to_text
from symjax_nnvm.ir.types import DTYPE_CODES

__all__ = ["EXTREME_INTS", "draw_hint", "draw_int", "draw_shape_text", "draw_text"]

_SMALL = (0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 7, 8, 16)
EXTREME_INTS = (
    *(-1, -2, -3, -4, -5, -8, -1000, -(10**9), -(1 << 31), -(1 << 31) - 1, -(1 << 63)),
    *(31, 32, 33, 63, 64, 65, 100, 255, 256, 1000, 1024, 4095, 65535, 65536, 10**6, 10**9),
    *((1 << bits) + offset for bits in (31, 32, 62) for offset in (-1, 0, 1)),
    *((1 << 63) - 1, 1 << 63, (1 << 64) - 1),
)
_FLOATS = (
    *("0", "-0.0", "1", "-1", "0.5", "2.5", "1e-30", "1e30", "-1e30", "3.4e38", "1.7e308", "5e-324", "1e-320", "nan"),
    *("inf", "-inf", "1.0f", "0." + "1" * 900, "1" * 300, "+.5e+5", "00000.1", "1e-0001", "255", "1e9", "2147483648"),
)
_STRINGS = ("", "x", "0", "(1,)", "None", "float32", "é😀", "\u202e", "a" * 4000, "__a__", "%s%n", "{}", "\n", "data")
_TRIES = 12


def draw_int(rng: random.Random, wild: float = 0.4) -> int:
    """An integer: mostly a small one, with chance `wild` an extreme one."""
    return rng.choice(EXTREME_INTS) if rng.random() < wild else rng.choice(_SMALL)


def draw_text(rng: random.Random, field: ParamField) -> str:
    """A text that the field's parser and bounds take; the default's when none was found."""
    wild = rng.choice([0.0, 0.1, 0.5, 1.0])
    for _ in range(_TRIES):
        text = _draw(rng, field.annotation, wild)
        try:
            if field.admits(field.parse(text.strip() if field.annotation is not str else text)):
                return text
        except ValueError:
            continue
    return "1" if field.required else value_to_text(field.default)


def _draw(rng: random.Random, annotation: Any, wild: float) -> str:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return rng.choice(args)
    if origin in (typing.Union, types.UnionType):
        inner = next(arg for arg in args if arg is not type(None))
        return "None" if rng.random() < 0.15 else _draw(rng, inner, wild)
    if origin is tuple:
        return _draw_tuple(rng, args[0], wild)
    if annotation is bool:
        return rng.choice(["True", "False", "0", "1", "true"])
    if annotation is int:
        return str(draw_int(rng, wild))
    if annotation is float:
        return rng.choice(_FLOATS)
    return rng.choice(_STRINGS)


def _draw_tuple(rng: random.Random, element: Any, wild: float) -> str:
    draw = rng.random()
    if draw < 0.03:
        return "(" + ", ".join(["1"] * rng.choice([33, 64, 65, 1000, 20000])) + ")"
    count = rng.choice([0, 1, 1, 2, 2, 2, 2, 3, 3, 4, 5, 8, 33])
    items = [_draw(rng, element, wild) for _ in range(count)]
    if draw < 0.4:  # all the same: kernels, pads and reps are
        items = items[:1] * count
    if draw > 0.98:
        return rng.choice(items or ["()"])  # bare
    return f"({', '.join(items)}{',' if count == 1 else ''})"


def draw_shape_text(rng: random.Random) -> str:
    """A `__shape__`: known, partly known, empty, enormous."""
    rank = rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 6, 9, 33, 64])
    wild = rng.choice([0.0, 0.0, 0.0, 0.2, 0.7])
    dims = [draw_int(rng, wild) for _ in range(rank)]
    if rng.random() < 0.5:
        dims = [max(dim, 1) for dim in dims]
    return rng.choice(
        [value_to_text(tuple(dims)), value_to_text(tuple(dims)), str(list(dims)), "None"][: 3 + (rank < 2)]
    )


def draw_hint(rng: random.Random, key: str) -> str:
    """A variable's hint: what MXNet's attributes of that name hold, and what they could."""
    match key:
        case "__shape__":
            return draw_shape_text(rng)
        case "__dtype__":
            return rng.choice([*DTYPE_CODES, *map(str, DTYPE_CODES.values()), "-1"])
        case "__init__":
            return rng.choice(
                ['["zero", {}]', '["constant", {"value": 1e308}]', "zero", "[]", '["xavier"]', "{}", "\0"]
            )
        case "__storage_type__":
            return rng.choice(["-1", "0", "1", "2", "default", "csr", "row_sparse"])
        case "__lr_mult__" | "__wd_mult__":
            return rng.choice(_FLOATS)
    return rng.choice([*_STRINGS, *_FLOATS, "True", "(2, 3)"])
