"""Draws of the NumPy dialect hold their distributions; their gradients are those of a function of fixed noise."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.traced import evaluated

sym: Any = symbol  # whose stubs want the inputs that parameters replace
KEY = jax.random.key(5)
N = 20_000
EULER = 0.5772156649


def run(net: symbol.Symbol, **args: Any) -> np.ndarray:
    return np.asarray(jax.jit(lowering.to_jax(net))({k: jnp.asarray(v) for k, v in args.items()}, key=KEY)[0][0])


# Operator, parameters, mean, variance, excess kurtosis.
MOMENTS = [
    ("_npi_normal", {"loc": -1.0, "scale": 2.0}, -1.0, 4.0, 0.0),
    ("_npi_normal_n", {"loc": -1.0, "scale": 2.0}, -1.0, 4.0, 0.0),
    ("_npi_uniform", {"low": -1.0, "high": 2.0}, 0.5, 0.75, -1.2),
    ("_npi_uniform_n", {"low": -1.0, "high": 2.0}, 0.5, 0.75, -1.2),
    ("_npi_gumbel", {"loc": 1.0, "scale": 2.0}, 1 + 2 * EULER, 4 * math.pi**2 / 6, 2.4),
    ("_npi_logistic", {"loc": 1.0, "scale": 2.0}, 1.0, 4 * math.pi**2 / 3, 1.2),
    ("_npi_exponential", {"scale": 2.0}, 2.0, 4.0, 6.0),
    ("_npi_rayleigh", {"scale": 2.0}, 2 * math.sqrt(math.pi / 2), 4 * (2 - math.pi / 2), 0.25),
    ("_npi_weibull", {"a": 2.0}, math.gamma(1.5), 1 - math.gamma(1.5) ** 2, 0.25),
    ("_npi_pareto", {"a": 9.0}, 1 / 8, 9 / (64 * 7), 15.0),
    ("_npi_powerd", {"a": 3.0}, 0.75, 3 / 80, 0.1),
    ("_npi_gamma", {"shape": 2.5, "scale": 0.5}, 1.25, 0.625, 2.4),
    ("_npi_bernoulli", {"prob": 0.3, "logit": None, "is_logit": False}, 0.3, 0.21, -1.2),
    ("_npi_bernoulli", {"prob": None, "logit": 1.0, "is_logit": True}, 0.731059, 0.196612, -1.0),
]


@pytest.mark.slow("compiles a sampler for each distribution")
@pytest.mark.parametrize(("op", "params", "mean", "variance", "excess"), MOMENTS)
def test_moments(op: str, params: dict[str, Any], mean: float, variance: float, excess: float):
    draws = run(getattr(sym, op)(**params, size=(N,))).astype(np.float64)
    assert abs(draws.mean() - mean) < 5 * math.sqrt(variance / N)
    assert abs(draws.var() / variance - 1) < 5 * math.sqrt((2 + excess) / N)


@pytest.mark.slow("compiles a sampler")
def test_choice_and_multinomial():
    weights = np.array([0.1, 0.2, 0.7], np.float32)
    chosen = run(sym._npi_choice(sym.Variable("w"), a=3, size=(N,), weighted=True), w=weights)
    assert np.abs(np.bincount(chosen) / N - weights).max() < 0.02
    order = run(sym._npi_choice(a=50, size=(50,), replace=False))
    assert sorted(order.tolist()) == list(range(50)) != order.tolist()
    counts = run(sym._npi_multinomial(n=1000, pvals=(0.1, 0.2, 0.7), size=(20,)))
    assert counts.shape == (20, 3)
    assert (counts.sum(1) == 1000).all()
    assert np.abs(counts.mean(0) / 1000 - weights).max() < 0.02


GRADIENTS = {
    "_npi_normal": ("loc", "scale"),
    "_npi_gumbel": ("loc", "scale"),
    "_npi_logistic": ("loc", "scale"),
    "_npi_exponential": ("scale",),
    "_npi_rayleigh": ("scale",),
    "_npi_pareto": ("a",),
    "_npi_weibull": ("a",),
}


@pytest.mark.slow("compiles a gradient for each distribution")
@pytest.mark.parametrize("op", GRADIENTS)
def test_the_gradient_by_parameters_is_that_of_the_draws_with_the_same_noise(op: str):
    names = GRADIENTS[op]
    variables = [sym.Variable(name) for name in names]
    net = getattr(sym, op)(*variables, **dict.fromkeys(names))
    args = {name: np.linspace(0.5 + i, 2 + i, 6, dtype=np.float32).reshape(2, 3) for i, name in enumerate(names)}
    head = np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3)
    _, grads, _ = evaluated(lowering.grad_fn(net, list(names)), args, key=KEY, head_grads=[head])
    _, vjp = jax.vjp(lambda a: lowering.to_jax(net)(a, key=KEY)[0][0], jax.tree.map(jnp.asarray, args))
    (expected,) = vjp(jnp.asarray(head))
    for name in names:
        np.testing.assert_allclose(grads[name], expected[name], rtol=2e-5)


def test_shapes():
    def shape(net: symbol.Symbol, **shapes: tuple[int, ...]) -> tuple[int, ...]:
        return net.infer_shape(**shapes)[1][0]

    loc, scale = sym.Variable("loc"), sym.Variable("scale")
    both = {"loc": None, "scale": None}
    assert shape(sym._npi_normal(loc, scale, **both), loc=(2, 1), scale=(3,)) == (2, 3)
    assert shape(sym._npi_normal(loc, scale, **both, size=(4, 2, 3)), loc=(2, 1), scale=(3,)) == (4, 2, 3)
    assert shape(sym._npi_normal_n(loc, scale, **both, size=(4,)), loc=(2, 1), scale=(3,)) == (4, 2, 3)
    assert shape(sym._npi_normal(loc=0.0, scale=1.0)) == ()
    assert shape(sym._npi_multinomial(n=3, pvals=(0.5, 0.5), size=(4,))) == (4, 2)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: sym._npi_normal(loc=0.0, scale=-1.0), ParamError, "scale"),
        (lambda: sym._npi_bernoulli(prob=1.5, logit=None, is_logit=False), ParamError, "prob"),
        (lambda: sym._npi_multinomial(n=3, pvals=(0.9, 0.9, 0.1)), ParamError, r"sum\(pvals"),
        (
            lambda: sym._npi_choice(a=3, size=(4,), replace=False).infer_shape(),
            InferenceError,
            "larger sample than population",
        ),
        (
            lambda: sym._npi_exponential(sym.Variable("x"), scale=None, size=(1, 3)).infer_shape(x=(2, 3)),
            InferenceError,
            "more elements than there are draws",
        ),
    ],
)
def test_what_no_distribution_has_is_refused(make: Any, error: type[Exception], words: str):
    with pytest.raises(error, match=words):
        make()
