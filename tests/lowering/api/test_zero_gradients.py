"""Gradients with respect to what the outputs do not depend on: an error that names the way out, or zeros."""

import jax
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import GradientError
from tests.support.traced import evaluated

X = np.array([[1.0, -2.0], [0.5, 3.0]], np.float32)
HEAD = np.full((2, 2), 2.0, np.float32)


def slope() -> tuple[sym.Symbol, sym.Symbol]:
    """(x, the gradient of a linear function of it): only the head gradient is left in there."""
    x = sym.Variable("x")
    return x, sym.radians(x).gradient([x], head_grads=sym.Variable("h"))


@pytest.mark.parametrize("by_name", [False, True])
def test_the_second_derivative_of_a_linear_function_is_zeros_on_request(by_name: bool):
    x, first = slope()
    wrt = ["x", "h"] if by_name else [x, "h"]
    with pytest.raises(GradientError, match="zeros_if_unreachable=True"):
        first.gradient(wrt)
    second = first.gradient(wrt, head_grads=sym.Variable("hh"), zeros_if_unreachable=True)
    of_x, of_h = evaluated(lowering.to_jax(second), {"x": X, "hh": HEAD})[0]
    np.testing.assert_array_equal(of_x, np.zeros((2, 2)))
    np.testing.assert_allclose(of_h, np.radians(HEAD), rtol=1e-6)


def test_the_third_is_zeros_as_well():
    x, first = slope()
    third = first.gradient([x], zeros_if_unreachable=True).gradient([x], zeros_if_unreachable=True)
    np.testing.assert_array_equal(evaluated(lowering.to_jax(third), {"x": X})[0][0], np.zeros((2, 2)))


def test_grad_fn_returns_zeros_for_names_that_the_symbol_does_not_have():
    _, first = slope()
    with pytest.raises(GradientError, match=r"\['x'\].*zeros_if_unreachable=True"):
        lowering.grad_fn(first, ["x"])
    for wrt in (["x", "h"], None):
        grad = lowering.grad_fn(first, wrt, zeros_if_unreachable=True)
        outputs, grads, _ = grad({"x": X, "h": HEAD}, head_grads=[HEAD])
        np.testing.assert_allclose(outputs[0], np.radians(HEAD), rtol=1e-6)
        np.testing.assert_array_equal(grads["x"], np.zeros((2, 2)))
        np.testing.assert_allclose(grads["h"], np.radians(HEAD), rtol=1e-6)


def test_zeros_need_an_array_that_says_their_shape():
    grad = lowering.grad_fn(slope()[1], ["x"], zeros_if_unreachable=True)
    with pytest.raises(
        GradientError, match=r"The zero gradients of \['x'\] need a shape.*Put \['x'\] among the arguments"
    ):
        grad({"h": HEAD})


def test_differentiable_gives_zeros_to_arguments_it_does_not_have():
    f = lowering.differentiable(slope()[1], zeros_if_unreachable=True)
    grads = jax.grad(lambda args: f(args)[0][0].sum())({"x": X, "h": HEAD})
    np.testing.assert_array_equal(grads["x"], np.zeros((2, 2)))
    np.testing.assert_allclose(grads["h"], np.radians(np.ones((2, 2))), rtol=1e-6)
