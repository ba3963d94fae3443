"""Operator functions: `sym.FullyConnected(...)`, made from the registry on first use.

The signature is MXNet's: the operator's inputs, then its parameters in declaration order, then `name=`, `attr=`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from symjax_nnvm.errors import NotASymbolError, SymbolTypeError, SymbolValueError
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.params import LEFT_OUT, value_to_text
from symjax_nnvm.ir.types import dtype_name
from symjax_nnvm.ops.formulas import formula_of
from symjax_nnvm.symbol.hidden_keys import hidden_key
from symjax_nnvm.symbol.python_operators import is_scalar
from symjax_nnvm.symbol.scope import AttrScope
from symjax_nnvm.symbol.signatures import signature_of
from symjax_nnvm.symbol.symbol import Symbol, create_operator

OperatorFunction = Callable[..., Symbol]

SCALAR_FUNCTIONS: dict[str, tuple[str, str, str]] = {
    # function: (operator of two symbols, with a scalar on the right, with a scalar on the left), under the names that
    # MXNet calls them by, since automatic names come from those.
    "pow": ("_Power", "_PowerScalar", "_RPowerScalar"),
    "power": ("_Power", "_PowerScalar", "_RPowerScalar"),
    "maximum": ("_Maximum", "_MaximumScalar", "_MaximumScalar"),
    "minimum": ("_Minimum", "_MinimumScalar", "_MinimumScalar"),
    "hypot": ("_Hypot", "_HypotScalar", "_HypotScalar"),
}
"""MXNet's module functions that take symbols and numbers in either place."""

OF_NODES = "name: the node's name; automatic when left out. attr: user attributes, text to text."
"""What the documentation of every function ends with."""

# MXNet's Python wrappers name these nodes after the operator they call.
_HINTS = {"zeros": "_zeros", "ones": "_ones", "full": "_full", "arange": "_arange"}

_DIALECT_PREFIX = re.compile("^_np[ix]?_")
"""Of the names of the NumPy dialect's operators, which Python's functions do not have."""


@cache
def function_named(name: str) -> OperatorFunction:
    """Return the function of a registered operator by one of its names. Raises OpNotRegisteredError."""
    return operator_function(Op.get(name), name)


def operator_function(op: Op, name: str) -> OperatorFunction:
    """Return the function that creates nodes of an operator under one of its names.

    Raises what composing raises (ComposeError), ParamError for parameters, SymbolTypeError for arguments of the wrong
    kind.
    """
    hint = _HINTS.get(name) or _DIALECT_PREFIX.sub("", name).lower()
    schema = op.params
    # MXNet's criterion is an argument of type `Symbol[]`: inputs without fixed names, whether or not one counts them.
    variadic = not op.inputs and (op.fixed_num_inputs is None or schema is None)
    build = _build_variadic if variadic else _build
    aliases = schema.aliases if schema is not None else {}
    fields = None if op.attr_parser is None or schema is None else schema.fields

    def function(*args: Any, name: str | None = None, attr: Any = None, out: Any = None, **kwargs: Any) -> Symbol:
        if kwargs:
            symbols = {key: value for key, value in kwargs.items() if isinstance(value, Symbol)}
            params = {
                aliases.get(key, key): _param_text(key, value)
                for key, value in kwargs.items()
                if key not in symbols and value is not LEFT_OUT
            }
            for key in symbols:
                if schema is not None and aliases.get(key, key) in schema.fields and key not in op.inputs:
                    raise _no_symbol(op, key, symbols[key])
        else:
            symbols, params = {}, {}
        if name is not None and not isinstance(name, str):
            raise SymbolTypeError("Wrong name of a node", param="name", expected="a text", got=f"{name!r:.80}")
        args, params = build(op, args, symbols, params)
        scope = AttrScope.current
        if attr or not scope.is_empty:
            params |= scope.get(attr)
        if fields is not None and not fields.keys() >= params.keys():
            params = _user_attributes(op, params, name)
        return create_operator(op, args, symbols, params, name, hint)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = _docstring(op, name)
    function.__signature__ = signature_of(op)  # pyright: ignore[reportFunctionMemberAccess]
    if not variadic:
        own = len(op.inputs) + len(schema.fields if schema is not None else ())
        function.own_arguments = own  # pyright: ignore[reportFunctionMemberAccess]
    return function


def _build(op: Op, args: Any, symbols: dict[str, Symbol], params: dict[str, str]) -> Any:
    """Sort positional arguments into inputs and parameters."""
    inputs = op.inputs
    for key in inputs:
        if key in params:
            if params[key] != "None":
                raise _not_a_symbol(f"Argument {key}", params[key])
            del params[key]
    if len(args) <= len(inputs):
        for arg in args:
            if not isinstance(arg, Symbol):
                break
        else:
            if symbols:
                _check_twice(op, inputs[: len(args)], symbols)
            return args, params
    positional: list[Symbol] = []
    names = [*inputs, *(op.params.fields if op.params is not None else ())]
    if len(args) > len(names):
        raise SymbolTypeError(
            f"{op.name} takes {len(names)} positional arguments", expected=", ".join(names), got=len(args)
        )
    for key, arg in zip(names, args, strict=False):
        if key not in inputs:
            if isinstance(arg, Symbol):
                raise _no_symbol(op, key, arg)
            if key in params:
                raise SymbolTypeError(f"{op.name} got two values for parameter {key}")
            if arg is not LEFT_OUT:
                params[key] = _param_text(key, arg)
        elif isinstance(arg, Symbol):
            if len(positional) == names.index(key):
                positional.append(arg)
            else:
                _check_twice(op, (key,), symbols)
                symbols[key] = arg
        elif arg is not None:
            raise _not_a_symbol(f"Argument {key}", arg)
    _check_twice(op, inputs[: len(positional)], symbols)
    return positional, params


