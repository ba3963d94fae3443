"""Dtypes of two arrays in the NumPy dialect: what mixes as in MXNet 1.9.1, and what it refuses."""

import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.rules.promotion import promoted
from tests.support.traced import evaluated

TYPES = ("bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64")
_SHORT = {"b": "bool", "1": "int8", "u": "uint8", "4": "int32", "8": "int64", "h": "float16", "f": "float32"}
# Rows: the dtype of lhs, columns: that of rhs; asked of MXNet 1.9.1. d is float64, - is refused. "numbers":
# of arrays that are broadcast; of one shape MXNet refuses all but floats.
TABLES = {
    "all": "b1u48hfd 11-48hfd u-u48hfd 44448hfd 88888hfd hhhhhhfd fffffffd dddddddd",
    "numbers": "-1u48hfd 11-48hfd u-u48hfd 44448hfd 88888hfd hhhhhhfd fffffffd dddddddd",
    "division": "f----hfd -f---hfd --f--hfd ---f-hfd ----fhfd hhhhhh-- fffff-f- ddddd--d",
}


@pytest.mark.parametrize("mixing", TABLES)
def test_dtypes_mix_as_in_mxnet(mixing):
    for lhs, row in zip(TYPES, TABLES[mixing].split(), strict=True):
        for rhs, expected in zip(TYPES, row, strict=True):
            if expected == "-":
                with pytest.raises(InferenceError, match=f"combination of {lhs} with {rhs}"):
                    promoted(lhs, rhs, mixing)
            else:
                assert promoted(lhs, rhs, mixing) == {**_SHORT, "d": "float64"}[expected]


def test_a_dtype_that_is_not_known_is_that_of_the_other():
    types = sym._npi_add(sym.Variable("x"), sym.Variable("y")).infer_type(x="float16")
    assert types == ([np.float16, np.float16], [np.float16], [])


@pytest.mark.parametrize(("op", "dtype"), [("hypot", "int32"), ("lcm", "float32"), ("copysign", "bool")])
def test_dtypes_that_are_refused(op: str, dtype: str):
    net = getattr(sym, f"_npi_{op}")(sym.Variable("x"), sym.Variable("y"))
    with pytest.raises(InferenceError):
        net.infer_type(x=dtype, y=dtype)


def test_two_dtypes_are_not_compared():
    with pytest.raises(InferenceError, match="int32.*float32"):
        sym._npi_equal(sym.Variable("x"), sym.Variable("y"), name="e").infer_type(x="int32", y="float32")


def test_a_product_of_truths_can_be_differentiated():
    """The mask has no gradient that matters, but the way through it is differentiated all the same."""
    x, a, b = map(sym.Variable, ("x", "a", "b"))
    net = sym._npi_multiply(x, sym._npi_multiply(a, b))
    values = {"x": np.array([1.0, 2.0, 3.0], np.float32)}
    values |= {"a": np.array([True, True, False]), "b": np.array([True, False, True])}
    _, grads, _ = evaluated(lowering.grad_fn(net, ["x", "a"]), values, {}, None, [np.ones(3, np.float32)])
    assert np.asarray(grads["x"]).tolist() == [1, 0, 0]
