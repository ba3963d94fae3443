"""Functions of an array and a number: integer data, exact zeros, errors."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import jax
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.traced import evaluated


def value(op: str, x, **params):
    return evaluated(lowering.to_jax(getattr(sym, op)(sym.Variable("x"), name="op", **params)), {"x": x})[0][0]


@pytest.mark.slow("computes much")
def test_integer_data_truncates_a_fractional_scalar():
    x = np.array([-3, -1, 0, 2, 5], np.int32)
    assert value("_plus_scalar", x, scalar=1.5).tolist() == [-2, 0, 1, 3, 6]
    assert value("_plus_scalar", x, scalar=-2.7).tolist() == [-5, -3, -2, 0, 3]
    assert value("_greater_scalar", x, scalar=2.9).tolist() == [0, 0, 0, 0, 1]
    assert value("_div_scalar", x, scalar=2.0).tolist() == [-1, 0, 0, 1, 2]
    assert value("_power_scalar", np.array([-1, 1, 2], np.int32), scalar=-2.7).tolist() == [1, 1, 0]


def test_scalar_wraps_around_as_in_c():
    assert value("_plus_scalar", np.array([3, 0], np.uint8), scalar=-2.7).tolist() == [1, 254]
    assert value("_maximum_scalar", np.array([3, 0], np.uint8), scalar=-1).tolist() == [255, 255]
    assert value("_plus_scalar", np.array([1], np.int8), scalar=300).tolist() == [45]


def test_integers_become_float64_without_is_int():
    symbol = sym._plus_scalar(sym.Variable("x"), scalar=1.5, is_int=False)
    assert symbol.infer_type(x="int32")[1] == [np.float64]
    assert symbol.infer_type(x="float16")[1] == [np.float16]
    with jax.enable_x64(True):
        result = evaluated(lowering.to_jax(symbol), {"x": np.array([1, -2], np.int32)})[0][0]
    assert result.dtype == np.float64
    assert result.tolist() == [2.5, -0.5]


def test_booleans_become_numbers():
    assert (sym.Variable("x") + 2).infer_type(x="bool")[1] == [np.int64]
    assert value("_plus_scalar", np.array([True, False]), scalar=2).tolist() == [3, 2]


def test_dtype_is_inferred_backward():
    assert ((sym.Variable("x") * 2) + sym.Variable("y")).infer_type(y="float16")[0] == [np.float16, np.float16]


def test_no_integer_is_infinite():
    with pytest.raises(InferenceError, match="(?s)inf is not a number of dtype int32.*'_plus_scalar'.*'op'"):
        value("_plus_scalar", np.array([1], np.int32), scalar=np.inf)


def test_scalar_must_be_a_number():
    with pytest.raises(ParamError, match="Invalid Parameter format for scalar expect float but value='two'"):
        sym._plus_scalar(sym.Variable("x"), scalar="two")


def test_default_scalar_is_one():
    assert value("_plus_scalar", np.array([2], np.float32)).tolist() == [3]


@pytest.mark.parametrize(
    ("power", "derivatives"), [(0, [1, 0, 0]), (1, [0, 1, 0, 0]), (2, [0, 0, 2, 0, 0]), (3, [0, 0, 0, 6, 0])]
)
def test_whole_powers_are_smooth_at_zero(power: int, derivatives: list[float]):
    symbol = sym.Variable("x") ** power
    zero = np.array([0], np.float32)
    for expected in derivatives:
        args = {"x": zero} if "x" in symbol.list_arguments() else {}
        assert evaluated(lowering.to_jax(symbol), args)[0][0].tolist() == [expected]
        if not args:
            break
        symbol = symbol.gradient(["x"])


def test_extremes_give_the_gradient_of_ties_to_the_data():
    x = {"x": np.array([1, 2, 3], np.float32)}
    for function, expected in ((sym.maximum, [0, 1, 1]), (sym.minimum, [1, 1, 0])):
        _, grads, _ = evaluated(
            lowering.grad_fn(function(sym.Variable("x"), 2), ["x"]), x, head_grads=[np.ones(3, np.float32)]
        )
        assert grads["x"].tolist() == expected


@pytest.mark.slow("computes much")
def test_special_values():
    zero = np.array([0, 2], np.float32)
    assert value("_mod_scalar", zero, scalar=0).tolist() == [0, 0]
    assert value("_rmod_scalar", zero, scalar=3).tolist() == [0, 1]
    assert value("_rdiv_scalar", zero, scalar=1).tolist() == [np.inf, 0.5]
    assert value("_power_scalar", zero, scalar=-2).tolist() == [np.inf, 0.25]
    assert value("_rpower_scalar", zero, scalar=0).tolist() == [1, 0]
    assert value("_mod_scalar", np.array([-1, 1], np.float32), scalar=np.inf).tolist() == [np.inf, 1]
    assert value("_hypot_scalar", np.array([3e30], np.float32), scalar=4e30).tolist() == pytest.approx([5e30])


@pytest.mark.slow("computes much")
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_number_takes_the_datas_dtype(dtype):
    x = np.array([0.1, 0.2], dtype)
    assert value("_equal_scalar", x, scalar=0.1).tolist() == [1, 0]
    assert value("_plus_scalar", x, scalar=0.1).dtype == dtype
