"""Where MXNet 1.9.1 is wrong, undefined or refuses, and this library is not: one test each, and what `check` says."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.attributes import FDeviation
from symjax_nnvm.ir.op import Op
from symjax_nnvm.symbol import Symbol
from tests.support.traced import evaluated

X, I = sym.Variable("x"), sym.Variable("i")  # noqa: E741  (indices)


def run(symbol: Symbol, *, is_train: bool = False, **args: Any) -> np.ndarray:
    outputs, _ = evaluated(lowering.to_jax(symbol, is_train=is_train), args, {}, jax.random.key(0))
    return np.asarray(outputs[0])


def gradient(symbol: Symbol, wrt: str, head: Any, **args: Any) -> np.ndarray:
    _, grads, _ = evaluated(lowering.grad_fn(symbol, [wrt]), args, {}, jax.random.key(0), [jnp.asarray(head)])
    return np.asarray(grads[wrt])


def declared(symbol: Symbol) -> str | None:
    """What the last operator's declaration says to its node: nothing where it does not deviate."""
    node = symbol.outputs[0].node
    found = FDeviation[node.op](node.attrs)
    return found and found.what


@pytest.mark.slow("computes much")
def test_deviation_prelu_has_the_gradient_of_gamma_inside_a_network_too():
    x = np.array([[-1.0, 2.0, -3.0], [-0.5, -1.0, 1.0]], np.float32)
    gamma = np.array([0.1, 0.5, 0.7], np.float32)
    inner = sym.LeakyReLU(X * 2, sym.Variable("gamma"), act_type="prelu")
    found = gradient(sym.sum(inner), "gamma", np.ones(1, np.float32), x=x, gamma=gamma)
    np.testing.assert_allclose(found, np.where(x > 0, 0, 2 * x).sum(0), rtol=1e-6)  # MXNet's is this times gamma
    assert "gamma" in (declared(inner) or "")
    assert declared(sym.LeakyReLU(X)) is None


@pytest.mark.slow("computes much")
def test_deviation_softmax_activation_of_more_than_two_axes_has_the_gradient_of_its_output():
    rng = np.random.RandomState(0)
    x, head = rng.uniform(-1, 1, (2, 3, 4)).astype(np.float32), rng.uniform(-1, 1, (2, 3, 4)).astype(np.float32)
    symbol = sym.SoftmaxActivation(X)
    y = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    np.testing.assert_allclose(run(symbol, x=x), y, rtol=1e-5)  # as MXNet's
    expected = y * (head - (head * y).sum(-1, keepdims=True))
    np.testing.assert_allclose(gradient(symbol, "x", head, x=x), expected, rtol=1e-4, atol=1e-6)
    assert "two axes" in (declared(symbol) or "")
    assert declared(sym.SoftmaxActivation(X, mode="channel")) is None


