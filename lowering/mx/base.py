"""`mx.base`: the error, the groups of types and the C types that scripts name. There is no C library behind them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from lowering.mx.libinfo import __version__ as __version__
from symjax_nnvm.errors import MXNetError as MXNetError
from symjax_nnvm.errors import NotImplementedForSymbol as NotImplementedForSymbol
from symjax_nnvm.errors import UnknownAttributeError
from symjax_nnvm.ir.params import LEFT_OUT

integer_types = (int, int, np.int32, np.int64)
numeric_types = (float, int, int, np.generic)
string_types = (str,)
error_types: dict[str, type[BaseException]] = {}
"""The classes of errors by name, which `register_error` fills."""

mx_int, mx_uint, mx_int64 = ctypes.c_int, ctypes.c_uint, ctypes.c_int64
mx_float, mx_float_p = ctypes.c_float, ctypes.POINTER(ctypes.c_float)
mx_real_t = np.float32
"""The default type of arrays."""

NDArrayHandle = SymbolHandle = ExecutorHandle = KVStoreHandle = CachedOpHandle = RecordIOHandle = ctypes.c_void_p

_Null = LEFT_OUT
"""The value of a parameter that was left out."""


class _NoLibrary:
    """Stands for MXNet's C library: every name of it is refused with words."""

    def __getattr__(self, name: str) -> NoReturn:
        fix = "There is no C library here: call the function of mx instead."
        raise UnknownAttributeError(f"mx.base._LIB has no function {name!r}", fix=fix)


_LIB = _NoLibrary()


def check_call(ret: int) -> None:
    """Raise MXNetError unless a C function returned 0."""
    if ret != 0:
        raise MXNetError("A C function failed", got=f"the code {ret}")


def register_error(func_name: Any = None, cls: Any = None) -> Any:
    """Keep a class of errors in `error_types`, under its name or the name given. Also a decorator."""
    if callable(func_name):
        func_name, cls = None, func_name

    def register(registered: Any) -> Any:
        error_types[func_name or registered.__name__] = registered
        return registered

    return register if cls is None else register(cls)


def data_dir() -> str:
    """The folder of downloads: the environment's MXNET_HOME, or .mxnet in the home folder."""
    return os.environ.get("MXNET_HOME", str(Path.home() / ".mxnet"))


def py_str(x: bytes | str) -> str:
    """Bytes as text, read as UTF-8; text is returned as it is, because monitors receive text here."""
    return x if isinstance(x, str) else x.decode("utf-8")


def c_str(string: str) -> ctypes.c_char_p:
    """A text as C's."""
    return ctypes.c_char_p(string.encode("utf-8"))


def c_str_array(strings: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    """Texts as C's."""
    return (ctypes.c_char_p * len(strings))(*(string.encode("utf-8") for string in strings))


def c_array(ctype: Any, values: Sequence[Any]) -> ctypes.Array[Any]:
    """Values as an array of a C type."""
    return (ctype * len(values))(*values)


def c_array_buf(ctype: Any, buf: Any) -> ctypes.Array[Any]:
    """The memory of a buffer, such as an `array.array`, as an array of a C type."""
    return (ctype * len(buf)).from_buffer(buf)


def classproperty(func: Callable[[Any], Any]) -> Any:
    """A property of the class itself."""
    return _ClassProperty(func)


class _ClassProperty:
    def __init__(self, function: Callable[[Any], Any]):
        self._function = function

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self._function(owner)


def _as_list(obj: Any) -> list[Any] | tuple[Any, ...]:
    """Return itself, if it is a list or a tuple; else a list of it."""
    return obj if isinstance(obj, list | tuple) else [obj]
