"""Casts for training in half precision; checks and sums over many arrays."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.traced import evaluated

X, Y, Z = sym.Variable("x"), sym.Variable("y"), sym.Variable("z")


def value(symbol: sym.Symbol, **arrays: Any) -> Any:
    """The outputs on arguments by name."""
    return [np.asarray(out) for out in evaluated(lowering.to_jax(symbol), arrays)[0]]


# -- casts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
def test_amp_cast_leaves_doubles_and_integers_alone(dtype: str):
    cast = sym.amp_cast(X, dtype=dtype)
    for castable in ("float16", "float32"):
        assert cast.infer_type(x=castable)[1] == [np.dtype(dtype).type]
    for other in ("float64", "int32", "uint8"):
        assert cast.infer_type(x=other)[1] == [np.dtype(other).type]


@pytest.mark.parametrize(
    ("dtypes", "wide", "narrow"),
    [
        (("float16", "float32"), ("float32", "float32"), ("float16", "float16")),
        (("float16", "float16"), ("float16", "float16"), ("float16", "float16")),
        (("bfloat16", "float32"), ("float32", "float32"), ("bfloat16", "bfloat16")),
        (("bfloat16", "bfloat16"), ("bfloat16", "bfloat16"), ("bfloat16", "bfloat16")),
        (("bfloat16", "float16"), ("float32", "float32"), ("float16", "float16")),
        # Mended: MXNet would cast the second array to the dtype of the first.
        (("float64", "float16"), ("float64", "float16"), ("float64", "float16")),
        (("int32", "float32", "float16"), ("int32", "float32", "float32"), ("int32", "float16", "float16")),
        (("int32", "float64"), ("int32", "float64"), ("int32", "float64")),
    ],
)
def test_amp_multicast_casts_to_the_widest_or_narrowest(dtypes: Any, wide: Any, narrow: Any):
    inputs = dict(zip("xyz", dtypes, strict=False))
    for cast_narrow, expected in ((False, wide), (True, narrow)):
        variables = [sym.Variable(name) for name in inputs]
        cast = sym.amp_multicast(*variables, num_outputs=len(dtypes), cast_narrow=cast_narrow)
        assert [str(np.dtype(t)) for t in cast.infer_type(**inputs)[1]] == list(expected)


def test_amp_multicast_waits_for_every_dtype():
    assert sym.amp_multicast(X, Y, num_outputs=2).infer_type_partial(x="float16")[1] == [None, None]


def test_amp_multicast_keeps_each_shape_in_both_directions():
    cast = sym.amp_multicast(X, Y, num_outputs=2)
    assert cast.infer_shape(x=(2, 3), y=(4,))[1] == [(2, 3), (4,)]
    total = sym.Group([cast[0] + sym.Variable("a", shape=(2, 3)), cast[1] + sym.Variable("b", shape=(4,))])
    assert total.infer_shape_partial()[0][:2] == [(2, 3), (4,)]


def test_casts_are_cast_back_in_the_gradient():
    x, y = np.ones((2, 3), np.float16), np.ones(4, np.float32)
    cast = sym.amp_multicast(sym.amp_cast(X, dtype="float32"), Y, num_outputs=2)
    heads = [np.full((2, 3), 0.1, np.float32), np.full(4, 0.1, np.float32)]
    _, grads, _ = evaluated(lowering.grad_fn(cast), {"x": x, "y": y}, head_grads=heads)
    assert (grads["x"].dtype, grads["y"].dtype) == (np.float16, np.float32)
    np.testing.assert_array_equal(grads["x"], heads[0].astype(np.float16))


def test_casts_refuse_what_is_no_dtype():
    with pytest.raises(ParamError, match="dtype") as error:
        sym.amp_cast(X, dtype="bool", name="n")
    assert "'bfloat16'" in str(error.value)
    with pytest.raises(ParamError, match="num_outputs"):
        sym.amp_multicast(X, num_outputs=0)


# -- checks and sums -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16, np.float32])
def test_one_element_that_is_not_finite_is_found(bad: float, dtype: Any):
    good = np.zeros((2, 3), dtype)
    spoilt = good.copy()
    spoilt[1, 2] = bad
    # init_output has no effect: MXNet's graphs would go on from memory that was not written.
    for init in (True, False):
        check = sym.all_finite(X, init_output=init)
        assert [value(check, x=x)[0].tolist() for x in (good, spoilt)] == [[1.0], [0.0]]
        check = sym.multi_all_finite(X, Y, num_arrays=2, init_output=init)
        assert value(check, x=good, y=np.ones(3, np.float32))[0].tolist() == [1.0]
        assert value(check, x=np.ones(3, np.float32), y=spoilt)[0].tolist() == [0.0]


def test_squares_of_half_precision_do_not_overflow():
    (sums,) = value(sym.multi_sum_sq(X, Y, num_arrays=2), x=np.full(3, 300, np.float16), y=np.ones(2, np.float16))
    assert sums.dtype == np.float32
    assert sums.tolist() == [270000.0, 2.0]


def test_results_are_float32_numbers():
    assert sym.all_finite(X).infer_shape(x=(2, 3))[1] == [(1,)]
    assert sym.multi_all_finite(X, Y, num_arrays=2).infer_shape(x=(2, 3), y=(1,))[1] == [(1,)]
    assert sym.multi_sum_sq(X, Y, num_arrays=2).infer_shape(x=(2, 3), y=(1,))[1] == [(2,)]
    assert sym.multi_sum_sq(X, Y, num_arrays=2).infer_type(x="float64")[:2] == ([np.float64] * 2, [np.float32])
    assert sym.multi_all_finite(X, Y, num_arrays=2).infer_type(x="float16", y="float64")[1] == [np.float32]


@pytest.mark.parametrize(
    ("symbol", "dtypes", "word"),
    [
        (sym.all_finite(X, name="n"), {"x": "int32"}, "only support floating point types, not int32"),
        (sym.multi_all_finite(X, Y, num_arrays=2, name="n"), {"y": "uint8"}, "not uint8"),
        (sym.multi_sum_sq(X, Y, num_arrays=2, name="n"), {"x": "int32"}, "not int32"),
        (sym.multi_sum_sq(X, Y, num_arrays=2, name="n"), {"x": "float32", "y": "float64"}, "array_1"),
    ],
)
def test_dtypes_that_do_not_fit_are_named(symbol: sym.Symbol, dtypes: dict[str, str], word: str):
    with pytest.raises(InferenceError, match=word) as error:
        symbol.infer_type(**dtypes)
    assert "'n'" in str(error.value)


# -- reset_arrays ----------------------------------------------------------------------------------------------------


def test_reset_arrays_sets_states_to_0():
    reset = sym.reset_arrays(X, Y, num_arrays=2, name="n")
    assert (reset.list_arguments(), reset.list_auxiliary_states()) == ([], ["x", "y"])
    assert reset.infer_shape(x=(2, 3), y=(4,))[1:] == ([(2, 3), (4,)], [(2, 3), (4,)])
    states = {"x": np.ones((2, 3), np.float16), "y": np.full(4, np.nan, np.float32)}
    outputs, new = evaluated(lowering.to_jax(reset), {}, states)
    for name, out in zip("xy", outputs, strict=True):
        assert out.dtype == new[name].dtype == states[name].dtype
        np.testing.assert_array_equal(out, np.zeros_like(states[name]))
        np.testing.assert_array_equal(new[name], out)
    assert sym.load_json(reset.tojson()).list_auxiliary_states() == ["x", "y"]
