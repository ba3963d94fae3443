"""Shapes and dtypes, known or partly known, and their spellings at the borders.

Inside the library a shape is a tuple whose unknown dimensions are None; an unknown rank is None itself. A dtype is its
NumPy name (`"float32"`, also `"bfloat16"`); an unknown dtype is None. MXNet writes 0, -1, `()` and numeric codes for
the same things: the functions here translate, and nothing else does.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

Dim = int | None
Shape = tuple[Dim, ...]
"""A shape of known rank; None stands for an unknown dimension. An unknown rank is `None`, typed `Shape | None`."""

DType = str
"""A dtype's NumPy name. An unknown dtype is `None`, typed `DType | None`."""

DTYPE_CODES: dict[DType, int] = {
    "float32": 0,
    "float64": 1,
    "float16": 2,
    "uint8": 3,
    "int32": 4,
    "int8": 5,
    "int64": 6,
    "bool": 7,
    "int16": 8,
    "uint16": 9,
    "uint32": 10,
    "uint64": 11,
    "bfloat16": 12,
}
"""MXNet's dtype numbers (mshadow's type flags), as stored in `__dtype__` and in `.params` files."""

FLOAT_DTYPES = frozenset({"float32", "float64", "float16", "bfloat16"})

MAX_RANK = 64
"""The most dimensions an array may have: NumPy's limit. A number in a file must not decide how long a tuple is."""

MAX_SIZE = (1 << 63) - 1
"""The most bytes, as of anything that is counted: what an int64 holds."""

MAX_ELEMENTS = MAX_SIZE // 16
"""The most elements of an array of any dtype: 16 bytes each, complex128's, which float64 becomes in a Fourier
transform. XLA ends the process when an array has more than `MAX_SIZE` bytes."""

_NAME_OF_CODE = {code: name for name, code in DTYPE_CODES.items()}


class ShapeList(list[Shape | None]):
    """A graph attribute of one shape per entry or input; JSON writes it as NNVM's `list_shape`."""


class DTypeList(list[DType | None]):
    """A graph attribute of one dtype per entry or input; JSON writes it as dtype codes, NNVM's `list_int`."""


def is_float(dtype: DType | None) -> bool:
    """Return whether the dtype is a floating-point one (an unknown dtype is not)."""
    return dtype in FLOAT_DTYPES


def default_dtype() -> DType:
    """Return the dtype of an input that declares none: float32, as in MXNet."""
    return "float32"


def dtype_name(value: Any) -> DType:
    """Return the name of a dtype given as a name, a NumPy dtype or type, or an MXNet code.

    Raises ValueError for anything that is not one of MXNet's dtypes.
    """
    if isinstance(value, str) and value in DTYPE_CODES:
        return value
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        name = dtype_from_code(int(value))
        if name is None:
            raise ValueError("unknown dtype code -1")
        return name
    try:
        dtype = np.dtype(value)  # pyright: ignore[reportCallIssue, reportArgumentType]
        name = "bfloat16" if dtype.names == ("bfloat16",) else dtype.name  # MXNet's is a record with one field
    except TypeError:
        name = getattr(value, "__name__", str(value))  # ml_dtypes.bfloat16 without importing ml_dtypes
    if name not in DTYPE_CODES:
        raise ValueError(f"unknown dtype {value!r}; known are {', '.join(DTYPE_CODES)}")
    return name


def dtype_code(dtype: DType | None) -> int:
    """Return MXNet's number of a dtype; -1 when unknown."""
    return -1 if dtype is None else DTYPE_CODES[dtype]


def dtype_from_code(code: int) -> DType | None:
    """Return the dtype of an MXNet number; None for -1. Raises ValueError for an unknown number."""
    if code == -1:
        return None
    if code not in _NAME_OF_CODE:
        raise ValueError(f"unknown dtype code {code}; known are {sorted(_NAME_OF_CODE)}")
    return _NAME_OF_CODE[code]


def numpy_type(dtype: DType | None) -> Any:
    """Return the NumPy scalar type that MXNet's `infer_type` reports; `"bfloat16"`, which NumPy lacks, stays a name."""
    if dtype is None or dtype == "bfloat16":
        return dtype
    return np.dtype(dtype).type


def whole_number(value: Any) -> int:
    """Return a whole number, Python's, NumPy's, or of any type with `__index__`, as an int. Raises TypeError, of bools
    too."""
    if isinstance(value, bool | np.bool_):
        raise TypeError("a bool is not a number")
    return operator.index(value)


def is_known(shape: Shape | None) -> bool:
    """Return whether rank and every dimension are known."""
    return shape is not None and None not in shape


def shape_size(shape: Shape) -> int:
    """Return the number of elements of a fully known shape."""
    size = 1
    for dim in shape:
        if dim is None:
            raise ValueError(f"shape {shape} has an unknown dimension")
        size *= dim
    return size


