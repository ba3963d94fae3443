"""Operators whose numbers are inputs: as those whose numbers are parameters, and one program for all numbers."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from lowering.mx import autograd, nd
from lowering.mx.tape import policy
from symjax_nnvm.errors import NNVMError
from symjax_nnvm.recent import Recent

ARRAY, NUMBER_INPUTS = (import_module(f"lowering.mx.ndarray.{name}") for name in ("array", "number_inputs"))

CALLS: dict[str, Callable[[Any, int], Any]] = {
    "row": lambda x, i: x[i],
    "rows": lambda x, i: x[i : i + 2],
    "first": lambda x, i: x[: i + 1],
    "backwards": lambda x, i: x[::-1][i],
    "part": lambda x, i: x[i : i + 3, 1 : i + 2],
    "column": lambda x, i: x[:, i],
    "slice": lambda x, i: nd.slice(x, begin=(i, None), end=(None, -1), step=(2, 1)),
    "axis": lambda x, i: nd.slice_axis(x, axis=-1, begin=i, end=None),
    "clip": lambda x, i: nd.clip(x, -0.25 * i, 0.5),
    "plus": lambda x, i: x + 0.3 * i,
    "minus": lambda x, i: x - 0.3 * i,
    "from": lambda x, i: 0.3 * i - x,
    "times": lambda x, i: x * (0.3 * i - 1),
    "over": lambda x, i: x / (0.3 + i),
    "under": lambda x, i: (0.3 + i) / x,
    "maximum": lambda x, i: nd.maximum(x, 0.5 - 0.25 * i),
    "minimum": lambda x, i: nd.minimum(x, 0.25 * i - 0.5),
    "hypot": lambda x, i: nd._internal._hypot_scalar(x, scalar=i + 0.3),
    "greater": lambda x, i: x * (x > 0.25 * i - 0.5),
    "lesser": lambda x, i: x * (x <= 0.25 * i - 0.5),
}


def recorded(call: Callable[[Any, int], Any], dtype: str, i: int) -> tuple[list[np.ndarray], str, Any]:
    """Return the value, gradients of first and second order, the symbol, and what computed the value."""
    x: Any = nd.array(np.random.RandomState(0).randint(-8, 8, (6, 7)) / 4 + 0.125, dtype=dtype)
    x.attach_grad()
    with autograd.record():
        y = call(x, i)
        (first,) = autograd.grad((y * y).sum(), [x], create_graph=True)
        second = (first * first).sum()
    symbol = autograd.get_symbol(y).tojson()
    function = y.entry[0].function
    second.backward()
    return [y.asnumpy(), first.asnumpy(), x.grad.asnumpy()], symbol, function


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", CALLS)
def test_numbers_as_inputs_give_what_parameters_give(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ARRAY, "_prepared", Recent(100))
    monkeypatch.setattr(NUMBER_INPUTS, "_numbers", Recent(100))
    numbers = range(1, 4)
    monkeypatch.setattr(policy, "NUMBERS_AS_PARAMETERS", 100)
    expected = [recorded(CALLS[name], dtype, i) for i in numbers]
    monkeypatch.setattr(policy, "NUMBERS_AS_PARAMETERS", 0)
    monkeypatch.setattr(ARRAY, "_prepared", Recent(100))
    monkeypatch.setattr(NUMBER_INPUTS, "_numbers", Recent(100))
    functions = set()
    for i, (values, symbol, _) in zip(numbers, expected, strict=True):
        computed, computed_symbol, function = recorded(CALLS[name], dtype, i)
        functions.add(function)
        for one, other in zip(computed, values, strict=True):
            np.testing.assert_array_equal(one, other)
        assert computed_symbol == symbol
    assert len(functions) == 1


@pytest.mark.parametrize("name", ["rows", "part", "clip", "times"])
def test_the_first_numbers_of_an_operator_are_parameters(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ARRAY, "_prepared", Recent(100))
    monkeypatch.setattr(NUMBER_INPUTS, "_numbers", Recent(100))
    monkeypatch.setattr(policy, "NUMBERS_AS_PARAMETERS", 2)
    functions = [recorded(CALLS[name], "float32", i)[2] for i in (1, 2, 3, 4, 1)]
    assert len({*functions}) == 3
    assert functions[0] == functions[-1]
    assert functions[2] == functions[3]


WRONG: dict[str, Callable[[Any], Any]] = {
    "too long": lambda x: nd.slice_axis(x, axis=0, begin=3, end=9),
    "too early": lambda x: nd.slice_axis(x, axis=1, begin=-9, end=2),
    "empty": lambda x: nd.slice_axis(x, axis=0, begin=2, end=2),
    "no axis": lambda x: nd.slice_axis(x, axis=3, begin=0, end=1),
    "too many": lambda x: nd.slice(x, begin=(0, 0, 0), end=(1, 1, 1)),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_those_of_parameters(name: str, monkeypatch: pytest.MonkeyPatch):
    errors = []
    for most in (100, 0):
        monkeypatch.setattr(ARRAY, "_prepared", Recent(100))
        monkeypatch.setattr(NUMBER_INPUTS, "_numbers", Recent(100))
        monkeypatch.setattr(policy, "NUMBERS_AS_PARAMETERS", most)
        with pytest.raises(NNVMError) as caught:
            WRONG[name](nd.zeros((6, 7)))
        errors.append((caught.type, str(caught.value)))
    assert errors[0] == errors[1]


def test_places_of_large_slices_stay_parameters(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ARRAY, "_prepared", Recent(100))
    monkeypatch.setattr(policy, "NUMBERS_AS_PARAMETERS", 0)
    operators = []
    for most in (14, 13):
        monkeypatch.setattr(policy, "LARGEST_TAKEN", most)
        operators.append(recorded(CALLS["rows"], "float32", 1)[2].operator)
    assert operators == ["take", "slice"]


def test_the_graphs_of_an_operator_count_and_come_again():
    (values, _, function), (again, *_) = (recorded(CALLS["hypot"], "float32", 1) for _ in range(2))
    assert function.account.bytes == policy.BYTES_OF_GRAPHS
    function.account.forget()
    assert "programs" not in vars(function)
    forgotten, *_ = recorded(CALLS["hypot"], "float32", 1)
    assert function.account.bytes == policy.BYTES_OF_GRAPHS
    np.testing.assert_array_equal(forgotten, values)
    np.testing.assert_array_equal(again, values)
