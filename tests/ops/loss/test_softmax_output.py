"""SoftmaxOutput and softmax_cross_entropy: labels, quirks, refusals, and the code XLA makes of them."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from lowering.jax_casts import cast
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.ops.linalg.test_dot import instructions
from tests.support.traced import evaluated

DATA, LABEL = sym.Variable("data"), sym.Variable("label")
RNG = np.random.RandomState(1)


def head(**params) -> sym.Symbol:
    return sym.SoftmaxOutput(DATA, LABEL, name="softmax", **params)


def gradient(net: sym.Symbol, data: np.ndarray, label, head_grads=None) -> np.ndarray:
    args = {"data": jnp.asarray(data), "label": jnp.asarray(label, data.dtype)}
    return np.asarray(evaluated(lowering.grad_fn(net, ["data"]), args, head_grads=head_grads)[1]["data"])


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


# -- labels ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "data", "label"),
    [
        ({}, (4, 3), (4,)),
        ({}, (4, 3, 2), (4, 3)),
        ({"preserve_shape": True}, (4, 3, 2), (4, 3)),
        ({"multi_output": True}, (4, 3, 2), (4, 2)),
        ({"multi_output": True}, (4, 3, 2, 5), (4, 10)),
        ({"multi_output": True}, (4, 3), (4, 1)),
    ],
)
def test_the_label_is_inferred_from_data(params: dict, data: tuple[int, ...], label: tuple[int, ...]):
    assert head(**params).infer_shape(data=data) == ([data, label], [data], [])


def test_the_batch_is_inferred_from_the_label():
    assert head().infer_shape_partial(data=(0, 3), label=(4,))[0] == [(4, 3), (4,)]
    assert head(preserve_shape=True).infer_shape_partial(data=(0, 0, 3), label=(4, 2))[0] == [(4, 2, 3), (4, 2)]
    assert head(multi_output=True).infer_shape_partial(data=(0, 3, 2), label=(4, 0))[0] == [(4, 3, 2), (4, 2)]


def test_an_automatic_label_is_named_after_the_head():
    assert sym.SoftmaxOutput(DATA, name="softmax").list_arguments() == ["data", "softmax_label"]


def test_the_label_receives_zeros():
    args = {"data": np.ones((2, 3), np.float32), "label": np.array([0, 2], np.float32)}
    np.testing.assert_array_equal(evaluated(lowering.grad_fn(head()), args)[1]["label"], [0, 0])


@pytest.mark.slow("computes much")
def test_a_fractional_label_is_truncated_and_a_label_that_is_no_class_asks_for_nothing():
    data = RNG.randn(3, 3).astype(np.float32)
    expected = softmax(data)
    expected[0, 1] -= 1
    np.testing.assert_allclose(gradient(head(), data, [1.7, 5, -1]), expected, rtol=1e-5)


# -- quirks ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow("computes much")
def test_multi_output_divides_by_the_number_of_places_unless_normalization_is_valid():
    data, label = RNG.randn(2, 4, 5).astype(np.float32), np.zeros((2, 5))
    residual = softmax(data, 1) - np.eye(4)[:, 0, None]
    for normalization, divisor in (("null", 5), ("batch", 10), ("valid", 10)):
        net = head(multi_output=True, normalization=normalization)
        np.testing.assert_allclose(gradient(net, data, label), residual / divisor, rtol=1e-5, atol=1e-7)


def test_smooth_alpha_has_no_effect_with_multi_output():
    data, label = RNG.randn(2, 4, 5).astype(np.float32), np.zeros((2, 5))
    plain, smooth = (gradient(head(multi_output=True, smooth_alpha=a), data, label) for a in (0.0, 0.5))
    np.testing.assert_array_equal(plain, smooth)


def test_probabilities_as_labels_heed_only_grad_scale():
    data, label = RNG.randn(2, 3).astype(np.float32), RNG.uniform(0, 1, (2, 3))
    net = head(grad_scale=2.0, normalization="batch", use_ignore=True, ignore_label=0)
    np.testing.assert_allclose(gradient(net, data, label), 2 * (softmax(data) - label), rtol=1e-5, atol=1e-6)


def test_a_batch_without_valid_labels_has_no_gradient():
    net = head(use_ignore=True, normalization="valid")
    np.testing.assert_array_equal(gradient(net, np.ones((2, 3), np.float32), [-1, -1]), np.zeros((2, 3)))


def test_out_grad_multiplies_with_the_head_gradient():
    """Deviation: MXNet 1.9 multiplies with the output instead."""
    data, grads = RNG.randn(2, 3).astype(np.float32), RNG.randn(2, 3).astype(np.float32)
    expected = gradient(head(), data, [0, 2]) * grads
    np.testing.assert_allclose(gradient(head(out_grad=True), data, [0, 2], [grads]), expected, rtol=1e-6)


def test_softmax_with_a_capital_is_softmax_output():
    assert sym.Softmax(DATA, name="s").list_arguments() == ["data", "s_label"]


@pytest.mark.slow("compiles")
def test_cross_entropy_stops_at_a_probability_of_1e_8_and_its_gradient_does_not():
    net = sym.softmax_cross_entropy(DATA, LABEL)
    data = np.array([[-100, 0]], np.float32)
    (out,), _ = evaluated(lowering.to_jax(net), {"data": data, "label": np.zeros(1, np.float32)})
    np.testing.assert_allclose(out, [-np.log(1e-8)], rtol=1e-6)
    np.testing.assert_allclose(gradient(net, data, [0]), [[-1, 1]])


@pytest.mark.slow("computes much")
def test_cross_entropy_heeds_the_head_gradient():
    data = RNG.randn(2, 3).astype(np.float32)
    net = sym.softmax_cross_entropy(DATA, LABEL)
    one, three = (gradient(net, data, [0, 2], [np.array([h], np.float32)]) for h in (1, 3))
    np.testing.assert_allclose(three, 3 * one, rtol=1e-6)


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("net", "shapes", "words"),
    [
        (head(), {"data": (2, 3), "label": (3,)}, r"'SoftmaxOutput', node 'softmax', input 'label'; expected \(2,\)"),
        (head(), {"data": (2,)}, r"an axis each; expected at least 2 axes; got \(2,\)"),
        (
            head(multi_output=True),
            {"data": (2, 3, 4, 5), "label": (40,)},
            r"input 'label'; expected \(2, 20\) or \(2, 4, 5\) or \(2, 1, 4, 5\); got \(40,\)",
        ),
        (
            sym.softmax_cross_entropy(DATA, LABEL, name="ce"),
            {"data": (2, 3, 4), "label": (2,)},
            r"'softmax_cross_entropy', node 'ce', input 'data'; expected \(2, \?\); got \(2, 3, 4\)",
        ),
    ],
    ids=lambda value: None,
)
def test_shapes_that_do_not_fit_are_named(net: sym.Symbol, shapes: dict[str, tuple[int, ...]], words: str):
    with pytest.raises(InferenceError, match=words):
        net.infer_shape(**shapes)


def test_parameters_are_checked_when_the_node_is_made():
    with pytest.raises(ParamError, match="'smooth_alpha'; expected float ≥ 0 ≤ 1; got 2"):
        head(smooth_alpha=2)
    with pytest.raises(ParamError, match="normalization expect one of 'batch', 'null', 'valid'"):
        head(normalization="mean")


def test_data_and_label_have_one_dtype():
    with pytest.raises(InferenceError, match="input 'label'; expected float32; got int32"):
        head().infer_type(data="float32", label="int32")


# -- what XLA makes of it --------------------------------------------------------------------------------------------


@pytest.mark.slow("compiles")
def test_forward_and_gradient_compile_to_the_code_of_hand_written_jax():
    args = {"data": jnp.ones((8, 10)), "label": jnp.zeros(8)}
    program = lowering.grad_fn(head(), ["data"])

    def ours(args):
        outputs, grads, _ = program(args)
        return outputs[0], grads["data"]

    def by_hand(args):
        p = jax.nn.softmax(args["data"])
        return p, p - jax.nn.one_hot(cast(args["label"], jnp.int32), 10)

    assert instructions(ours, args) == instructions(by_hand, args)


@pytest.mark.parametrize("operator", [sym.SoftmaxOutput, sym.SVMOutput])
def test_a_label_of_nan_is_no_class(operator: Callable[..., sym.Symbol]):
    """MXNet's label is the least integer; XLA's would be class 0."""
    rows = gradient(operator(DATA, LABEL), np.array([[1, 2, 3]] * 3, np.float32), [np.nan, -1, 1e10])
    np.testing.assert_array_equal(rows, rows[[1, 1, 1]])
    assert (rows > 0).all()
