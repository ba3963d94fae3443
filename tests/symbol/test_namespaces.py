"""`sym.contrib`, `sym.linalg`, `sym.random`: operators under MXNet's names, and functions that choose among them."""

import inspect

import jax
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import ParamError, SymbolTypeError, SymbolValueError
from tests.support.traced import evaluated


def draw(symbol, **args):
    return np.asarray(evaluated(lowering.to_jax(symbol), args, {}, jax.random.key(0))[0][0])


def test_prefixes_are_left_out():
    x, m, s = map(sym.Variable, "xms")
    assert sym.contrib.div_sqrt_dim(x).attr("op_name") == "_contrib_div_sqrt_dim"
    assert sym.linalg.inverse(x).attr("op_name") == "_linalg_inverse"
    assert sym.random.pdf_normal(x, m, s).attr("op_name") == "_random_pdf_normal"


def test_names_can_be_listed():
    assert {"foreach", "box_nms", "ROIAlign"} <= set(dir(sym.contrib))
    assert {"uniform", "randn", "pdf_gamma", "normal_like"} <= set(dir(sym.random))


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match=r"symbol\.linalg has no function 'nothing'"):
        sym.linalg.nothing  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.slow("compiles")
def test_random_functions_take_numbers():
    assert draw(sym.random.uniform(2, 3, shape=(4, 5))).shape == (4, 5)
    assert draw(sym.random.randn(2, 3, loc=5, scale=1e-9)).tolist() == [[5] * 3] * 2
    assert draw(sym.random.normal(1, 1e-9, shape=2)).tolist() == [1, 1]
    assert draw(sym.random.exponential(1e-9, shape=3)).max() < 1e-6
    assert draw(sym.random.randint(3, 4, shape=2)).tolist() == [3, 3]


def test_random_functions_take_symbols():
    mu, sigma = np.array([1.0, 2.0], np.float32), np.zeros(2, np.float32)
    symbol = sym.random.normal(sym.Variable("mu"), sym.Variable("sigma"), shape=3)
    assert draw(symbol, mu=mu, sigma=sigma).tolist() == [[1] * 3, [2] * 3]
    symbol = sym.random.exponential(sym.Variable("scale"), shape=4)
    assert draw(symbol, scale=np.array([1e-9], np.float32)).max() < 1e-6


def test_multinomial_and_shuffle():
    symbol = sym.random.multinomial(sym.Variable("p"), shape=2)
    classes, likelihoods = evaluated(
        lowering.to_jax(symbol), {"p": np.array([0.0, 1.0], np.float32)}, {}, jax.random.key(0)
    )[0]
    assert classes.tolist() == [1, 1]
    assert np.allclose(likelihoods, 0)
    assert sorted(draw(sym.random.shuffle(sym.Variable("x")), x=np.arange(5.0)).tolist()) == [0, 1, 2, 3, 4]


def test_numbers_and_symbols_are_not_mixed():
    with pytest.raises(SymbolTypeError, match="must all have the same type"):
        sym.random.uniform(sym.Variable("low"), 3)
    with pytest.raises(SymbolValueError, match="either Symbol or numbers"):
        sym.random.poisson("many")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ParamError, match="dtype"):
        sym.random.uniform(dtype="int32", shape=2)


def test_draws_have_mxnets_defaults():
    defaults = {
        name: [parameter.default for parameter in inspect.signature(getattr(sym.random, name)).parameters.values()][:2]
        for name in ("uniform", "normal", "gamma", "negative_binomial", "generalized_negative_binomial")
    }
    assert defaults.pop("uniform") == defaults.pop("normal") == [0, 1]
    assert {*map(tuple, defaults.values())} == {(1, 1)}
    assert sym.random.exponential().list_attr()["lam"] == "1.0"
    assert sym.random.poisson().list_attr()["lam"] == "1"
