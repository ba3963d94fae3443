"""Pooling: inference backwards, refusals, ties and special values, and conventions by their definition."""

import math
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import lowering
import symjax_nnvm as nn
from lowering.ops.nn import pooling, window_places
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.ops.nn import pooling as windowing
from tests.support.comparison import assert_close
from tests.support.refusals import refused
from tests.support.traced import evaluated

DATA = sym.Variable("data")


def pool(**params: Any) -> sym.Symbol:
    return sym.Pooling(DATA, name="pool", **params)


def value_and_gradient(data: Any, head: Any = None, **params: Any) -> tuple[np.ndarray, np.ndarray]:
    net = pool(**params)
    data = np.asarray(data)
    (out,), _ = evaluated(lowering.to_jax(net), {"data": data})
    heads = [np.ones(out.shape, data.dtype) if head is None else head]
    _, grads, _ = evaluated(lambda args, heads: lowering.grad_fn(net)(args, head_grads=heads), {"data": data}, heads)
    return np.asarray(out), np.asarray(grads["data"])


# -- inference -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("convention", "kernel", "stride", "pad", "size"),
    [
        *(("valid", 3, 2, 0, 2), ("full", 3, 2, 0, 3), ("same", 3, 2, 0, 3), ("valid", 3, 2, 1, 3)),
        *(("full", 3, 2, 1, 4), ("valid", 6, 1, 0, 1), ("full", 1, 4, 0, 3)),
    ],
)
def test_output_sizes(convention: str, kernel: int, stride: int, pad: int, size: int):
    net = pool(kernel=(kernel,), stride=(stride,), pad=(pad,), pooling_convention=convention)
    assert net.infer_shape(data=(1, 2, 6))[1] == [(1, 2, size)]


def test_batch_and_channels_are_learnt_from_the_result():
    net = pool(kernel=(2, 2)) + sym.Variable("like", shape=(3, 4, 5, 5))
    assert net.infer_shape_partial()[0][0] == (3, 4, 0, 0)
    net = pool(global_pool=True, layout="NHWC") + sym.Variable("like", shape=(3, 1, 1, 4))
    assert net.infer_shape_partial(data=(0, 7, 0, 0))[0][0] == (3, 7, 0, 4)


def test_global_pooling_ignores_kernel_stride_and_pad():
    net = pool(global_pool=True, kernel=(9, 9), stride=(7, 7), pad=(5, 5))
    assert net.infer_shape(data=(2, 3, 4, 5))[1] == [(2, 3, 1, 1)]


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, ("kernel", "0D pooling not supported")),
        ({"kernel": (1, 1, 1, 1)}, ("kernel", "4D pooling not supported")),
        ({"kernel": (0, 1)}, ("kernel", "≥ 1")),
        ({"kernel": (2, 2), "stride": (1, 0)}, ("stride", "≥ 1")),
        ({"kernel": (2, 2), "pad": (0, -1)}, ("pad", "≥ 0")),
        ({"kernel": (2, 2), "stride": (1,)}, ("stride=(1,)", "2 numbers")),
        ({"kernel": (2, 2), "pad": (1,)}, ("pad=(1,)", "2 numbers")),
        ({"kernel": (2,), "pooling_convention": "same", "pad": (1,)}, ("pad=(1,)", "Same pooling convention")),
        ({"kernel": (2,), "pool_type": "lp"}, ("p_value", "required")),
        ({"kernel": (2,), "pool_type": "lp", "p_value": 4}, ("p_value", "≤ 3")),
        ({"kernel": (2,), "layout": "NHWC"}, ("layout='NHWC'", "1 spatial axes")),
    ],
)
def test_impossible_parameters_are_named(params: dict[str, Any], words: tuple[str, ...]):
    with refused(ParamError, "Pooling", *words):
        pool(**params)