def shape_problem(shape: Shape, item_size: int = 1) -> str | None:
    """Return why no array can have this shape, whatever its unknown dimensions are; None if one can.

    Symbolic dimensions, which an exported program leaves open, count as unknown ones do. item_size: the size of an
    element of a dtype, where an array of `MAX_ELEMENTS` bytes, counted without empty axes, is the limit.
    """
    if len(shape) > MAX_RANK:
        return f"a shape of {len(shape)} dimensions, expected at most {MAX_RANK}"
    size = item_size
    for dim in shape:
        if isinstance(dim, int):
            if dim < 0:
                return f"a shape with a dimension of {dim}"
            size *= dim or 1
    if size > MAX_ELEMENTS:
        return f"a shape of more than {MAX_ELEMENTS} elements, or 2⁶³ bytes"
    return None


def merge_shapes(a: Shape | None, b: Shape | None) -> Shape | None:
    """Return the shape with every size that either has. Raises ValueError when they contradict each other."""
    if a is None or a == b:
        return b
    if b is None:
        return a
    if len(a) != len(b) or any(x != y for x, y in zip(a, b, strict=True) if x is not None and y is not None):
        raise ValueError(f"{a} and {b} are different shapes")
    return tuple(y if x is None else x for x, y in zip(a, b, strict=True))


def merge_dtypes(a: DType | None, b: DType | None) -> DType | None:
    """Return the dtype that either has. Raises ValueError when they contradict each other."""
    if a is None or a == b:
        return b
    if b is None:
        return a
    raise ValueError(f"{a} and {b} are different dtypes")


def merge_narrowed(a: DType | None, b: DType | None) -> DType | None:
    """Return `merge_dtypes` where 64 bits are 32: dtypes that differ only in that are one."""
    if a is None or b is None or _narrowed(a) != _narrowed(b):
        return merge_dtypes(a, b)
    return a


def _narrowed(dtype: DType) -> DType:
    return f"{dtype[:-2]}32" if dtype.endswith("64") else dtype


def shape_from_legacy(dims: Sequence[int]) -> Shape | None:
    """A shape from MXNet's legacy convention: `()` is an unknown shape, 0 and -1 are unknown dimensions."""
    return tuple(d if d > 0 else None for d in dims) if len(dims) else None


def shape_to_legacy(shape: Shape | None) -> tuple[int, ...]:
    """A shape in MXNet's legacy convention: an unknown shape is `()`, an unknown dimension 0."""
    return () if shape is None else tuple(d or 0 for d in shape)


def shape_from_numpy(dims: Sequence[int] | None) -> Shape | None:
    """A shape from MXNet's convention under `np_shape`: None is an unknown shape, -1 an unknown dimension."""
    return None if dims is None else tuple(None if d == -1 else d for d in dims)


def shape_to_numpy(shape: Shape | None) -> tuple[int, ...] | None:
    """A shape in MXNet's convention under `np_shape`: an unknown shape is None, an unknown dimension -1."""
    return None if shape is None else tuple(-1 if d is None else d for d in shape)


_SHAPE_TEXT = re.compile(r"\s*(?:[(\[](?P<items>[^()\[\]]*)[)\]]|(?P<bare>[+-]?\d{1,4300}))\s*")
_DIM_TEXT = re.compile(r"[+-]?\d{1,4300}L?")  # Python's int reads no more digits


def parse_shape(text: str) -> tuple[int, ...]:
    """Return integers from MXNet's tuple grammar: `(2, 3)`, `[2,3,]`, `(3L,)`, a bare `5`, `()`.

    Raises ValueError for anything else. Never evaluates the text.
    """
    match = _SHAPE_TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"{_brief(text)} is not a tuple of integers")
    if match["bare"] is not None:
        return (int(match["bare"]),)
    items = match["items"].split(",")
    if not items[-1].strip():
        items.pop()
    dims = [item.strip() for item in items]
    if len(dims) > MAX_RANK:
        raise ValueError(f"{_brief(text)} has {len(dims)} elements, more than {MAX_RANK}")
    if not all(_DIM_TEXT.fullmatch(dim) for dim in dims):
        raise ValueError(f"{_brief(text)} is not a tuple of integers")
    return tuple(int(dim.rstrip("L")) for dim in dims)


def _brief(text: str) -> str:
    return repr(text) if len(text) <= 80 else f"{text[:77]!r}…"


def format_shape(shape: Shape | None) -> str:
    """Return a shape for people: `(2, ?, 3)`, or `unknown`."""
    if shape is None:
        return "unknown"
    dims = ", ".join("?" if d is None else str(d) for d in shape)
    return f"({dims},)" if len(shape) == 1 else f"({dims})"
