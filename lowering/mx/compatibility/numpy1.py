"""Names that NumPy 2 dropped, given back to a process that runs old scripts: `np.float`, `np.product`, `np.fromstring`.

Only names with one meaning: what NumPy still has, under any version from 2.0 on, stays as it is; what belonged to
NumPy's own making (its C constants, errors as objects, docstrings) is not given back. A name is made when it is first
used, and the first one is reported in one line on the standard error.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
import os
import pickle
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import FrameType, ModuleType
from typing import Any

import numpy as np
from numpy.ma.mrecords import MaskedRecords

from lowering.mx.accepted_types import DType

_LINE = (
    "NumPy 2 removed {name}; this process restores it and {count} names in all, as NumPy 1 had them "
    "(to run without them: python -m lowering.mx --numpy2, or lowering.mx.install() without numpy1=True)."
)
_told: list[str] = []
"""The names that were used."""


_NEWER_RULES = {
    "only 0-dimensional arrays can be converted to Python scalars": (
        'NumPy 2.4 no longer makes a number of an array of one element: pip install "numpy<2.4", or x.item() instead '
        "of int(x) and float(x)."
    ),
    "inhomogeneous shape": "Since NumPy 1.24 lists of different lengths need np.array(lists, dtype=object).",
}
"""Messages of NumPy about what it did before → the way out. No name can restore these."""


def way_out(error: BaseException) -> str | None:
    """The way out of an error of NumPy about what NumPy 1.23 did; None for other errors."""
    return next((fix for words, fix in _NEWER_RULES.items() if words in str(error)), None)


def give_back() -> None:
    """Give NumPy, and pandas once it is imported, the names back that they dropped. A second call does nothing."""
    numpy: Any = np
    find_name = numpy.__getattr__
    if getattr(find_name, "__qualname__", "").startswith(give_back.__qualname__):
        return

    def dropped(name: str) -> object:
        if name not in _NAMES:
            return find_name(name)
        with suppress(AttributeError), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of names that may come to mean something else
            return find_name(name)
        if not _is_star(inspect.currentframe()):
            _print_first(f"np.{name}")
        value = _NAMES[name](numpy)
        setattr(numpy, name, value)
        return value

    numpy.__getattr__ = dropped
    numpy.__all__ = [*numpy.__all__, *(name for name in _NAMES if name not in {*numpy.__all__, *_NOT_BY_STAR})]
    numpy.lib.__getattr__ = _of_lib(numpy.lib.__getattr__)
    numpy.linalg.__getattr__ = _of_linalg
    if not _reads_bytes():
        numpy.fromstring = _from_string
    if "pandas" in sys.modules:
        _complete_pandas(sys.modules["pandas"])
    else:
        sys.meta_path.insert(0, _PandasFinder())


def _of_lib(find_name: Callable[[str], object]) -> Callable[[str], object]:
    """Return what finds the functions that NumPy 1 had in `np.lib`, too: `np.lib.pad` is `np.pad`. So are its files:
    `np.lib.arraysetops`."""

    def dropped(name: str) -> object:
        file = vars(np.lib).get(f"_{name}_impl")
        if name not in np.__all__ and file is None:
            return find_name(name)
        with suppress(AttributeError):
            return find_name(name)
        _print_first(f"np.lib.{name}")
        return file or getattr(np, name)

    return dropped


def _of_linalg(name: str) -> object:
    """Return what NumPy 1 had in `np.linalg`, too: itself, under the name of its file."""
    if name != "linalg":
        raise AttributeError(f"module 'numpy.linalg' has no attribute {name!r}")
    _print_first("np.linalg.linalg")
    return np.linalg


def _is_star(frame: FrameType | None) -> bool:
    """Return whether `from numpy import *` called the function of a frame: it reads all names, and SciPy does it."""
    caller = frame and frame.f_back
    return caller is not None and caller.f_code.co_name == "_handle_fromlist" and caller.f_locals["recursive"]


def _print_first(name: str) -> None:
    """Print the first name, and that it was dropped."""
    if not _told:
        print(_LINE.format(name=name, count=len(_NAMES)), file=sys.stderr)
    _told.append(name)


# -- functions and tables ----------------------------------------------------------------------------------------------

_text_from_string: Any = np.fromstring


def _reads_bytes() -> bool:
    """Return whether NumPy's own fromstring still reads bytes, which it does up to version 2.2."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return len(_text_from_string(b"\0", np.uint8)) == 1
        except ValueError:
            return False