@pytest.mark.parametrize(
    ("params", "shape", "words"),
    [
        ({"kernel": (4, 1)}, (1, 2, 3, 3), ("kernel", "(4) exceeds input (3 padded to 3)", "at most 3")),
        ({"kernel": (2,)}, (1, 2, 3, 3), ("kernel", "3 axes, NCW", "(1, 2, 3, 3)")),
        ({"kernel": (2, 2)}, (2, 3), ("kernel", "4 axes", "(2, 3)")),
        ({"global_pool": True}, (2, 3), ("3, 4 or 5 axes", "(2, 3)")),
        ({"global_pool": True, "layout": "NHWC"}, (2, 3, 4), ("layout", "4 axes, NHWC", "(2, 3, 4)")),
    ],
)
def test_impossible_shapes_are_named(params: dict[str, Any], shape: tuple[int, ...], words: tuple[str, ...]):
    with refused(InferenceError, "Pooling", "pool", *words):
        pool(**params).infer_shape(data=shape)


# -- maxima ----------------------------------------------------------------------------------------------------------


@pytest.mark.nightly("every kind of window", but_one_in=2)
@pytest.mark.slow("computes much")
@pytest.mark.parametrize(
    ("params", "gradient"),
    [
        ({"kernel": (2, 2)}, [[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 0]]),
        ({"kernel": (2, 2), "stride": (2, 2)}, [[1, 0, 1, 0], [0, 0, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]]),
        (
            {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pooling_convention": "full"},
            [[1, 1, 0, 1], [1, 1, 0, 1], [0, 0, 0, 0], [1, 1, 0, 1]],
        ),
        ({"global_pool": True}, [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]),
    ],
)
def test_of_equal_elements_the_first_receives_the_gradient(params: dict[str, Any], gradient: list[list[int]]):
    _, grad = value_and_gradient(np.zeros((1, 1, 4, 4), np.float32), pool_type="max", **params)
    np.testing.assert_array_equal(grad[0, 0], gradient)


@pytest.mark.slow("computes much")
def test_a_window_of_padding_alone_is_the_lowest_number_and_has_no_gradient():
    out, grad = value_and_gradient(
        np.arange(6, dtype=np.float32).reshape(1, 1, 6), kernel=(1,), stride=(3,), pooling_convention="full"
    )
    np.testing.assert_array_equal(out[0, 0], [0, 3, np.finfo(np.float32).min])
    np.testing.assert_array_equal(grad[0, 0], [1, 0, 0, 1, 0, 0])


@pytest.mark.slow("computes much")
@pytest.mark.parametrize("params", [{"stride": (2,)}, {"stride": (1,)}])
def test_nan_spreads_to_its_windows_which_then_have_no_gradient(params: dict[str, Any]):
    out, grad = value_and_gradient(np.asarray([[[1, np.nan, 3, 2]]], np.float32), kernel=(2,), **params)
    assert np.isnan(out[0, 0, 0])
    assert out[0, 0, -1] == 3
    np.testing.assert_array_equal(grad[0, 0], [0, 0, 1, 0])


@pytest.mark.nightly("every kind of window", but_one_in=2)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "pad"),
    [
        ((2, 3, 12, 11), (3, 3), (2, 2), (1, 1)),
        ((2, 3, 12, 11), (2, 3), (2, 3), (0, 0)),
        ((1, 2, 9, 10), (4, 2), (3, 5), (2, 1)),
        ((1, 2, 8, 9), (5, 5), (1, 1), (2, 2)),
    ],
)
def test_the_gradient_of_maxima_is_that_of_xla(
    shape: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...], pad: tuple[int, ...]
):
    data = np.random.RandomState(0).permutation(np.prod(shape)).reshape(shape).astype(np.float32)

    def by_xla(x: jax.Array) -> jax.Array:
        padding = [(0, 0), (0, 0), *((p, p) for p in pad)]
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, *kernel), (1, 1, *stride), padding)

    expected, pull = jax.vjp(by_xla, jnp.asarray(data))
    head = np.random.RandomState(1).randn(*expected.shape).astype(np.float32)
    out, grad = value_and_gradient(data, head, kernel=kernel, stride=stride, pad=pad)
    np.testing.assert_array_equal(out, expected)
    assert_close(grad, pull(head)[0], 1e-6, "gradient")