def _param_text(key: str, value: object) -> str:
    """Return the text of a parameter. A dtype may be spelled in any of NumPy's ways: `f2`, `<i4`, `half`."""
    if key == "dtype" and isinstance(value, str | type | np.dtype):
        try:
            return dtype_name(value)
        except ValueError:  # the parameter refuses it, and lists what it takes
            return value if isinstance(value, str) else getattr(value, "__name__", str(value))
    return value_to_text(value)


def _not_a_symbol(argument: str, value: object) -> NotASymbolError:
    """Return the error for a value in place of a symbol, with the way to make one of it."""
    array = hasattr(value, "shape") and hasattr(value, "dtype")
    if isinstance(value, (list, tuple)) and any(isinstance(item, Symbol) for item in value):
        shown, way = f"a {type(value).__name__} of them", "Pass them one by one: op(*symbols)."
    else:
        shown = f"an array of shape {value.shape}" if array else repr(value)[:80]  # type: ignore[attr-defined]
        way = "Put symbol.Variable(name) into the graph, and pass the array when the graph runs."
    error = NotASymbolError(f"{argument} must be Symbol instances, but got {shown}. {way}")
    error.argument, error.value = argument, value
    return error


def _no_symbol(op: Op, key: str, symbol: Symbol) -> SymbolTypeError:
    return SymbolTypeError(
        f"Parameter {key} of {op.name} takes a value, but got the symbol {symbol!r}: a parameter is fixed when the "
        "graph is built, and cannot be what the graph calculates. Pass the value itself; where it is the shape of "
        "another array, operators such as reshape_like, broadcast_like and slice_like take that array."
    )


def _check_twice(op: Op, names: Any, symbols: dict[str, Symbol]) -> None:
    for key in names:
        if key in symbols:
            raise SymbolTypeError(f"{op.name} got two values for input {key}")


def _build_variadic(op: Op, args: Any, symbols: dict[str, Symbol], params: dict[str, str]) -> Any:
    """Count the positional inputs, unless the user did or the operator leaves that to other parameters."""
    for arg in args:
        if not isinstance(arg, Symbol):
            raise _not_a_symbol("Positional arguments", arg)
    if args and symbols:
        raise SymbolTypeError(
            "Operators with variable length input can only accept inputSymbols either as positional or keyword "
            "arguments, not both"
        )
    count = op.key_var_num_args
    if count is not None and count not in params:
        params[count] = str(len(args) or len(symbols))
    return args, params


def _user_attributes(op: Op, params: dict[str, str], name: str | None) -> dict[str, str]:
    """Respell hidden keys; refuse what is neither a parameter nor a user attribute, where MXNet does."""
    assert op.params is not None
    checked: dict[str, str] = {}
    for key, value in params.items():
        if key not in op.params.fields:
            key = hidden_key(key)
            if not op.params.any_key and not (len(key) >= 5 and key.startswith("__") and key.endswith("__")):
                raise op.params.unknown(key, op, name)
        if not isinstance(value, str):
            raise SymbolValueError(f"Attributes need to be string, but {key} is {value!r}")
        checked[key] = value
    return checked


def scalar_function(name: str, lookup: Callable[[str], OperatorFunction]) -> OperatorFunction:
    """Return a row of SCALAR_FUNCTIONS as a function of two operands, at least one of them a symbol."""
    symbols, right_scalar, left_scalar = SCALAR_FUNCTIONS[name]

    def function(left: Symbol | float, right: Symbol | float, name: str | None = None) -> Any:
        match left, right:
            case Symbol(), Symbol():
                return lookup(symbols)(left, right, name=name)
            case Symbol(), _ if is_scalar(right):
                return lookup(right_scalar)(left, scalar=right, name=name)
            case _, Symbol() if is_scalar(left):
                return lookup(left_scalar)(right, scalar=left, name=name)
        raise SymbolTypeError(f"types ({type(left)}, {type(right)}) not supported: one operand must be a symbol")

    function = with_operands_named(name, function)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{symbols}` of two symbols, or of a symbol and a number in either place."
    return function


def with_operands_named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of two operands; that of a power names them base and exp, as MXNet does."""
    if name not in ("pow", "power"):
        return function

    def power(base: Any, exp: Any, **kwargs: Any) -> Any:
        return function(base, exp, **kwargs)

    return power


def _docstring(op: Op, name: str) -> str:
    lines = [op.description or f"The operator {op.name}.", "", *(f"    {line}" for line in formula_of(op.name)), ""]
    if name != op.name:
        lines += [f"Another name of `{op.name}`.", ""]
    lines += [f"{a.name}: {a.type}. {a.description}".rstrip() for a in op.arguments]
    return "\n".join([*lines, OF_NODES])
