"""Straight-through estimators and gradient scaling: what passes through them, at every order."""

import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from tests.support.traced import evaluated

X = sym.Variable("x")
DATA = jnp.array([-2.5, -0.5, 0.0, 0.5, 1.6])


@pytest.mark.parametrize(
    ("symbol", "values"),
    [
        (sym._contrib_round_ste(X), [-3, -1, 0, 1, 2]),
        (sym._contrib_sign_ste(X), [-1, -1, 0, 1, 1]),
        (sym._contrib_gradientmultiplier(X, scalar=1), DATA.tolist()),
    ],
)
def test_gradient_is_that_of_the_identity(symbol, values):
    heads = [jnp.arange(1.0, 6.0)]
    outputs, grads, _ = evaluated(lowering.grad_fn(symbol, ["x"]), {"x": DATA}, head_grads=heads)
    assert outputs[0].tolist() == values
    assert grads["x"].tolist() == heads[0].tolist()


def test_a_chain_of_multipliers_multiplies_and_its_second_order_too():
    """loss = Σ x² behind multipliers of -½ and 3: first order -3/2 · 2x; its derivative passes through them again."""
    scaled = sym._contrib_gradientmultiplier(sym._contrib_gradientmultiplier(X, scalar=-0.5), scalar=3)
    first = sym.sum(sym.square(scaled)).gradient(["x"])
    assert np.allclose(evaluated(lowering.to_jax(first), {"x": DATA})[0][0], -3 * DATA)
    second = evaluated(lowering.grad_fn(first, ["x"]), {"x": DATA}, head_grads=[jnp.ones(5)])[1]["x"]
    assert np.allclose(second, 2 * 1.5**2)


def test_integer_data_stay_integers():
    symbol = sym._contrib_gradientmultiplier(X, scalar=2.5, is_int=False)
    assert evaluated(lowering.to_jax(symbol), {"x": jnp.arange(3)})[0][0].dtype == jnp.int32