def test_the_gradient_of_maxima_avoids_select_and_scatter():
    grad = lowering.grad_fn(pool(kernel=(3, 3), stride=(2, 2), pad=(1, 1)))
    data, head = jnp.ones((1, 2, 8, 8)), jnp.ones((1, 2, 4, 4))
    text = jax.jit(lambda x: grad({"data": x}, head_grads=[head])[1]).lower(data).as_text()
    assert "select_and_scatter" not in text


# -- places of windows -----------------------------------------------------------------------------------------------


@pytest.mark.nightly("every kind of window", but_one_in=3)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    ("shape", "params"),
    [
        ((2, 2, 8, 7), {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 0)}),
        ((2, 8, 7, 2), {"kernel": (5, 2), "stride": (2, 1), "pad": (4, 1), "layout": "NHWC"}),
        ((1, 2, 9, 10), {"kernel": (2, 3), "stride": (5, 4), "pad": (1, 2), "pooling_convention": "full"}),
        ((1, 1, 6, 7), {"kernel": (4, 3), "stride": (10**6, 2)}),
        ((1, 2, 7), {"kernel": (1,), "stride": (3,), "pooling_convention": "full"}),
    ],
)
def test_adding_where_windows_overlap_is_the_transpose_of_reading_their_elements(
    shape: tuple[int, ...], params: dict[str, Any]
):
    w = windowing.windows(windowing.PoolingParams(**params), shape)
    rng = np.random.default_rng(2)
    x = rng.integers(-4, 5, shape).astype(np.float32)
    padded = pooling.reached(jnp.asarray(x), w, 0)
    read = [np.asarray(pooling.element(padded, w, i)) for i in range(math.prod(w.kernel))]
    weights = rng.integers(-4, 5, (len(read), *read[0].shape)).astype(np.float32)
    added = pooling.overlap_add(lambda i, at: at(jnp.asarray(weights[int(i)])), shape, w)
    assert np.vdot(added, x) == np.vdot(weights, read)


# -- sums, means, norms ----------------------------------------------------------------------------------------------


@pytest.mark.slow("computes much")
def test_a_mean_counts_padding_as_far_as_pad_says_and_not_beyond():
    ones = np.ones((1, 1, 6), np.float32)
    params = {"pool_type": "avg", "kernel": (3,), "stride": (2,), "pooling_convention": "full"}
    np.testing.assert_allclose(value_and_gradient(ones, **params)[0][0, 0], [1, 1, 1])
    padded = params | {"pad": (1,)}
    np.testing.assert_allclose(value_and_gradient(ones, **padded)[0][0, 0], [2 / 3, 1, 1, 1 / 2])
    excluded = padded | {"count_include_pad": False}
    np.testing.assert_allclose(value_and_gradient(ones, **excluded)[0][0, 0], [1, 1, 1, 1])


def test_the_gradient_of_a_mean_divides_as_the_mean_does():
    """MXNet's oneDNN kernels divide by the whole window here."""
    _, grad = value_and_gradient(
        np.ones((1, 1, 6), np.float32), pool_type="avg", kernel=(3,), stride=(2,), pooling_convention="full"
    )
    np.testing.assert_allclose(grad[0, 0], [1 / 3, 1 / 3, 2 / 3, 1 / 3, 5 / 6, 1 / 2], rtol=1e-6)


def test_the_gradient_of_sums_takes_no_window_reduction():
    """XLA:CPU does not vectorise it: 30 ms for float32[16, 64, 112, 112] where slices and sums take 4."""
    grad = lowering.grad_fn(pool(kernel=(3, 3), stride=(2, 2), pool_type="avg"))
    data, head = jnp.ones((1, 2, 8, 8)), jnp.ones((1, 2, 3, 3))
    text = jax.jit(lambda x: grad({"data": x}, head_grads=[head])[1]).lower(data).as_text()
    assert "reduce_window" not in text


