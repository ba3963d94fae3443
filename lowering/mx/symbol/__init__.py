"""`mx.sym`: the functions of `symjax_nnvm.symbol`, whose symbols can be bound and evaluated here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

import symjax_nnvm.symbol as symbols
from lowering.initializer import Initializer
from lowering.messages.counts import checks_flags
from lowering.mx.accepted_types import DType, ShapeLike
from lowering.mx.compatibility.array_functions import OF_NUMBERS, Internal, Wrapped, after_own, function_names, like
from lowering.mx.symbol.runnable import Symbol as Symbol
from lowering.mx.symbol.runnable import as_symbol as as_symbol
from lowering.mx.util import is_np_shape
from symjax_nnvm.ir.listing import input_nodes
from symjax_nnvm.ir.types import parse_shape, shape_from_legacy, shape_to_numpy
from symjax_nnvm.symbol.operator_functions import with_operands_named
from symjax_nnvm.symbol.python_operators import is_scalar
from symjax_nnvm.symbol.symbol import read_text
from symjax_nnvm.symbol.variable import Group as _group


def _bindable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes and returns symbols of this module, and passes such symbols to functions of the
    caller, such as a loop's body. Attributes may be numbers, and initialisers."""

    @after_own(function, name=str, attr=Mapping)
    def call(*args: Any, **kwargs: Any) -> Any:
        named = {name: _given_ours(value) for name, value in kwargs.items()}
        if isinstance(attr := named.get("attr"), Mapping):
            named["attr"] = {key: _text(value) for key, value in attr.items()}
        return as_symbol(function(*map(_given_ours, args), **named))

    return like(function, call)


def _given_ours(value: Any) -> Any:
    """Return a function that gets symbols of this module; anything else as it is."""
    if not isinstance(value, FunctionType | MethodType | partial):
        return value
    return lambda *args, **kwargs: value(*map(as_symbol, args), **kwargs)


_variable = _bindable(symbols.Variable)


@checks_flags
def Variable(name: str, attr: Mapping[str, Any] | None = None, *args: Any, **kwargs: Any) -> Symbol:
    """A variable; see `symjax_nnvm.symbol.Variable`. Attributes may be numbers, and initialisers."""
    return _variable(name, {key: _text(value) for key, value in (attr or {}).items()} or None, *args, **kwargs)


def _text(value: Any) -> Any:
    if isinstance(value, Initializer):
        return value.dumps()
    return str(value) if isinstance(value, int | float) else value


var = Variable


def load(fname: str | Path) -> Symbol:
    """The symbol of a file that MXNet or `Symbol.save` wrote; see `symjax_nnvm.symbol.load`."""
    symbol = as_symbol(symbols.load(fname))
    return _in_numpy_shapes(symbol, read_text(fname)) if is_np_shape() else symbol


def load_json(json_str: str) -> Symbol:
    """The symbol of MXNet's JSON text; see `symjax_nnvm.symbol.load_json`."""
    symbol = as_symbol(symbols.load_json(json_str))
    return _in_numpy_shapes(symbol, json_str) if is_np_shape() else symbol


fromjson = load_json


def _in_numpy_shapes(symbol: Symbol, text: str) -> Symbol:
    """Return a symbol that was just loaded; shapes of a text of the other mode become those of `np_shape`."""
    if "is_np_shape" not in json.loads(text).get("attrs", {}):
        for node in input_nodes(symbol.outputs):
            declared = node.attrs.dict.get("__shape__", "None")
            if declared != "None":
                node.attrs.dict["__shape__"] = str(shape_to_numpy(shape_from_legacy(parse_shape(declared))))
    return symbol


def Group(symbols: Sequence[Any], create_fn: Any = Symbol) -> Symbol:
    """One symbol whose outputs are those of several. create_fn: MXNet's class of the result; nothing to do here."""
    return as_symbol(_group(symbols))


def _made(name: str, dtype: DType, values: Mapping[str, Any], more: Mapping[str, Any]) -> Symbol:
    """Return the symbol of an operator without inputs. MXNet's Python writes defaults into the graph."""
    return as_symbol(getattr(symbols, name)(**{**values, "dtype": dtype or "float32", **more}))


def zeros(shape: ShapeLike, dtype: DType = None, **kwargs: Any) -> Symbol:
    """Zeros, by default float32."""
    return _made("zeros", dtype, {"shape": shape}, kwargs)


def ones(shape: ShapeLike, dtype: DType = None, **kwargs: Any) -> Symbol:
    """Ones, by default float32."""
    return _made("ones", dtype, {"shape": shape}, kwargs)


def full(shape: ShapeLike, val: float, dtype: DType = None, **kwargs: Any) -> Symbol:
    """One value everywhere."""
    return _made("full", dtype, {"shape": shape, "value": float(val)}, kwargs)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: bool = False,
    name: str | None = None,
    dtype: DType = None,
) -> Symbol:
    """Numbers from start to below stop, or from 0 to below start, each of them `repeat` times.

    infer_range: the shape comes from the graph.
    """
    values = {"start": start, "stop": str(stop), "step": step, "repeat": repeat, "infer_range": infer_range}
    return _made("arange", dtype, values, {"name": name})


def linspace(
    start: float, stop: float, num: int, endpoint: bool = True, name: str | None = None, dtype: DType = None
) -> Symbol:
    """`num` numbers from start to stop, which is one of them if endpoint."""
    values = {"start": start, "stop": stop, "num": num, "endpoint": endpoint}
    return _made("linspace", dtype, values, {"name": name})


def eye(N: int, M: int = 0, k: int = 0, dtype: DType = None, **kwargs: Any) -> Symbol:
    """Ones on diagonal k of a matrix (N, M), of (N, N) for M = 0."""
    return _made("eye", dtype, {"N": N, "M": M, "k": k}, kwargs)


contrib = Wrapped("mx.sym", __name__, symbols.contrib, _bindable)
linalg = Wrapped("mx.sym", __name__, symbols.linalg, _bindable)
_internal = op = Internal(__name__, _bindable)
random = Wrapped("mx.sym", __name__, symbols.random, _bindable)
sparse = Wrapped("mx.sym", __name__, symbols.sparse, _bindable)
image = Wrapped("mx.sym", __name__, symbols.image, _bindable)


def _or_of_numbers(name: str) -> Callable[..., Any]:
    """Return a function of symbols and numbers, also of two numbers."""
    symbols_, numbers = _bindable(getattr(symbols, name)), OF_NUMBERS[name]

    def function(left: Any, right: Any, **kwargs: Any) -> Any:
        return numbers(left, right) if is_scalar(left) and is_scalar(right) else symbols_(left, right, **kwargs)

    return like(symbols_, with_operands_named(name, function))


power, pow, maximum, minimum, hypot = map(_or_of_numbers, ("power", "pow", "maximum", "minimum", "hypot"))


def __getattr__(name: str) -> Callable[..., Any]:
    function = globals()[name] = _bindable(getattr(symbols, name))
    return function


def _function(name: str) -> Callable[..., Any]:
    return globals().get(name) or __getattr__(name)


Symbol._operator_function = staticmethod(_function)


def __dir__() -> list[str]:
    return sorted({*globals(), *function_names()})
