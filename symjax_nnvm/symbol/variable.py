"""`Variable` and `Group`: the symbols that are not operators."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from symjax_nnvm.errors import NotImplementedForSymbol, SymbolTypeError, SymbolValueError
from symjax_nnvm.ir.params import value_to_text
from symjax_nnvm.ir.types import dtype_code, dtype_name
from symjax_nnvm.symbol.hidden_keys import hidden_key
from symjax_nnvm.symbol.scope import AttrScope
from symjax_nnvm.symbol.symbol import Symbol


def Variable(
    name: str,
    attr: Mapping[str, str] | None = None,
    shape: Sequence[int] | int | None = None,
    lr_mult: float | None = None,
    wd_mult: float | None = None,
    dtype: Any = None,
    init: Any = None,
    stype: str | int | None = None,
    **kwargs: str,
) -> Symbol:
    """Make a variable: an input, a parameter or an auxiliary state, depending on the operator that uses it.

    Args:
        name: the variable's name.
        attr: attributes, as text.
        shape: the declared shape, or the size of the only axis; 0 and -1 are unknown dimensions.
        lr_mult: multiplier of the learning rate, which optimisers read.
        wd_mult: multiplier of the weight decay, which optimisers read.
        dtype: the declared dtype.
        init: the initialiser: its text, or an object with a method `dumps()`.
        stype: the storage type.
        kwargs: further attributes, whose names must have the form `__key__`.

    Raises:
        SymbolTypeError: `name` is not a string, `shape` is not a shape, or `dtype` is not a dtype.
        SymbolValueError: a value in `attr` is not a string, or a further attribute's name does not have the form
            `__key__`.
    """
    if not isinstance(name, str):
        raise SymbolTypeError(f"Expect a string for variable `name`, got {type(name).__name__}")
    attrs = AttrScope.current.get(attr)
    for key, value in attrs.items():
        if not isinstance(value, str):
            raise SymbolValueError(f"Attributes need to be string, but {key} is {value!r}")
    if not (init is None or isinstance(init, str) or hasattr(init, "dumps")):
        raise SymbolTypeError("Wrong initialiser", param="init", expected="a text, or an Initializer", got=repr(init))
    declared = {
        "shape": _shape_text(shape),
        "lr_mult": lr_mult,
        "wd_mult": wd_mult,
        "dtype": None if dtype is None else dtype_code(_variable_dtype(dtype)),
        "init": init if init is None or isinstance(init, str) else init.dumps(),
        "storage_type": None if stype is None else _storage_code(stype),
    }
    attrs |= {f"__{key}__": str(value) for key, value in declared.items() if value is not None}
    for key, value in kwargs.items():
        if not (key.startswith("__") and key.endswith("__")):
            raise SymbolValueError(
                f"Attribute name={key} is not supported. Additional attributes must start and end with double "
                "underscores, e.g, __yourattr__"
            )
        attrs[key] = str(value)
    symbol = Symbol.create_variable(name)
    symbol.set_attrs({hidden_key(key, exact=True): value for key, value in attrs.items()})
    return symbol


def _shape_text(shape: Any) -> str | None:
    if shape is None:
        return None
    if isinstance(shape, list):  # MXNet writes the brackets that it was given
        return f"[{', '.join(map(value_to_text, shape))}]"
    if isinstance(shape, str):
        return shape
    if not isinstance(shape, Iterable):
        try:
            return value_to_text(operator.index(shape))
        except TypeError:
            got = f"{shape!r} of {type(shape).__name__}"
            raise SymbolTypeError("shape of a variable", expected="a tuple of sizes, or one size", got=got) from None
    return value_to_text(tuple(shape))


var = Variable

_STORAGE_CODES = {"undefined": -1, "default": 0, "row_sparse": 1, "csr": 2}


def _storage_code(stype: str | int) -> int:
    """Return the number that files have for a storage type, given by its name or number."""
    code = _STORAGE_CODES.get(stype) if isinstance(stype, str) else stype
    if code is None or code not in _STORAGE_CODES.values():
        raise SymbolValueError(f"No such storage type: stype={stype!r}; one of {', '.join(_STORAGE_CODES)}")
    return code


def _variable_dtype(dtype: Any) -> str:
    try:
        return dtype_name(dtype)
    except ValueError as error:
        raise SymbolTypeError(f"dtype of a variable: {error}") from None


def Group(symbols: Iterable[Symbol]) -> Symbol:
    """Make one symbol of all outputs of several symbols.

    Args:
        symbols: the symbols, in the order of the outputs.

    Raises:
        SymbolTypeError: the list is empty, or an element is not a symbol.
        NotImplementedForSymbol: `symbols` is one symbol.
    """
    if isinstance(symbols, Symbol):
        raise NotImplementedForSymbol("Group takes a list of symbols, not a symbol.")
    members = list(symbols) if isinstance(symbols, Iterable) else []
    if not members or any(not isinstance(symbol, Symbol) for symbol in members):
        raise SymbolTypeError("Expected a list of symbols as input")
    return Symbol.create_group(members)
