"""Python's operators on symbols: one row each (MXNet's spellings; two symbols combine without broadcasting)."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from symjax_nnvm.errors import NotImplementedForSymbol, SymbolTypeError

BINARY_OPERATORS: dict[str, tuple[str, str, str | None]] = {
    # method: (operator of two symbols, operator with a scalar on the right, with a scalar on the left)
    "add": ("elemwise_add", "_plus_scalar", "_plus_scalar"),
    "sub": ("elemwise_sub", "_minus_scalar", "_rminus_scalar"),
    "mul": ("elemwise_mul", "_mul_scalar", "_mul_scalar"),
    "truediv": ("elemwise_div", "_div_scalar", "_rdiv_scalar"),
    "mod": ("_mod", "_mod_scalar", "_rmod_scalar"),
    "pow": ("_power", "_power_scalar", "_rpower_scalar"),
    "eq": ("_equal", "_equal_scalar", None),
    "ne": ("_not_equal", "_not_equal_scalar", None),
    "gt": ("_greater", "_greater_scalar", None),
    "ge": ("_greater_equal", "_greater_equal_scalar", None),
    "lt": ("_lesser", "_lesser_scalar", None),
    "le": ("_lesser_equal", "_lesser_equal_scalar", None),
}
"""Python turns `1 > x` into `x < 1` by itself, so comparisons need no left-scalar form."""

# MXNet names an unnamed `x + y` after the Python function it called, not after the canonical operator.
_HINTS = {"elemwise_add": "_plus", "elemwise_sub": "_minus", "elemwise_mul": "_mul", "elemwise_div": "_div"}

# MXNet's Python reaches these operators under their own names, the others as `_PlusScalar`, `_MulScalar`, ….
_KEEP_NAME = {"_rpower_scalar", *(right for _, right, left in BINARY_OPERATORS.values() if left is None)}


def is_scalar(value: object) -> bool:
    """Return whether a Python or NumPy number that arithmetic accepts (booleans are not)."""
    return isinstance(value, (numbers.Number, np.number)) and not isinstance(value, (bool, np.bool_))


def hint_of(op: str) -> str:
    """Return the automatic-name hint of an arithmetic operator: `_plus`, `_mulscalar`, `_equal_scalar`, …."""
    return op if op in _KEEP_NAME else _HINTS.get(op) or op.replace("_scalar", "scalar")


def _method(row: str, *, reflected: bool = False) -> Callable[[Any, object], Any]:
    """Return the method of a row of the table. reflected: the symbol stands on the right.

    It raises SymbolTypeError for an operand that is neither a symbol nor a number.
    """
    symbols, right_scalar, left_scalar = BINARY_OPERATORS[row]
    scalar = left_scalar if reflected else right_scalar
    assert scalar is not None

    def method(self: Arithmetic, other: object) -> Any:
        if isinstance(other, Arithmetic):
            return self._operator(symbols, (self, other), {}, hint_of(symbols))
        text = self._scalar(other)
        if text is None:
            raise SymbolTypeError(f"type {type(other)} not supported: {self._operands}")
        return self._operator(scalar, (self,), {"scalar": text}, hint_of(scalar))

    return method


def _from_either_side(row: str) -> tuple[Callable[[Any, object], Any], Callable[[Any, object], Any]]:
    return _method(row), _method(row, reflected=True)


class Arithmetic:
    """Python's operators; a symbol inherits them and defines how an operator node is made."""

    __slots__ = ()

    _operands = (
        "a symbol combines with symbols and numbers. An array becomes an input: make a symbol.Variable(name) of it, "
        "and give it when the graph runs."
    )
    """What combines with what, for the error."""

    def _scalar(self, value: object) -> str | None:
        """Return the text of a number that combines with it; None for all else."""
        return str(value) if is_scalar(value) else None

    def _operator(self, op: str, symbols: tuple[Any, ...], params: dict[str, str], hint: str) -> Any:
        """Make a node of an operator, named after the hint."""
        raise NotImplementedError

    __add__, __radd__ = _from_either_side("add")
    __sub__, __rsub__ = _from_either_side("sub")
    __mul__, __rmul__ = _from_either_side("mul")
    __truediv__, __rtruediv__ = _from_either_side("truediv")
    __mod__, __rmod__ = _from_either_side("mod")
    __pow__, __rpow__ = _from_either_side("pow")
    __eq__: Callable[..., Any] = _method("eq")  # or else checkers take that of object
    __ne__: Callable[..., Any] = _method("ne")
    __gt__ = _method("gt")
    __ge__ = _method("ge")
    __lt__ = _method("lt")
    __le__ = _method("le")
    __hash__ = None  # type: ignore[assignment]  # `==` builds a node, so symbols cannot be dictionary keys

    def __neg__(self) -> Any:
        return self * -1.0

    def __abs__(self) -> Any:
        return self._operator("abs", (self,), {}, "abs")

    def __bool__(self) -> bool:
        raise NotImplementedForSymbol(
            "A symbol has no truth value: it holds no data. Test `symbol is None`, or build a comparison operator."
        )

    def _in_place(self, other: object) -> NoReturn:
        raise NotImplementedForSymbol("A symbol cannot be changed in place; write x = x + y instead of x += y.")

    __iadd__ = __isub__ = __imul__ = __itruediv__ = _in_place  # x %= y and x **= y make new ones, as MXNet