def test_the_mean_of_an_empty_window_is_zero():
    for include in (True, False):
        out, grad = value_and_gradient(
            np.ones((1, 1, 6), np.float32), pool_type="avg", kernel=(1,), stride=(3,), count_include_pad=include,
            pooling_convention="full",
        )  # fmt: skip
        np.testing.assert_array_equal(out[0, 0], [1, 1, 0])
        np.testing.assert_array_equal(grad[0, 0], [1, 0, 0, 1, 0, 0])


@pytest.mark.slow("computes much")
def test_norms_keep_signs_and_have_gradient_0_at_0():
    data = np.asarray([[[-1, 2, -3, 1, 0, 0]]], np.float32)
    params = {"pool_type": "lp", "kernel": (2,), "stride": (2,)}
    out, grad = value_and_gradient(data, p_value=1, **params)
    np.testing.assert_array_equal(out[0, 0], [1, -2, 0])
    np.testing.assert_array_equal(grad[0, 0], np.ones(6))
    out, grad = value_and_gradient(data, p_value=2, **params)
    np.testing.assert_allclose(out[0, 0], np.sqrt([5, 10, 0]), rtol=1e-6)
    np.testing.assert_allclose(grad[0, 0], data[0, 0] / np.sqrt([5, 5, 10, 10, 1, 1]), rtol=1e-6)
    out, grad = value_and_gradient(data, p_value=3, **params)
    np.testing.assert_allclose(out[0, 0], np.cbrt([7, -26, 0]), rtol=1e-6)
    np.testing.assert_allclose(grad[0, 0, -2:], [0, 0])


@pytest.mark.slow("computes much")
def test_half_precision_is_summed_in_single():
    data = np.full((1, 1, 4096), 1.0, np.float16)
    out, grad = value_and_gradient(data, pool_type="avg", global_pool=True)
    assert out.dtype == grad.dtype == np.float16
    assert out[0, 0, 0] == 1


# -- windows of many places ------------------------------------------------------------------------------------------


