"""Python's operators on symbols: which operator, which scalar, which automatic name."""

import operator
from typing import Any

import numpy as np
import pytest

from symjax_nnvm.errors import SymbolTypeError
from symjax_nnvm.symbol.symbol import Symbol
from tests.support.core_toys import var

CASES = [
    # operator, symbol with symbol, symbol with 2, 2 with symbol: (registered name, automatic-name hint)
    (operator.add, ("elemwise_add", "_plus"), ("_plus_scalar", "_plusscalar"), ("_plus_scalar", "_plusscalar")),
    (operator.sub, ("elemwise_sub", "_minus"), ("_minus_scalar", "_minusscalar"), ("_rminus_scalar", "_rminusscalar")),
    (operator.mul, ("elemwise_mul", "_mul"), ("_mul_scalar", "_mulscalar"), ("_mul_scalar", "_mulscalar")),
    (operator.truediv, ("elemwise_div", "_div"), ("_div_scalar", "_divscalar"), ("_rdiv_scalar", "_rdivscalar")),
    (operator.mod, ("_mod", "_mod"), ("_mod_scalar", "_modscalar"), ("_rmod_scalar", "_rmodscalar")),
    (operator.pow, ("_power", "_power"), ("_power_scalar", "_powerscalar"), ("_rpower_scalar", "_rpower_scalar")),
    (operator.eq, ("_equal", "_equal"), ("_equal_scalar", "_equal_scalar"), ("_equal_scalar", "_equal_scalar")),
    (
        operator.ne,
        ("_not_equal", "_not_equal"),
        ("_not_equal_scalar", "_not_equal_scalar"),
        ("_not_equal_scalar", "_not_equal_scalar"),
    ),
    (
        operator.gt,
        ("_greater", "_greater"),
        ("_greater_scalar", "_greater_scalar"),
        ("_lesser_scalar", "_lesser_scalar"),
    ),
    (
        operator.ge,
        ("_greater_equal", "_greater_equal"),
        ("_greater_equal_scalar", "_greater_equal_scalar"),
        ("_lesser_equal_scalar", "_lesser_equal_scalar"),
    ),
    (operator.lt, ("_lesser", "_lesser"), ("_lesser_scalar", "_lesser_scalar"), ("_greater_scalar", "_greater_scalar")),
    (
        operator.le,
        ("_lesser_equal", "_lesser_equal"),
        ("_lesser_equal_scalar", "_lesser_equal_scalar"),
        ("_greater_equal_scalar", "_greater_equal_scalar"),
    ),
]


@pytest.fixture
def created(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str], dict[str, str], str]]:
    """What would be created: (operator, names of the inputs, parameters, hint). No operator family is needed."""
    calls = []

    def create(self: Symbol, op: str, args: Any, params: dict[str, str], hint: str) -> Symbol:
        calls.append((op, [arg.name for arg in args], params, hint))
        return args[0]

    monkeypatch.setattr(Symbol, "_operator", create)
    return calls


@pytest.mark.parametrize(("function", "symbols", "right", "left"), CASES)
def test_operators(function, symbols, right, left, created):
    x, y = var("x"), var("y")
    function(x, y)
    function(x, 2)
    function(2, x)
    assert created == [
        (symbols[0], ["x", "y"], {}, symbols[1]),
        (right[0], ["x"], {"scalar": "2"}, right[1]),
        (left[0], ["x"], {"scalar": "2"}, left[1]),
    ]


def test_negation_multiplies_by_minus_one(created):
    operator.neg(var("x"))
    assert created == [("_mul_scalar", ["x"], {"scalar": "-1.0"}, "_mulscalar")]


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "1"), (2.5, "2.5"), (1e-5, "1e-05"), (np.float32(2), "2.0"), (np.float32(0.1), "0.1"), (np.int64(3), "3")],
)
def test_scalar_is_written_as_python_writes_it(value, text, created):
    operator.add(var("x"), value)
    operator.add(value, var("x"))
    assert created[1] == created[0]
    assert created[0][2] == {"scalar": text}


@pytest.mark.parametrize("value", ["1", None, True, np.bool_(True), [1], np.ones(2)])
def test_other_operands_are_refused(value, created):
    with pytest.raises(SymbolTypeError, match="type .* not supported: a symbol combines with symbols and numbers"):
        operator.add(var("x"), value)
    assert created == []
