"""Densities: the ends of the support, the parameters of draws and densities, shapes, refusals."""

from typing import Any

import jax
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError
from tests.support.traced import evaluated

X, A, B = (sym.Variable(name) for name in ("x", "a", "b"))


def value(symbol: sym.Symbol, **args: Any) -> np.ndarray:
    return np.asarray(evaluated(lowering.to_jax(symbol), {k: np.array(v, np.float32) for k, v in args.items()})[0][0])


def test_the_end_of_the_support_is_finite():
    """Mended: MXNet multiplies 0 by the logarithm of 0."""
    cases = [
        (sym.random_pdf_gamma(X, A, B), {"x": [[0.0]], "a": [1.0], "b": [2.0]}, [[2.0]]),
        (sym.random_pdf_poisson(X, A), {"x": [[0.0, 1.0]], "a": [0.0]}, [[1.0, 0.0]]),
        (sym.random_pdf_negative_binomial(X, A, B), {"x": [[0.0, 1.0]], "a": [2.0], "b": [1.0]}, [[1.0, 0.0]]),
        (sym.random_pdf_generalized_negative_binomial(X, A, B), {"x": [[0.0]], "a": [0.0], "b": [1.0]}, [[1.0]]),
        (sym.random_pdf_dirichlet(X, A), {"x": [[0.0, 1.0]], "a": [[1.0, 1.0]]}, [1.0]),
    ]
    for symbol, args, expected in cases:
        np.testing.assert_allclose(value(symbol, **args), expected, rtol=1e-5)


def test_outside_the_support_the_formula_counts():
    assert value(sym.random_pdf_uniform(X, A, B), x=[[9.0]], a=[1.0], b=[3.0]).tolist() == [[0.5]]
    assert value(sym.random_pdf_exponential(X, A), x=[[-1.0]], a=[1.0])[0, 0] == pytest.approx(np.e)


@pytest.mark.slow("compiles")
def test_beta_of_a_gamma_density_is_the_rate_and_of_a_draw_the_scale():
    density = sym.random_pdf_gamma(sym.sample_gamma(A, B, shape=(50_000,)), A, 1 / B)
    args = {"a": np.array([2.0], np.float32), "b": np.array([0.5], np.float32)}
    (out,), _ = jax.jit(lowering.to_jax(density))(args, key=jax.random.key(0))
    # ∫ p² of the shape 2 and the rate 2 is 1/2.
    assert np.mean(out) == pytest.approx(0.5, abs=0.01)


def test_a_density_integrates_to_1():
    x = np.linspace(0.001, 0.999, 999)
    points = np.stack([x, 1 - x], -1)[None]
    assert value(sym.random_pdf_dirichlet(X, A), x=points, a=[[2.0, 3.5]]).mean() == pytest.approx(1.0, abs=2e-3)


def test_parameters_are_learnt_from_the_sample_and_the_sample_from_the_density():
    net = sym.random_pdf_normal(X, A, B)
    assert net.infer_shape(x=(3, 2), a=(0,), b=(3,))[0] == [(3, 2), (3,), (3,)]
    assert (net + sym.Variable("y", shape=(3, 2))).infer_shape_partial()[0][0] == (3, 2)
    dirichlet = sym.random_pdf_dirichlet(X, A)
    assert dirichlet.infer_shape(x=(2, 5, 0), a=(0, 3))[:2] == ([(2, 5, 3), (2, 3)], [(2, 5)])
    assert dirichlet.infer_shape(x=(3,), a=(3,))[1] == [(1,)]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"x": (3,), "a": (3, 2), "b": (3, 2)}, r"dimension of input samples \(1\) must be at least"),
        ({"x": (3, 2), "a": (2,), "b": (2,)}, r"expected parameters \(3,\).*got \(2,\)"),
        ({"x": (3, 2), "a": (3,), "b": (2,)}, "random_pdf_normal"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(shapes: dict[str, tuple[int, ...]], message: str):
    with pytest.raises(InferenceError, match=message):
        sym.random_pdf_normal(X, A, B, name="pdf").infer_shape(**shapes)


def test_vectors_must_be_as_long_as_their_concentrations():
    with pytest.raises(InferenceError, match=r"expected parameters \(2, 3\).*got \(2, 4\)"):
        sym.random_pdf_dirichlet(X, A).infer_shape(x=(2, 5, 3), a=(2, 4))


@pytest.mark.slow("compiles")
def test_nothing_flows_to_counts_at_any_order():
    net = sym.random_pdf_poisson(X, A, is_log=True)
    args = {"x": np.array([[1.0, 2.0]], np.float32), "a": np.array([2.5], np.float32)}
    first = net.gradient(["a"])
    _, grads, _ = evaluated(lowering.grad_fn(first, ["x"]), args, head_grads=[np.ones(1, np.float32)])
    np.testing.assert_array_equal(grads["x"], np.zeros((1, 2)))
    theirs = jax.grad(lambda x: lowering.to_jax(net)({**args, "x": x})[0][0].sum())(args["x"])
    np.testing.assert_array_equal(theirs, np.zeros((1, 2)))
