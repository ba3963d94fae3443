"""arange_like and index_array: what is inferred, lengths that tests of one rank miss, refusals."""

import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.traced import evaluated

X = sym.Variable("x")


def run(symbol, x):
    return np.asarray(evaluated(lowering.to_jax(symbol), {"x": jnp.asarray(x)})[0][0])


def test_float16_ranges_take_fractions_where_mxnet_truncates_them():
    halves = run(sym._contrib_arange_like(X, start=0.5, step=0.25), np.zeros(4, "float16"))
    assert halves.dtype == np.float16
    assert halves.tolist() == [0.5, 0.75, 1, 1.25]


def test_index_array_is_the_inverse_of_ravelling():
    indices = run(sym._contrib_index_array(X), np.zeros((2, 3, 4)))
    assert (np.ravel_multi_index(tuple(np.moveaxis(indices, -1, 0)), (2, 3, 4)).ravel() == np.arange(24)).all()


def test_shapes_are_inferred_from_either_side():
    x = sym.Variable("x", shape=(2, 0))
    assert (sym._contrib_arange_like(x, axis=-1) + sym.Variable("y")).infer_shape(y=(3,))[0] == [(2, 3), (3,)]
    assert sym._contrib_arange_like(X).infer_shape(x=(2, 3))[1] == [(2, 3)]
    assert sym._contrib_index_array(X, axes=(1,)).infer_shape(x=(2, 3))[1] == [(2, 3, 1)]
    assert sym._contrib_index_array(X).infer_type(x="float16")[1] == [np.int64]


@pytest.mark.parametrize(
    ("symbol", "words"),
    [
        (sym._contrib_arange_like(X, axis=2, name="n"), ("'_contrib_arange_like'", "'axis'", "got 2")),
        (sym._contrib_index_array(X, axes=(0, -3), name="n"), ("'_contrib_index_array'", "'axes'", "got -3")),
    ],
)
def test_axes_that_data_do_not_have_are_refused(symbol, words):
    with pytest.raises(InferenceError) as error:
        symbol.infer_shape(x=(2, 3))
    assert all(word in str(error.value) for word in (*words, "no such axis", "'n'")), str(error.value)


def test_parameters_that_mean_nothing_are_refused():
    with pytest.raises(ParamError, match="'repeat'.*int ≥ 1.*got 0"):  # MXNet divides by it
        sym._contrib_arange_like(X, repeat=0)
    with pytest.raises(ParamError, match="axes is empty"):
        sym._contrib_index_array(X, axes=())