@pytest.mark.slow("computes much")
def test_deviation_dropout_acts_between_the_layers_of_a_recurrent_network():
    names = [sym.Variable(name) for name in ("x", "weights", "state")]
    rng = np.random.RandomState(0)

    def layers(p: float, count: int = 2) -> Symbol:
        return sym.RNN(*names, state_size=4, num_layers=count, mode="rnn_tanh", p=p)

    shapes = dict(zip(("x", "weights", "state"), layers(0.5).infer_shape(x=(3, 2, 5))[0], strict=True))
    args = {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    dropped, whole = (run(layers(p), is_train=True, **args) for p in (0.5, 0.0))
    assert np.abs(dropped - whole).max() > 1e-3
    np.testing.assert_array_equal(run(layers(0.5), **args), run(layers(0.0), **args))
    assert "dropout" in (declared(layers(0.5)) or "")
    assert declared(layers(0.0)) is declared(layers(0.5, count=1)) is None


@pytest.mark.slow("computes much")
def test_deviation_gather_nd_clips_indices_and_has_gradients_at_negative_ones():
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    symbol = sym.gather_nd(X, I)
    assert run(symbol, x=x, i=np.array([[0, 3, 100, -1]])).tolist() == [[0, 1], [4, 5], [4, 5], [4, 5]]
    found = gradient(symbol, "x", np.ones((2, 2), np.float32), x=x, i=np.array([[-1, 1]], np.float32))
    assert found.tolist() == [[0, 0], [1, 1], [1, 1]]
    assert "clipped" in (declared(symbol) or "")


def test_deviation_take_in_mode_raise_clips():
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    symbol = sym.take(X, I, mode="raise")
    assert run(symbol, x=x, i=np.array([-7, 1, 5])).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert "clipped" in (declared(symbol) or "")
    assert declared(sym.take(X, I)) is None


def test_deviation_dropout_of_everything_gives_zeros():
    x = np.ones((2, 3), np.float32)
    symbol = sym.Dropout(X, p=1.0)
    assert not run(symbol, is_train=True, x=x).any()
    assert not gradient(symbol, "x", x, x=x).any()
    assert "NaN" in (declared(symbol) or "")
    assert declared(sym.Dropout(X, p=0.9)) is None


@pytest.mark.slow("computes much")
def test_deviation_batch_take_has_a_gradient():
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    symbol = sym.batch_take(X, I)
    found = gradient(symbol, "x", np.array([1, 2, 3], np.float32), x=x, i=np.array([0, 1, 7], np.int32))
    assert found.tolist() == [[1, 0], [0, 2], [0, 3]]
    assert "gradient" in (declared(symbol) or "")


def test_deviation_tile_repeats_along_four_axes():
    x = np.arange(2, dtype=np.float32)
    symbol = sym.tile(X, reps=(3, 2, 2, 2))
    np.testing.assert_array_equal(run(symbol, x=x), np.tile(x, (3, 2, 2, 2)))
    assert "memory" in (declared(symbol) or "")
    assert declared(sym.tile(X, reps=(3, 1, 2, 2))) is None


@pytest.mark.slow("computes much")
def test_deviation_unravel_index_converts_all_places_of_an_array():
    places = np.array([[0, 5, 41], [7, 12, 30]], np.float32)
    symbol = sym.unravel_index(X, shape=(7, 6))
    np.testing.assert_array_equal(run(symbol, x=places), np.unravel_index(places.astype(int).ravel(), (7, 6)))
    assert symbol.infer_shape(x=(2, 3))[1] == [(2, 6)]
    assert "beyond" in (declared(symbol) or "")


def test_check_names_what_differs():
    report = str(nn.check(sym.Dropout(sym.take(X, I, mode="raise"), p=1.0, name="drop")))
    assert "Indices out of range are clipped; MXNet stops with an error" in report
    assert "In training: p=1 gives zeros" in report


@pytest.mark.slow("computes much")
@pytest.mark.parametrize("length", [8, 16, 17, 40])
def test_deviation_equal_values_keep_their_order_in_lines_of_any_length(length: int):
    """MXNet's sort is not stable from 17 values on; its description says so."""
    x = (np.arange(length) % 3 == 0).astype(np.float32)
    ascending, descending = np.argsort(x, kind="stable"), np.argsort(-x, kind="stable")
    assert run(sym.argsort(X), x=x).tolist() == ascending.tolist()
    assert run(sym.argsort(X, is_ascend=False), x=x).tolist() == descending.tolist()
    for k in (3, length):
        assert run(sym.topk(X, k=k), x=x).tolist() == descending[:k].tolist()
        assert run(sym.topk(X, k=k, is_ascend=True), x=x).tolist() == ascending[:k].tolist()
    assert all("16 values" in Op.get(name).description for name in ("sort", "argsort", "topk"))


def test_deviation_denormals_are_zero():
    (compiled,), _ = lowering.to_jax(sym.exp(X))({"x": np.array([-100, -80], np.float32)})
    assert compiled.tolist() == [0, pytest.approx(np.exp(-80), rel=1e-5)]


def test_deviation_amp_cast_to_integers_is_a_cast():
    for operator in (sym.amp_cast, sym.Cast):
        assert run(operator(X, dtype="uint8"), x=np.array([300.7, -1, 3e9], np.float32)).tolist() == [44, 255, 0]


def test_deviation_indices_that_int32_does_not_hold_are_its_ends():
    indices = np.array([3e9, -3e9, 1e19, np.nan], np.float32)
    rows = np.arange(4, dtype=np.float32)
    assert run(sym.take(X, I), x=rows, i=indices).tolist() == [3, 0, 3, 0]  # MXNet: 3, 0, 0, 0


@pytest.mark.slow("computes much")
def test_classes_that_int32_does_not_hold_are_none():
    """As in MXNet, where one_hot and pick cast to int32, take to int64."""
    indices = np.array([3e9, -3e9, np.nan, 1], np.float32)
    assert run(sym.one_hot(I, depth=2), i=indices).tolist() == [[0, 0], [0, 0], [0, 0], [0, 1]]
    data = np.tile(np.array([1, 2], np.float32), (4, 1))
    assert run(sym.pick(X, I), x=data, i=indices).tolist() == [1, 1, 1, 2]
    data = np.tile(np.array([1, 2, 3], np.float32), (4, 1))
    assert run(sym.pick(X, I, mode="wrap"), x=data, i=indices).tolist() == [2, 2, 2, 2]


@pytest.mark.slow("computes much")
@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("exp", "int8", [1, 72, 0]),
        ("exp", "int32", [1, 1096, -(2**31)]),
        ("gamma", "uint8", [0, 208, 0]),
        ("log", "int32", [-(2**31), 1, 4]),
        ("log", "uint8", [0, 1, 4]),
    ],
)
def test_functions_of_integers_are_cast_back_as_in_mxnet(name: str, dtype: str, expected: list[int]):
    assert run(getattr(sym, name)(X), x=np.array([0, 7, 100], dtype)).tolist() == expected


def test_deviation_filters_of_a_fused_convolution_of_groups_have_levels_of_their_own():
    """MXNet rounds the third filter by the second's, so that it is off by half."""
    random = np.random.default_rng(0)
    size = np.array([4, 1, 2, 3], np.float32).reshape(4, 1, 1, 1)
    weight = size * random.uniform(-1, 1, (4, 3, 3, 3)).astype(np.float32)
    data = random.uniform(0, 1, (2, 6, 5, 5)).astype(np.float32)
    net = sym.Convolution(X, kernel=(3, 3), num_filter=4, num_group=2, no_bias=True, name="conv")
    made = nn.quantize(net, {"conv_weight": weight}, calibration=[data], mode="naive", fused=True)
    expected = run(net, x=data, conv_weight=weight)
    np.testing.assert_allclose(run(made.net, x=data, **made.args), expected, atol=np.abs(expected).max() * 0.015)
    fused = made.net.get_internals()["quantized_sg_mkldnn_conv_0_output"]
    assert "levels of its own" in (declared(fused) or "")
