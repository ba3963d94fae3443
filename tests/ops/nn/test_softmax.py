"""Softmax and its kin: special values, dtypes, lengths, refusals."""

import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.traced import evaluated

X, LENGTH = sym.Variable("x"), sym.Variable("length")


def value(symbol: sym.Symbol, **args) -> np.ndarray:
    (out,), _ = evaluated(lowering.to_jax(symbol), {name: jnp.asarray(arg) for name, arg in args.items()})
    return np.asarray(out)


def gradient(symbol: sym.Symbol, x, head, **args) -> np.ndarray:
    x = jnp.asarray(x, jnp.float32)
    heads = [jnp.asarray(head, jnp.float32)]
    return np.asarray(evaluated(lowering.grad_fn(symbol, ["x"]), {"x": x, **args}, head_grads=heads)[1]["x"])


# -- special values --------------------------------------------------------------------------------------------------


def test_large_numbers_do_not_overflow():
    x = np.array([[1e30, 1e30, -1e30], [-3e38, 3e38, 0]], np.float32)
    np.testing.assert_array_equal(value(sym.softmax(X), x=x), [[0.5, 0.5, 0], [0, 1, 0]])
    assert np.isfinite(value(sym.log_softmax(X), x=np.array([0, 1e4], np.float32))).all()
    np.testing.assert_array_equal(value(sym.log_softmax(X), x=np.array([0, 1e4], np.float32)), [-1e4, 0])


def test_minus_infinity_is_an_impossible_class():
    x = np.array([-np.inf, 1, 1], np.float32)
    np.testing.assert_array_equal(value(sym.softmax(X), x=x), [0, 0.5, 0.5])
    np.testing.assert_array_equal(gradient(sym.softmax(X), x, [1, 1, 0]), [0, 0.25, -0.25])
    np.testing.assert_array_equal(value(sym.softmin(X), x=-x), [0, 0.5, 0.5])
    assert value(sym.log_softmax(X), x=x)[0] == -np.inf


def test_nan_fills_its_row_only():
    out = value(sym.softmax(X), x=np.array([[np.nan, 1], [1, 1]], np.float32))
    assert np.isnan(out[0]).all()
    np.testing.assert_array_equal(out[1], [0.5, 0.5])


def test_a_row_of_length_0_is_zeros_and_passes_no_gradient():
    length = np.array([0, 2, -3], np.int32)
    x = np.array([[1, 2, 3]] * 3, np.float32)
    net = sym.softmax(X, LENGTH, use_length=True)
    np.testing.assert_allclose(value(net, x=x, length=length)[1], [0.26894143, 0.7310586, 0], rtol=1e-6)
    np.testing.assert_array_equal(value(net, x=x, length=length)[[0, 2]], np.zeros((2, 3)))
    np.testing.assert_array_equal(gradient(net, x, np.ones((3, 3)), length=length)[[0, 2]], np.zeros((2, 3)))


def test_what_lies_beyond_the_length_is_never_read():
    x = np.array([[0, 0, np.nan, np.inf]], np.float32)
    net = sym.softmax(X, LENGTH, use_length=True)
    np.testing.assert_array_equal(value(net, x=x, length=np.array([2])), [[0.5, 0.5, 0, 0]])


def test_a_length_beyond_the_axis_takes_all_of_it():
    net = sym.softmax(X, LENGTH, use_length=True)
    np.testing.assert_array_equal(value(net, x=np.zeros((1, 2), np.float32), length=np.array([9])), [[0.5, 0.5]])


# -- dtypes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", [sym.softmax, sym.log_softmax, sym.softmin])
def test_the_dtype_parameter_decides_the_result_and_the_gradient_is_datas(op):
    net = op(X, dtype="float32")
    assert net.infer_type(x="float16")[1] == [np.float32]
    x = np.ones((2, 3), np.float16)
    assert value(net, x=x).dtype == np.float32
    _, grads, _ = evaluated(lowering.grad_fn(net), {"x": x}, head_grads=[np.ones((2, 3), np.float32)])
    assert grads["x"].dtype == jnp.float16


def test_half_precision_is_summed_in_float32():
    x = np.zeros((1, 4096), np.float16)
    np.testing.assert_array_equal(value(sym.softmax(X), x=x), np.full((1, 4096), 1 / 4096, np.float16))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_the_dtype_is_kept(dtype: str):
    (out,), _ = evaluated(lowering.to_jax(sym.softmax(X)), {"x": jnp.ones((2, 3), dtype)})
    assert out.dtype == dtype


def test_integers_need_a_dtype():
    with pytest.raises(InferenceError, match="int32 data needs a floating-point dtype.*Pass dtype='float32'.*node 's'"):
        value(sym.softmax(X, name="s"), x=np.ones((2, 3), np.int32))
    np.testing.assert_array_equal(value(sym.softmax(X, dtype="float32"), x=np.zeros((1, 2), np.int32)), [[0.5, 0.5]])


def test_lengths_are_of_any_dtype():
    net = sym.softmax(X, LENGTH, use_length=True)
    assert net.infer_type(x="float32", length="int64")[0] == [np.float32, np.int64]
    np.testing.assert_array_equal(
        value(net, x=np.zeros((1, 3), np.float32), length=np.array([2.0], np.float32)), [[0.5, 0.5, 0]]
    )


# -- inference and refusals ------------------------------------------------------------------------------------------


def test_data_and_length_are_completed_from_each_other():
    net = sym.softmax(X, LENGTH, use_length=True, axis=1)
    assert net.infer_shape_partial(x=(0, 3, 4), length=(2, 0)) == ([(2, 3, 4), (2, 4)], [(2, 3, 4)], [])
    assert sym.softmax(X, LENGTH, use_length=True).infer_shape(x=(2, 3, 4))[0][1] == (2, 3)


def test_shapes_are_inferred_from_the_result():
    like = sym.Variable("like", shape=(2, 3, 4))
    for net in (sym.softmax(X), sym.log_softmax(X), sym.softmin(X), sym.SoftmaxActivation(X, mode="channel")):
        assert (net + like).infer_shape()[0][0] == (2, 3, 4)


def test_refusals_name_the_parameter():
    with pytest.raises(InferenceError, match="'axis'; expected -2 ≤ axis < 2; got 3; in operator 'softmax', node 's'"):
        sym.softmax(X, axis=3, name="s").infer_shape(x=(2, 3))
    with pytest.raises(ParamError, match="dtype expect one of 'float16', 'float32', 'float64' or None"):
        sym.softmax(X, dtype="int32")
    for op in (sym.log_softmax, sym.softmin):
        with pytest.raises(ParamError, match="Only softmax takes lengths"):
            op(X, use_length=True)
    with pytest.raises(InferenceError, match=r"input 'length'; expected \(2, 3\); got \(2, 4\)"):
        sym.softmax(X, LENGTH, use_length=True).infer_shape(x=(2, 3, 4), length=(2, 4))
    with pytest.raises(
        InferenceError, match=r"Mode channel needs images.*expected data of at least 3 axes; got \(2, 3\)"
    ):
        sym.SoftmaxActivation(X, mode="channel").infer_shape(x=(2, 3))


def test_the_length_input_exists_only_with_use_length():
    assert sym.softmax(X, use_length=True, name="s").list_arguments() == ["x", "s_length"]
    assert sym.softmax(X, name="s").list_arguments() == ["x"]
    assert sym.softmax(X, use_length=None, name="s").list_arguments() == ["x"]
