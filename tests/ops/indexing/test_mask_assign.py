"""Values put where a mask holds: MXNet's results of `x[mask] = value`, and the gradient that MXNet has not."""

import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError

X, MASK, VALUE = (sym.Variable(name) for name in ("x", "mask", "value"))
DATA = np.arange(6, dtype=np.float32).reshape(2, 3)
CASES = [  # MXNet 1.9.1's results
    ([[1, 0, 1], [0, 1, 0]], 0, [7, 8, 9], [[7, 1, 8], [3, 9, 5]]),
    ([1, 0, 1], 1, [[7, 8], [9, 10]], [[7, 1, 8], [9, 4, 10]]),
    ([1, 0], 0, [7, 8, 10], [[7, 8, 10], [3, 4, 5]]),
]


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(("mask", "axis", "value", "result"), CASES)
def test_values_go_one_after_the_other_where_the_mask_holds(mask, axis, value, result):
    symbol = sym._npi_boolean_mask_assign_tensor(X, MASK, VALUE, start_axis=axis)
    args = {"x": DATA, "mask": np.array(mask, bool), "value": np.array(value, "float32")}
    head = DATA + 1
    (found,), grads, _ = lowering.grad_fn(symbol, ["x", "value"])(args, head_grads=[head])
    assert found.tolist() == result
    kept = found == DATA
    assert grads["x"].tolist() == np.where(kept, head, 0).tolist()
    assert sorted(grads["value"].reshape(-1).tolist()) == sorted(head[~kept].tolist())


def test_one_value_everywhere():
    symbol = sym._npi_boolean_mask_assign_scalar(X, MASK, value=2.5, start_axis=0)
    (found,), grads, _ = lowering.grad_fn(symbol, ["x"])({"x": DATA, "mask": np.array([1, 0])}, head_grads=[DATA])
    assert found.tolist() == [[2.5, 2.5, 2.5], [3, 4, 5]]
    assert grads["x"].tolist() == [[0, 0, 0], [3, 4, 5]]


def test_a_mask_of_another_length_is_named():
    symbol = sym._npi_boolean_mask_assign_scalar(X, MASK, value=2.5, start_axis=1)
    with pytest.raises(InferenceError, match=r"'mask'.*\(3,\).*\(2,\)"):
        symbol.infer_shape(x=(2, 3), mask=(2,))
