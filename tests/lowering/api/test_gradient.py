"""`grad_fn` and `differentiable`: head gradients, choice of arguments, states, and JAX transformations around them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import GradientError
from tests.support.traced import evaluated

X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)


def classifier() -> sym.Symbol:
    return sym.SoftmaxOutput(sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc"), name="softmax")


def classifier_args() -> dict[str, np.ndarray]:
    rng = np.random.RandomState(0)
    return {
        "data": rng.randn(4, 5).astype(np.float32),
        "fc_weight": rng.randn(3, 5).astype(np.float32),
        "fc_bias": np.zeros(3, np.float32),
        "softmax_label": np.array([0, 1, 2, 1], np.float32),
    }


@pytest.mark.slow("compiles")
def test_outputs_gradients_and_states_come_together():
    net = sym.make_loss(sym.sum(sym.BatchNorm(sym.Variable("x"), fix_gamma=False, name="bn")))
    args = {"x": X, "bn_gamma": np.ones(3, np.float32), "bn_beta": np.zeros(3, np.float32)}
    aux = {"bn_moving_mean": np.zeros(3, np.float32), "bn_moving_var": np.ones(3, np.float32)}
    outputs, grads, new_aux = evaluated(lowering.grad_fn(net), args, aux)
    assert set(grads) == set(args)
    np.testing.assert_allclose(grads["bn_beta"], [2, 2, 2])
    np.testing.assert_allclose(new_aux["bn_moving_mean"], X.mean(0) * 0.1, rtol=1e-6)
    assert outputs[0].shape == (1,)


@pytest.mark.slow("compiles")
def test_loss_heads_need_no_head_gradient():
    outputs, grads, _ = evaluated(lowering.grad_fn(classifier(), wrt=["fc_bias"]), classifier_args())
    np.testing.assert_allclose(grads["fc_bias"], (outputs[0] - np.eye(3)[[0, 1, 2, 1]]).sum(0), rtol=1e-5, atol=1e-6)


def test_a_head_of_one_element_gets_one():
    grads = evaluated(lowering.grad_fn(sym.sum(sym.Variable("x"))), {"x": X})[1]
    np.testing.assert_array_equal(grads["x"], np.ones_like(X))


def test_any_other_head_without_gradient_is_an_error_that_says_so():
    with pytest.raises(GradientError, match=r"head_gradient is required.*shape \(2, 3\).*make_loss symbol"):
        lowering.grad_fn(sym.exp(sym.Variable("x"), name="e"))({"x": X})


def test_head_gradients_are_aligned_with_the_outputs():
    x = sym.Variable("x")
    gradient = lowering.grad_fn(sym.Group([x * 2, x * 3]))
    grads = gradient({"x": X}, head_grads=[np.ones_like(X), 10 * np.ones_like(X)])[1]
    np.testing.assert_array_equal(grads["x"], np.full_like(X, 32))
    with pytest.raises(GradientError, match="The number of head gradients is wrong; expected 2"):
        gradient({"x": X}, head_grads=[np.ones_like(X)])
    with pytest.raises(GradientError, match=r"wrong shape.*expected \(2, 3\); got \(3,\)"):
        gradient({"x": X}, head_grads=[np.ones_like(X), np.ones(3)])


def test_a_loss_head_beside_a_plain_output_needs_only_the_plain_ones_gradient():
    args = classifier_args()
    net = classifier()
    both = sym.Group([net, net.get_internals()["fc_output"]])
    grads = evaluated(lowering.grad_fn(both, wrt=["fc_bias"]), args, head_grads=[None, np.zeros((4, 3))])[1]
    expected = evaluated(lowering.grad_fn(net, wrt=["fc_bias"]), args)[1]
    np.testing.assert_allclose(grads["fc_bias"], expected["fc_bias"], rtol=1e-6)


@pytest.mark.slow("compiles")
def test_wrt_none_means_every_float_argument():
    net = sym.Embedding(sym.Variable("ids"), input_dim=4, output_dim=2, name="e")
    args = {"ids": np.array([1, 1, 3], np.int32), "e_weight": np.ones((4, 2), np.float32)}
    grads = evaluated(lowering.grad_fn(net), args, head_grads=[np.ones((3, 2))])[1]
    assert list(grads) == ["e_weight"]
    np.testing.assert_array_equal(grads["e_weight"][:, 0], [0, 2, 0, 1])


def test_unknown_names_are_an_error_at_once():
    with pytest.raises(GradientError, match=r"with respect to \['nope'\]; expected names among"):
        lowering.grad_fn(classifier(), wrt=["nope"])


@pytest.mark.slow("compiles")
def test_jitted_gradient_equals_plain():
    args = classifier_args()
    gradient = lowering.grad_fn(classifier(), wrt=["fc_weight"])
    np.testing.assert_allclose(jax.jit(gradient)(args)[1]["fc_weight"], gradient(args)[1]["fc_weight"], rtol=1e-6)


@pytest.mark.slow("compiles")
def test_train_mode_is_the_default_and_eval_mode_a_choice():
    net = sym.make_loss(sym.sum(sym.Dropout(sym.Variable("x"), p=0.5, name="d")))
    key = jax.random.key(0)
    trained = evaluated(lowering.grad_fn(net), {"x": np.ones(1000)}, key=key)[1]["x"]
    assert set(np.unique(trained)) == {0.0, 2.0}
    without = evaluated(lowering.grad_fn(net, is_train=False), {"x": np.ones(1000)}, key=key)[1]["x"]
    assert set(np.unique(without)) == {1.0}


def test_forward_alone_and_forward_with_backward_draw_the_same_numbers():
    net = sym.Dropout(sym.Variable("x"), p=0.5, name="d")
    key = jax.random.key(5)
    args = {"x": np.ones(1000, np.float32)}
    forward, _ = evaluated(lowering.to_jax(net, is_train=True), args, key=key)
    outputs, grads, _ = evaluated(lowering.grad_fn(net), args, key=key, head_grads=[np.ones(1000)])
    np.testing.assert_array_equal(forward[0], outputs[0])
    np.testing.assert_array_equal(grads["x"], outputs[0])


def test_differentiable_gives_jax_our_gradient():
    args = classifier_args()
    function = lowering.differentiable(classifier())
    ours = evaluated(lowering.grad_fn(classifier(), wrt=["fc_weight"]), args)[1]["fc_weight"]

    def loss(weight):
        return jnp.sum(function(args | {"fc_weight": weight})[0][0])

    # A loss head ignores the cotangent of its output: JAX sees MXNet's gradient, not that of a sum of probabilities.
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(args["fc_weight"]), ours, rtol=1e-6)


@pytest.mark.slow("computes much")
def test_differentiable_composes_with_jax_code_and_integer_arguments():
    net = sym.Embedding(sym.Variable("ids"), input_dim=4, output_dim=2, name="e")
    function = lowering.differentiable(net)
    ids = np.array([1, 1, 3], np.int32)

    def loss(weight):
        outputs, _ = function({"ids": ids, "e_weight": jnp.sin(weight)})
        return jnp.sum(outputs[0] ** 2)

    weight = jnp.arange(8.0).reshape(4, 2)
    expected = jax.grad(lambda w: jnp.sum(jnp.sin(w)[ids] ** 2))(weight)
    np.testing.assert_allclose(jax.grad(loss)(weight), expected, rtol=1e-5)


@pytest.mark.slow("compiles")
def test_differentiable_returns_new_states_and_takes_a_key():
    net = sym.Dropout(sym.BatchNorm(sym.Variable("x"), fix_gamma=False, name="bn"), p=0.5, name="d")
    args = {"x": X, "bn_gamma": np.ones(3, np.float32), "bn_beta": np.zeros(3, np.float32)}
    aux = {"bn_moving_mean": np.zeros(3, np.float32), "bn_moving_var": np.ones(3, np.float32)}
    function = lowering.differentiable(net)

    def loss(args):
        outputs, new_aux = function(args, aux, jax.random.key(1))
        return jnp.sum(outputs[0] ** 2), new_aux

    grads, new_aux = jax.grad(loss, has_aux=True)(args)
    assert set(grads) == set(args)
    assert not np.array_equal(new_aux["bn_moving_mean"], aux["bn_moving_mean"])


def test_two_arguments_of_one_name_cannot_be_told_apart():
    with pytest.raises(GradientError, match="Two arguments share one name"):
        lowering.grad_fn(sym.Variable("x") + sym.Variable("x"), wrt=["x"])