@pytest.mark.nightly("every kind of window", but_one_in=3)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("operator", ["Pooling", "Pooling_v1"])
@pytest.mark.parametrize(
    "params",
    [
        {"kernel": (3, 2), "stride": (2, 3), "pad": (1, 1)},
        {"kernel": (2, 3), "stride": (1, 1), "pooling_convention": "full"},
        {"kernel": (4, 2), "stride": (3, 4), "pooling_convention": "full"},
    ],
)
def test_the_places_of_a_window_in_a_loop_give_what_they_give_one_by_one(
    monkeypatch: pytest.MonkeyPatch, operator: str, params: dict[str, Any]
):
    rng = np.random.default_rng(3)
    data = rng.integers(-2, 3, (2, 2, 8, 9)).astype(np.float32)  # with ties
    data[0, 0] = -np.inf
    net = getattr(sym, operator)(DATA, pool_type="max", **params)
    first = net.gradient(["data"], head_grads=[sym.Variable("head")])
    head_values = rng.normal(size=net.infer_shape(data=data.shape)[1][0]).astype(np.float32)
    second = first.gradient(["head"], head_grads=[sym.Variable("direction")])
    args = {"data": data, "head": head_values, "direction": rng.normal(size=data.shape).astype(np.float32)}
    nets = [(net, {"data": data}), (first, {"data": data, "head": head_values}), (second, args)]
    for symbol, values in nets:
        values = {name: values[name] for name in symbol.list_arguments()}
        with monkeypatch.context() as patch:
            patch.setattr(window_places, "WRITTEN_OUT", 0)
            in_turn = evaluated(lowering.to_jax(symbol), values)[0]
        for a, b in zip(in_turn, evaluated(lowering.to_jax(symbol), values)[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("operator", ["Pooling", "Pooling_v1"])
def test_the_gradient_of_a_large_window_is_a_small_program(operator: str):
    """It had a few operations for each place of the window: XLA took a minute, tracing 20 s for such a window."""
    net = getattr(sym, operator)(DATA, pool_type="max", kernel=(100, 200), stride=(1, 1))
    args = {"data": jax.ShapeDtypeStruct((1, 1, 200, 300), np.dtype("float32"))}
    heads = [jax.ShapeDtypeStruct((1, 1, 101, 101), np.dtype("float32"))]
    program = jax.make_jaxpr(lowering.grad_fn(net, ["data"], is_train=True))(args, {}, jax.random.key(0), heads)
    assert len(str(program)) < 20_000


# -- windows far larger than data ------------------------------------------------------------------------------------

LONG_WINDOWS = [
    ((1, 2, 5, 6), {"kernel": (8, 9), "pad": (7, 8)}),
    ((1, 2, 5, 6), {"kernel": (7, 3), "pad": (6, 2), "stride": (2, 1)}),
    ((1, 1, 5, 6), {"kernel": (12, 12), "pad": (11, 11), "stride": (3, 5), "pooling_convention": "full"}),
    ((2, 6, 5, 3), {"kernel": (8, 9), "pad": (7, 8), "layout": "NHWC"}),
    ((1, 1, 7), {"kernel": (20,), "pad": (19,)}),
]


@pytest.mark.nightly("every kind of pooling of every shape", but_one_in=7)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("pool_type", ["max", "avg", "sum", "lp"])
@pytest.mark.parametrize(("shape", "params"), LONG_WINDOWS)
def test_long_windows_along_one_axis_after_the_other_are_windows(
    shape: tuple[int, ...], params: dict[str, Any], pool_type: str, monkeypatch: pytest.MonkeyPatch
):
    """Value, gradient, and the gradient's gradient; there are equal maxima."""
    monkeypatch.setattr(window_places, "WRITTEN_OUT", 0)
    data = np.round(np.random.RandomState(0).randn(*shape) * 2).astype(np.float32)
    net = pool(pool_type=pool_type, p_value=2, **params)
    gradient = net.gradient(["data"], head_grads=sym.Variable("head"))
    found = []
    for long in (windowing.LONG, 1):
        monkeypatch.setattr(windowing, "LONG", long)
        out = evaluated(lowering.to_jax(net), {"data": data})[0][0]
        head = np.random.RandomState(1).randn(*out.shape).astype(np.float32)
        args = {"data": data, "head": head}
        second = lowering.grad_fn(gradient, ["head"])
        (grad,), seconds, _ = evaluated(lambda args, heads, run=second: run(args, head_grads=heads), args, [data])
        found.append((out, grad, seconds["head"]))
    for whole, along in zip(*found, strict=True):
        assert_close(along, whole, 1e-5, "windows")


@pytest.mark.slow("computes much")
@pytest.mark.parametrize("pool_type", ["max", "avg"])
def test_a_window_of_a_million_elements_over_sixteen_takes_no_time(pool_type: str):
    """Its cost was that of the window, 10¹² operations."""
    net = pool(pool_type=pool_type, kernel=(1000, 1000), pad=(999, 999), count_include_pad=False)
    data = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    start = time.process_time()
    out, gradient = value_and_gradient(
        data, np.ones((1, 1, 1003, 1003), np.float32), pool_type=pool_type, kernel=(1000, 1000), pad=(999, 999)
    )
    assert time.process_time() - start < 60
    assert out.shape == (1, 1, 1003, 1003)
    if pool_type == "max":
        assert out[0, 0, 0, 0] == 0
        assert out[0, 0, 500, 500] == out[0, 0, -1, -1] == 15
        assert gradient.sum() == 1003**2
    assert nn.check(net, shapes={"data": (1, 1, 4, 4)}).ok
    assert nn.estimate(net, {"data": (1, 1, 4, 4)}).flops < 1e8


def test_longer_windows_see_a_beginning_an_end_all_or_nothing():
    w = windowing.windows(pool(kernel=(9,), pad=(8,)).outputs[0].node.attrs.parsed, (1, 1, 3))
    clipped, which = w.clipped()
    assert (clipped.kernel, clipped.pads, clipped.counts) == ((3,), (3,), (7,))
    assert which is not None
    assert which.tolist() == [1, 2, 3, 3, 3, 3, 3, 3, 3, 4, 5]


@pytest.mark.nightly("more random windows", but_one_in=12)
@pytest.mark.slow("computes much")
@pytest.mark.parametrize("pool_type", ["max", "sum", "avg", "lp"])
@pytest.mark.parametrize("seed", range(6))
def test_long_windows_that_overlap_are_reduced_by_doubling(pool_type: str, seed: int):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(150, 260, 2)
    kernel, stride, pad = rng.integers(60, 140, 2), rng.integers(1, 4, 2), rng.integers(0, 40, 2)
    how: dict[str, Any] = {"pool_type": pool_type, **({"p_value": 2} if pool_type == "lp" else {})}
    params: dict[str, Any] = {
        "kernel": tuple(map(int, kernel)),
        "stride": tuple(map(int, stride)),
        "pad": tuple(map(int, pad)),
    }
    x = rng.uniform(-1, 1, (1, 1, *sizes)).astype("float32")
    (found,), _ = evaluated(lowering.to_jax(sym.Pooling(sym.Variable("x"), **how, **params)), {"x": x})
    fill = -np.inf if pool_type == "max" else 0
    padded = np.pad(x[0, 0].astype("float64"), [(p, p) for p in pad], constant_values=fill)
    expected = padded**2 if pool_type == "lp" else padded
    reduce = {"max": np.max, "avg": np.mean, "sum": np.sum, "lp": np.sum}[pool_type]
    for axis in (0, 1):
        windows = np.lib.stride_tricks.sliding_window_view(expected, int(kernel[axis]), axis)
        expected = np.moveaxis(reduce(np.moveaxis(windows, axis, 0)[:: stride[axis]], axis=-1), 0, axis)
    expected = np.sqrt(expected) if pool_type == "lp" else expected
    np.testing.assert_allclose(found[0, 0], expected, rtol=2e-4, atol=1e-4)


@pytest.mark.nightly("computes much")
def test_large_windows_over_large_images_take_no_longer_than_their_elements():
    """One number for each element of each window took half a minute."""
    run = lowering.compile(sym.Pooling(sym.Variable("x"), kernel=(1000, 1000)))
    x = np.random.default_rng(0).uniform(size=(1, 1, 3000, 3000)).astype("float32")
    began = time.process_time()
    (found,), _ = run({"x": x})
    corner = np.asarray(found[0, 0, -1, -1])
    assert time.process_time() - began < 10
    assert corner == x[0, 0, -1000:, -1000:].max()


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize(
    ("size", "options"), [(8, {"kernel": (3,), "stride": (3,), "pad": (1,), "pooling_convention": "full"})]
)
def test_the_maximum_of_a_window_outside_the_data_is_the_lowest_number(size: int, options: Any, dtype: Any):
    net = sym.Pooling(sym.Variable("data"), pool_type="max", **options)
    data = np.arange(1, size + 1, dtype=dtype).reshape(1, 1, size)
    (out,), _ = evaluated(lowering.to_jax(net), {"data": data})
    assert np.asarray(out)[np.asarray(out) < 1].tolist() == [np.finfo(dtype).min]
    _, grads, _ = evaluated(lowering.grad_fn(net), {"data": data}, head_grads=[np.ones(out.shape, dtype)])
    assert np.asarray(grads["data"]).sum() == out.size - 1
