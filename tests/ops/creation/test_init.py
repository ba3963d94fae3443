"""Arrays out of nothing: shapes and dtypes decided by their users, ranges, refusals."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import LoweringError, NarrowedDtypeWarning, ParamError
from tests.support.traced import evaluated

X = sym.Variable("x")


def run(symbol, **args):
    return evaluated(lowering.to_jax(symbol), {k: jnp.asarray(v) for k, v in args.items()})[0]


def test_zeros_without_a_shape_take_that_of_their_users():
    symbol = sym.zeros() + X
    assert symbol.infer_shape(x=(2, 3))[1] == [(2, 3)]
    assert run(symbol, x=np.array([[1, 2]], "float16"))[0].dtype == jnp.float16


def test_zeros_with_unknown_dimensions_are_completed():
    (out,) = run(sym.zeros(shape=(0, 3)) + X, x=np.ones((2, 3), np.float32))
    assert out.shape == (2, 3)


def test_undecided_zeros_are_an_error_that_says_what_to_do():
    with pytest.raises(LoweringError, match=r"'_zeros', node 'z'|cannot be inferred.*Pass shape="):
        run(sym.zeros(name="z"))


def test_zeros_without_dtype_take_that_of_their_users():
    symbol = sym.broadcast_add(sym._zeros_without_dtype(shape=(1,)), X)
    assert symbol.infer_type(x="float16")[1] == [np.float16]
    assert run(symbol, x=np.array([1], "float16"))[0].dtype == jnp.float16


@pytest.mark.slow("computes much")
def test_an_open_range_is_as_long_as_its_user():
    symbol = sym.arange(start=1, step=2, repeat=2, infer_range=True) + X
    assert run(symbol, x=np.zeros(5, np.float32))[0].tolist() == [1, 1, 3, 3, 5]
    with pytest.raises(LoweringError, match="length of a range"):
        run(sym.arange(start=1, infer_range=True))


def test_full_takes_val():
    assert run(sym.full((2,), 3))[0].tolist() == [3, 3]


@pytest.mark.parametrize(
    "params", [{"start": 0, "stop": 3, "step": 0}, {"start": 3, "stop": 0}, {"start": 0, "stop": 1, "step": -1}]
)
def test_empty_ranges_are_refused(params):
    with pytest.raises(ParamError, match="Range does not support"):
        sym.arange(**params)


def test_64_bits_are_as_wide_as_jax_allows():
    with pytest.warns(NarrowedDtypeWarning):
        assert run(sym.zeros((2,), dtype="float64"))[0].dtype == jnp.float32


def test_zeros_like_keeps_every_dtype():
    assert run(sym.zeros_like(X), x=np.array([1], "int8"))[0].dtype == jnp.int8
