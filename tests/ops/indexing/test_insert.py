"""delete and insert: MXNet's values, and what is said where indices are not known or outside."""

import jax
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, LoweringError

ARR, OBJ = sym.Variable("arr"), sym.Variable("obj")
DATA = np.arange(6, dtype=np.float32).reshape(2, 3)


def run(symbol, **args):
    return lowering.to_jax(symbol)(args)[0][0].tolist()


@pytest.mark.parametrize(
    ("params", "left"),
    [  # MXNet 1.9.1's results
        ({"int_ind": 1, "axis": 1}, [[0, 2], [3, 5]]),
        ({"start": 0, "stop": 2, "axis": 1}, [[2], [5]]),
        ({"step": -2, "axis": 1}, [[1], [4]]),
        ({"int_ind": 1}, [0, 2, 3, 4, 5]),
        ({"int_ind": -1}, [0, 1, 2, 3, 4]),
    ],
)
def test_slices_that_a_number_or_a_slice_names_are_left_out(params, left):
    assert run(sym._npi_delete(ARR, **params), arr=DATA) == left


@pytest.mark.parametrize(
    ("obj", "axis", "left"),
    [([0, 0, 2], None, [1, 3, 4, 5]), ([0, 7, -1], 1, [[1, 2], [4, 5]])],  # MXNet 1.9.1's results
)
def test_slices_that_an_array_names_are_left_out(obj, axis, left):
    symbol = sym._npi_delete(ARR, OBJ, axis=axis, name="op")
    args = {"arr": DATA, "obj": np.array(obj)}
    assert run(symbol, **args) == left
    head = np.ones(np.shape(left), "float32")
    _, grads, _ = lowering.grad_fn(symbol, ["arr"])(args, head_grads=[head])
    assert grads["arr"].shape == DATA.shape
    assert grads["arr"].sum() == head.size
    with pytest.raises(LoweringError, match=r"'op'.*outside jax\.jit.*number or a slice"):
        jax.jit(lowering.to_jax(symbol))(args)


@pytest.mark.parametrize(
    ("op", "params", "values", "result"),
    [  # MXNet 1.9.1's results
        ("scalar", {"int_ind": 1, "axis": 1}, [7, 8], [[0, 7, 1, 2], [3, 8, 4, 5]]),
        ("scalar", {"int_ind": 1, "axis": 1}, [[7, 8], [5, 6]], [[0, 7, 5, 1, 2], [3, 8, 6, 4, 5]]),
        ("scalar", {"int_ind": 1}, [7, 8], [0, 7, 8, 1, 2, 3, 4, 5]),
        ("slice", {"start": 0, "stop": 2, "axis": 1}, [[1, 2], [3, 4]], [[1, 0, 2, 1, 2], [3, 3, 4, 4, 5]]),
        ("slice", {"start": 0, "stop": 1, "axis": 1}, [[1, 2], [3, 4]], [[1, 2, 0, 1, 2], [3, 4, 3, 4, 5]]),
    ],
)
def test_values_before_a_number_or_the_indices_of_a_slice(op, params, values, result):
    symbol = getattr(sym, f"_npi_insert_{op}")(ARR, sym.Variable("values"), **params)
    assert run(symbol, arr=DATA, values=np.array(values, "float32")) == result


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    ("obj", "axis", "values", "result"),
    [  # MXNet 1.9.1's results
        ([2, 2, 0], 1, [7, 8, 9], [[9, 0, 1, 7, 8, 2], [9, 3, 4, 7, 8, 5]]),
        ([1], 0, [[7, 8, 9]], [[0, 1, 2], [7, 8, 9], [3, 4, 5]]),
        ([1], 1, [7, 8], [[0, 7, 8, 1, 2], [3, 7, 8, 4, 5]]),
    ],
)
def test_values_before_the_indices_of_an_array(obj, axis, values, result):
    symbol = sym._npi_insert_tensor(ARR, sym.Variable("values"), OBJ, axis=axis)
    assert run(symbol, arr=DATA, values=np.array(values, "float32"), obj=np.array(obj)) == result


def test_values_are_cast_to_the_dtype_of_the_array():
    symbol = sym._npi_insert_scalar(ARR, val=2.7, int_ind=1)
    (result,) = lowering.to_jax(symbol)({"arr": np.array([1, 2], "int32")})[0]
    assert (result.dtype, result.tolist()) == ("int32", [1, 2, 2])


@pytest.mark.parametrize("op", ["delete", "insert_scalar"])
def test_an_index_outside_is_an_error(op):
    value = {"val": 1.0} if op == "insert_scalar" else {}
    with pytest.raises(InferenceError, match="index 9 is out of bounds for an axis of size 3"):
        getattr(sym, f"_npi_{op}")(ARR, int_ind=9, axis=1, **value).infer_shape(arr=(2, 3))