def _from_string(
    string: str | bytes, dtype: DType = float, count: int = -1, sep: str = "", *, like: Any = None
) -> np.ndarray:
    """Return the numbers of a text between separators; without one those of bytes, as an array of its own."""
    if sep:
        return _text_from_string(string, dtype, count, sep=sep, like=like)
    _print_first("np.fromstring of bytes")
    buffer = string.encode() if isinstance(string, str) else string
    if not len(buffer) or count == 0:
        return np.empty(0, dtype)
    return np.frombuffer(buffer, dtype, count).copy()


def _in1d(ar1: Any, ar2: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None) -> np.ndarray:
    return np.isin(np.ravel(ar1), ar2, assume_unique, invert, kind=kind)


def _asfarray(a: Any, dtype: DType = np.float64) -> np.ndarray:
    return np.asarray(a, dtype if np.issubdtype(dtype, np.inexact) else np.float64)


def _find_common_type(array_types: Sequence[Any], scalar_types: Sequence[Any]) -> np.dtype | None:
    """Return the dtype of arrays and scalars: the arrays', unless a scalar is of a kind above theirs."""
    arrays, scalars = (np.result_type(*types) if types else None for types in (array_types, scalar_types))
    if arrays is None or scalars is None:
        return arrays or scalars
    kinds = "buifcSUVOMm"
    return np.promote_types(scalars, arrays) if kinds.index(scalars.kind) > kinds.index(arrays.kind) else arrays


def _maximum_sctype(t: Any) -> type:
    """Return the widest type of a type's kind."""
    scalar = np.dtype(t).type
    kind = {"i": "int", "u": "uint", "f": "float", "c": "complex"}.get(np.dtype(t).kind)
    return _sctypes(np)[kind][-1] if kind else scalar


def _is_sctype(rep: Any) -> bool:
    if not isinstance(rep, type | np.dtype):
        return False
    try:
        return np.dtype(rep).kind != "O"
    except TypeError:
        return False


def _records_from_text(fname: Any, **kwargs: Any) -> np.ndarray:
    """Return the lines of a text as records, whose fields are attributes."""
    array = np.genfromtxt(fname, **{"dtype": None, **kwargs})
    return array.view(MaskedRecords if kwargs.get("usemask") else np.recarray)


def _records_from_csv(fname: Any, **kwargs: Any) -> np.ndarray:
    return _records_from_text(fname, **{"case_sensitive": "lower", "names": True, "delimiter": ",", **kwargs})


def _source(object: Any, output: Any = None) -> None:
    """Print the source of a function, a class or a module."""
    try:
        print(f"In file: {inspect.getsourcefile(object)}\n\n{inspect.getsource(object)}", file=output)
    except (TypeError, OSError):
        print("Not available for this object.", file=output)


