"""bincount runs where its data are known."""

from typing import Any

import jax
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, LoweringError


def counted(*arrays: np.ndarray, **params: int):
    count: Any = sym._npi_bincount
    net = count(*(sym.Variable(f"x{i}") for i in range(len(arrays))), name="count", **params)
    (out,), _ = lowering.to_jax(net)({f"x{i}": array for i, array in enumerate(arrays)})
    return out.dtype.name, out.tolist()


DATA = np.array([0, 1, 1, 3], np.int32)


@pytest.mark.slow("compiles")
def test_numbers_are_counted_as_in_mxnet():
    assert counted(DATA) == ("int32", [1, 2, 0, 1])
    assert counted(DATA, minlength=6) == ("int32", [1, 2, 0, 1, 0, 0])
    assert counted(DATA, np.array([0.5, 1, 2, 3], np.float32), has_weights=True) == ("float32", [0.5, 3, 0, 3])
    assert counted(DATA[:0], minlength=2) == ("int32", [0, 0])


def test_what_cannot_be_counted():
    with pytest.raises(LoweringError, match="nonnegative"):
        counted(-DATA)
    with pytest.raises(InferenceError, match="1d array"):
        sym._npi_bincount(sym.Variable("x")).infer_shape(x=(2, 3))
    with pytest.raises(InferenceError, match="integer types, not float32"):
        sym._npi_bincount(sym.Variable("x")).infer_type(x="float32")


def test_a_compiled_network_says_the_way_out():
    net = lowering.to_jax(sym._npi_bincount(sym.Variable("x"), name="count"))
    with pytest.raises(LoweringError, match=r"(?s)values.*count.*one_hot"):
        jax.jit(net)({"x": DATA})
