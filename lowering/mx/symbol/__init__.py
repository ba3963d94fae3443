"""`mx.sym`: the functions of `symjax_nnvm.symbol`, whose symbols can be bound and evaluated here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import symjax_nnvm.symbol as symbols
from lowering.mx.functions import Wrapped, like
from lowering.mx.symbol.bound import Symbol as Symbol
from lowering.mx.symbol.bound import as_symbol as as_symbol


def _bindable(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose symbols are those of this module."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return as_symbol(function(*args, **kwargs))

    return like(function, call)


Variable = var = _bindable(symbols.Variable)
Group = _bindable(symbols.Group)
load = _bindable(symbols.load)
load_json = fromjson = _bindable(symbols.load_json)


def zeros(shape: Any, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Zeros, float32 unless dtype says another, which MXNet's function writes into the graph."""
    return as_symbol(symbols.function_named("zeros")(**{"shape": shape, "dtype": dtype or "float32", **kwargs}))


def ones(shape: Any, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Ones likewise."""
    return as_symbol(symbols.function_named("ones")(**{"shape": shape, "dtype": dtype or "float32", **kwargs}))


contrib = Wrapped(symbols.contrib, _bindable)
linalg = Wrapped(symbols.linalg, _bindable)
random = Wrapped(symbols.random, _bindable)
sparse = Wrapped(symbols.sparse, _bindable)
image = Wrapped(symbols.image, _bindable)


def __getattr__(name: str) -> Callable[..., Any]:
    function = globals()[name] = _bindable(getattr(symbols, name))
    return function


def _function(name: str) -> Callable[..., Any]:
    return globals().get(name) or __getattr__(name)


Symbol._operator_function = staticmethod(_function)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(symbols)})