def _deprecate(func: Any = None, old_name: str | None = None, new_name: str | None = None, message: str = "") -> Any:
    """Return the function with a warning that it is deprecated; without a function return a decorator that does so."""
    if func is None:
        return lambda func: _deprecate(func, old_name, new_name, message)
    warning = f"`{old_name or func.__name__}` is deprecated" + (f", use `{new_name}` instead!" if new_name else "!")

    @functools.wraps(func)
    def warned(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(f"{warning}\n{message}" if message else warning, DeprecationWarning, stacklevel=2)
        return func(*args, **kwargs)

    return warned


class _ByDtype:
    """Gives something for each dtype, by item: `np.cast["float32"](values)`."""

    def __init__(self, of: Callable[[np.dtype], Any]):
        self._of = of

    def __getitem__(self, dtype: DType) -> Any:
        return self._of(np.dtype(dtype))


def _sctypes(numpy: Any) -> dict[str, list[type]]:
    kinds = {
        "int": "int8 int16 int32 int64",
        "uint": "uint8 uint16 uint32 uint64",
        "float": "float16 float32 float64 longdouble",
        "complex": "complex64 complex128 clongdouble",
    }
    types = {kind: [getattr(numpy, name) for name in names.split()] for kind, names in kinds.items()}
    return {**types, "others": [bool, object, bytes, str, np.void]}


_NAMES: dict[str, Callable[[Any], object]] = {
    **{cls.__name__: lambda _, cls=cls: cls for cls in (bool, int, float, complex, object, str)},
    "unicode": lambda _: str,
    **{
        old: lambda numpy, new=new: getattr(numpy, new)
        for new, several in {
            "all": "alltrue",
            "any": "sometrue",
            "asmatrix": "mat",
            "bool_": "bool8",
            "bytes_": "bytes0 string_",
            "clongdouble": "clongfloat longcomplex",
            "complex64": "singlecomplex",
            "complex128": "cfloat complex_",
            "cumprod": "cumproduct",
            "float64": "float_",
            "inf": "Inf Infinity PINF infty",
            "intp": "int0",
            "longdouble": "longfloat",
            "nan": "NAN NaN",
            "ndim": "rank",
            "object_": "object0",
            "prod": "product",
            "round": "round_",
            "str_": "str0 unicode_",
            "trapezoid": "trapz",
            "uintp": "uint0",
            "void": "void0",
            "vstack": "row_stack",
        }.items()
        for old in several.split()
    },
    **{
        name: lambda numpy, name=name: getattr(numpy.exceptions, name)
        for name in (
            *("AxisError", "ComplexWarning", "ModuleDeprecationWarning", "RankWarning", "TooHardError"),
            "VisibleDeprecationWarning",
        )
    },
    **{module.__name__: lambda _, module=module: module for module in (math, os, sys, warnings)},
    "NINF": lambda _: -math.inf,
    "NZERO": lambda _: -0.0,
    "PZERO": lambda _: 0.0,
    "DataSource": lambda numpy: numpy.lib.npyio.DataSource,
    "alen": lambda _: lambda a: len(np.atleast_1d(a)),
    "asfarray": lambda _: _asfarray,
    "asscalar": lambda _: lambda a: a.item(),
    "byte_bounds": lambda numpy: numpy.lib.array_utils.byte_bounds,
    "cast": lambda _: _ByDtype(lambda dtype: lambda values: np.asarray(values).astype(dtype)),
    "compare_chararrays": lambda numpy: numpy.char.compare_chararrays,
    "deprecate": lambda _: _deprecate,
    "deprecate_with_doc": lambda _: lambda msg: _deprecate(message=msg),
    "disp": lambda _: lambda mesg, device=None, linefeed=True: print(mesg, file=device, end="\n" if linefeed else ""),
    "fastCopyAndTranspose": lambda _: lambda a: np.array(a).T.copy(),
    "find_common_type": lambda _: _find_common_type,
    "format_parser": lambda numpy: numpy.rec.format_parser,
    "in1d": lambda _: _in1d,
    "issctype": lambda _: _is_sctype,
    "issubclass_": lambda _: lambda arg1, arg2: isinstance(arg1, type) and issubclass(arg1, arg2),
    "issubsctype": lambda _: np.issubdtype,
    "loads": lambda _: pickle.loads,
    "maximum_sctype": lambda _: _maximum_sctype,
    "msort": lambda _: lambda a: np.sort(a, axis=0),
    "nbytes": lambda _: _ByDtype(lambda dtype: dtype.itemsize),
    "obj2sctype": lambda _: lambda rep: np.dtype(rep).type,
    "recfromcsv": lambda _: _records_from_csv,
    "recfromtxt": lambda _: _records_from_text,
    "safe_eval": lambda _: ast.literal_eval,
    "sctype2char": lambda _: lambda sctype: np.dtype(sctype).char,
    "sctypes": _sctypes,
    "source": lambda _: _source,
    "typeDict": lambda numpy: numpy.sctypeDict,
}
"""Name → what makes its value, of NumPy."""

_NOT_BY_STAR = {"bool", "int", "float", "complex", "object", "str", "unicode", "os", "sys", "warnings"}
"""The names that `from numpy import *` did not give: Python's own words keep their meaning."""


# -- pandas ------------------------------------------------------------------------------------------------------------


class _PandasFinder(MetaPathFinder):
    """Finds pandas once, as others do, and has it completed when it is loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return pandas' own place with a loader that completes it; None for other modules."""
        if fullname != "pandas":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _PandasLoader(spec.loader)
        return spec


class _PandasLoader(Loader):
    """Loads pandas and gives its tables `as_matrix` back."""

    def __init__(self, own: Loader):
        self._own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module as pandas' own loader does."""
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Load, and complete."""
        self._own.exec_module(module)
        _complete_pandas(module)


def _complete_pandas(pandas: Any) -> None:
    """Give tables and columns `as_matrix` back, where they do not have it."""
    for cls in (pandas.DataFrame, pandas.Series):
        if not hasattr(cls, "as_matrix"):
            cls.as_matrix = _as_matrix


def _as_matrix(table: Any, columns: Any = None) -> np.ndarray:
    """Return the values of a table, or of some of its columns."""
    _print_first(f"{type(table).__name__}.as_matrix")
    return (table if columns is None else table[columns]).to_numpy()
