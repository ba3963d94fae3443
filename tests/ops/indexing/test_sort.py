"""sort, argsort, topk: ties, axes, the mended gradient, refusals, and the code XLA makes of them."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.traced import evaluated

X = sym.Variable("x")
DATA = np.array([[3, 1, 2], [6, 5, 4]], np.float32)


def run(symbol: sym.Symbol, x: object) -> list[np.ndarray]:
    return [np.asarray(output) for output in evaluated(lowering.to_jax(symbol), {"x": jnp.asarray(x)})[0]]


def gradient(symbol: sym.Symbol, x: np.ndarray, *heads: object) -> np.ndarray:
    _, grads, _ = evaluated(lowering.grad_fn(symbol), {"x": x}, head_grads=[jnp.asarray(h, jnp.float32) for h in heads])
    return np.asarray(grads["x"])


# -- order -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow("computes much")
def test_equal_elements_keep_their_order_both_ways():
    x = np.array([1, 0, 1, 0, 1, 2, 2, 0], np.float32)
    assert run(sym.argsort(X), x)[0].tolist() == [1, 3, 7, 0, 2, 4, 5, 6]
    assert run(sym.argsort(X, is_ascend=False), x)[0].tolist() == [5, 6, 0, 2, 4, 1, 3, 7]
    assert run(sym.topk(X, k=3), x)[0].tolist() == [5, 6, 0]
    assert run(sym.topk(X, k=3, is_ascend=True), x)[0].tolist() == [1, 3, 7]


@pytest.mark.slow("computes much")
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_the_extremes_of_an_integer_dtype_are_ordered(dtype: str):
    info = np.iinfo(dtype)
    x = np.array([info.min, 1, info.max, 2], dtype)
    assert run(sym.sort(X, is_ascend=False), x)[0].tolist() == sorted(x.tolist(), reverse=True)
    assert run(sym.topk(X, k=3, ret_typ="value", is_ascend=True), x)[0].tolist() == sorted(x.tolist())[:3]


@pytest.mark.nightly("every operator", but_one_in=3)
@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("x", "largest", "least"),
    [
        ([0.0, -0.0, 0, 1, 1], [3, 4, 0, 1], [0, 1, 2, 3]),
        ([-0.0, 0.0, -0.0, 1, 1], [3, 4, 0, 1], [0, 1, 2, 3]),
        ([-0.0, 0, -1, -0.0, 0.0], [0, 1, 3, 4], [2, 0, 1, 3]),
    ],
)
def test_minus_zero_is_as_large_as_zero(x: list, largest: list, least: list, dtype: str):
    data = jnp.asarray(x, dtype)
    for ascend, order in ((False, largest), (True, least)):
        symbol = sym.topk(X, k=4, is_ascend=ascend, ret_typ="both")
        for outputs in (run(symbol, data), jax.jit(lambda v, s=symbol: lowering.to_jax(s)({"x": v * 1})[0])(data)):
            values, places = map(np.asarray, outputs)
            assert places.tolist() == order
            np.testing.assert_array_equal(np.signbit(values.astype(np.float32)), np.signbit(np.array(x)[order]))


@pytest.mark.slow("computes much")
def test_nan_and_small_numbers_keep_their_place_in_topk():
    x = np.array([2e-38, np.nan, 0, 4e-38, -0.0, np.inf, -2e-38], np.float32)
    assert run(sym.topk(X, k=6), x)[0].tolist() == [1, 5, 3, 0, 2, 4]
    np.testing.assert_array_equal(run(sym.topk(X, k=2, ret_typ="value"), x)[0], [np.nan, np.inf])


@pytest.mark.slow("computes much")
def test_k_below_one_means_all():
    for k in (0, -1):
        assert run(sym.topk(X, k=k, ret_typ="value"), DATA)[0].tolist() == [[3, 2, 1], [6, 5, 4]]
        assert run(sym.topk(X, k=k, ret_typ="mask"), DATA)[0].tolist() == [[1] * 3] * 2


@pytest.mark.slow("computes much")
def test_without_an_axis_all_elements_are_one_line():
    assert run(sym.topk(X, k=2, axis=None), DATA)[0].tolist() == [3, 4]
    assert run(sym.topk(X, k=2, axis=None, ret_typ="mask"), DATA)[0].tolist() == [[0, 0, 0], [1, 1, 0]]
    assert run(sym.sort(X, axis=None), DATA)[0].tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow("computes much")
def test_quirk_small_index_types_wrap_around():
    assert run(sym.topk(X, dtype="uint8"), np.arange(300, dtype=np.float32))[0].tolist() == [43]


@pytest.mark.slow("computes much")
def test_gradient_of_topk_does_not_depend_on_the_index_type():
    x = np.arange(300, dtype=np.float32)
    for ret_typ, dtype in itertools.product(("value", "both"), ("uint8", "float16", "int32")):
        heads = [[5, 7], [0, 0]][: 1 + (ret_typ == "both")]
        found = gradient(sym.topk(X, k=2, ret_typ=ret_typ, dtype=dtype), x, *heads)
        assert np.flatnonzero(found).tolist() == [298, 299]
        assert found[298:].tolist() == [7, 5]


def test_mended_sort_without_axis_has_a_gradient():
    head = [[1, 2, 3], [4, 5, 6]]
    assert gradient(sym.sort(X), DATA, head).tolist() == [[3, 1, 2], [6, 5, 4]]
    np.testing.assert_array_equal(gradient(sym.sort(X), DATA, head), gradient(sym.sort(X, axis=-1), DATA, head))


@pytest.mark.slow("computes much")
def test_indices_and_masks_have_a_zero_gradient():
    for symbol, shape in ((sym.argsort(X), (2, 3)), (sym.topk(X), (2, 1)), (sym.topk(X, ret_typ="mask"), (2, 3))):
        assert not gradient(symbol, DATA, np.ones(shape)).any()


# -- names, shapes, dtypes -------------------------------------------------------------------------------------------


def test_outputs_have_mxnets_names():
    assert sym.sort(X, name="op").list_outputs() == ["op_output0"]
    assert sym.argsort(X, name="op").list_outputs() == ["op_output"]
    names = {"indices": ["op_output"], "mask": ["op_output"], "value": ["op_output0"]}
    for ret_typ, expected in {**names, "both": ["op_output0", "op_output1"]}.items():
        assert sym.topk(X, ret_typ=ret_typ, name="op").list_outputs() == expected


def test_shapes_are_inferred_from_what_is_known():
    assert sym.topk(X, k=2, axis=1).infer_shape_partial(x=(3, 0))[1] == [(3, 2)]
    assert sym.topk(X, axis=None, k=2).infer_shape_partial(x=(3, 0))[1] == [(2,)]
    assert (sym.sort(X, axis=0) + sym.Variable("y", shape=(2, 3))).infer_shape()[0] == [(2, 3), (2, 3)]


def test_dtypes():
    assert sym.topk(X, ret_typ="both", dtype="int64").infer_type(x="float16")[1] == [np.float16, np.int64]
    assert sym.topk(X, ret_typ="mask", dtype="int64").infer_type(x="float64")[1] == [np.float64]
    assert sym.argsort(X).infer_type(x="int32")[1] == [np.float32]


@pytest.mark.parametrize(
    ("symbol", "words"),
    [
        (sym.topk(X, k=4, name="n"), ("k must not exceed", "'k'", "k ≤ 3", "got 4", "'topk'")),
        (sym.topk(X, k=7, axis=None, name="n"), ("k ≤ 6", "got 7")),
        (sym.topk(X, axis=2, name="n"), ("'axis'", "-2 ≤ axis < 2", "got 2")),
        (sym.sort(X, axis=-3, name="n"), ("'axis'", "got -3", "'sort'")),
        (sym.argsort(X, axis=2, name="n"), ("'axis'", "got 2", "'argsort'")),
    ],
)
def test_what_does_not_fit_is_named(symbol: sym.Symbol, words: tuple[str, ...]):
    with pytest.raises(InferenceError) as error:
        symbol.infer_shape(x=(2, 3))
    assert all(word in str(error.value) for word in (*words, "'n'")), str(error.value)


def test_unknown_choices_are_refused():
    with pytest.raises(ParamError, match="ret_typ expect one of 'both', 'indices', 'mask', 'value'"):
        sym.topk(X, ret_typ="values")
    with pytest.raises(ParamError, match="dtype expect one of"):
        sym.argsort(X, dtype="int8")


# -- what XLA makes of it --------------------------------------------------------------------------------------------


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    "symbol", [sym.sort(X, axis=1), sym.topk(X, k=0, ret_typ="value"), sym.topk(X, k=2, ret_typ="both")]
)
def test_value_and_gradient_share_one_ordering(symbol: sym.Symbol):
    heads = [jnp.ones(shape) for shape in symbol.infer_shape(x=(8, 16))[1]]
    function = lowering.grad_fn(symbol)
    compiled = jax.jit(lambda x: function({"x": x}, head_grads=heads)[:2]).lower(jnp.ones((8, 16))).compile().as_text()
    assert compiled is not None
    assert compiled.count(" sort(") + compiled.count('"TopK"') + compiled.count(" topk(") == 1
