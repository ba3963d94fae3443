"""Draws hold their distributions: moments, probabilities, support, independence; dtypes, shapes, keys, refusals."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from lowering.ops.random import samplers
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, LoweringError, ParamError
from symjax_nnvm.ops.random.distributions import DISTRIBUTIONS
from tests.support.refusals import refused
from tests.support.traced import evaluated

pytestmark = pytest.mark.slow("takes many seconds as a whole")

KEY = jax.random.key(5)
N = 100_000
NAMES = [row.name for row in DISTRIBUTIONS]


@pytest.mark.nightly("draws much")
def test_the_probability_by_which_poisson_draws_are_taken_or_rejected():
    with jax.enable_x64(True):
        k, rate = jnp.arange(400.0)[:, None], jnp.asarray([10.0, 10.5, 33.3, 100.0, 300.0])
        expected = jax.scipy.stats.poisson.logpmf(k, rate)
        # Stirling's series is short: its first missing summand is 1 / (1260 k**5).
        np.testing.assert_allclose(samplers._log_probability(k, rate), expected, rtol=1e-5, atol=1e-3)


def run(symbol: sym.Symbol, key: jax.Array = KEY, **args: Any) -> list[np.ndarray]:
    """Of few draws evaluated, of many compiled, as a user has them."""
    function = lowering.compile(symbol)
    return [np.asarray(out) for out in function({k: np.asarray(v) for k, v in args.items()}, key=key)[0]]


def numbers(name: str, /, n: int = N, **params: Any) -> np.ndarray:
    """n draws of `_random_{name}`, in float64."""
    (out,) = run(getattr(sym, f"_random_{name}")(shape=(n,), **params))
    return out.astype(np.float64)


def of_arrays(name: str, parameters: list[list[float]], n: int, **params: Any) -> np.ndarray:
    """n draws of `_sample_{name}` for each of the parameters."""
    variables = [sym.Variable(f"p{i}") for i in range(len(parameters))]
    symbol = getattr(sym, f"_sample_{name}")(*variables, shape=(n,), **params)
    given = {f"p{i}": np.array(values, np.float32) for i, values in enumerate(parameters)}
    return run(symbol, KEY, **given)[0].astype(np.float64)


def assert_moments(draws: np.ndarray, mean: float, variance: float, excess: float) -> None:
    """Mean and variance within five standard errors; excess: the distribution's excess kurtosis."""
    n = draws.size
    assert abs(draws.mean() - mean) < 5 * math.sqrt(variance / n)
    assert abs(draws.var() / variance - 1) < 5 * math.sqrt((2 + excess) / n)


def assert_masses(draws: np.ndarray, masses: np.ndarray) -> None:
    """χ² of the numbers 0, 1, … against their probabilities; rare ones are pooled; five standard deviations."""
    n = draws.size
    assert draws.min() >= 0
    np.testing.assert_array_equal(draws, np.round(draws))
    counts = np.bincount(draws.astype(np.int64), minlength=masses.size)
    expected = np.append(masses, max(0.0, 1 - masses.sum())) * n
    observed = np.append(counts[: masses.size], counts[masses.size :].sum())
    often = expected >= 20
    cells = [(observed[often], expected[often])]
    if (rest := expected[~often].sum()) >= 1:
        cells.append((observed[~often].sum(keepdims=True), np.array([rest])))
    statistic = sum(float(((o - e) ** 2 / e).sum()) for o, e in cells)
    freedom = sum(o.size for o, _ in cells) - 1
    assert statistic < freedom + 5 * math.sqrt(2 * max(freedom, 1)) + 5


def poisson_masses(rate: float) -> np.ndarray:
    k = np.arange(int(rate + 12 * math.sqrt(rate) + 20))
    return np.exp([i * math.log(rate) - rate - math.lgamma(i + 1) for i in k])


def negative_binomial_masses(k: float, p: float) -> np.ndarray:
    spread = k * (1 - p) / p
    x = np.arange(int(spread + 15 * math.sqrt(spread / p) + 30))
    log = [math.lgamma(i + k) - math.lgamma(i + 1) - math.lgamma(k) + k * math.log(p) for i in x]
    return np.exp(np.array(log) + x * math.log1p(-p))


# -- the distributions -----------------------------------------------------------------------------------------------

MOMENTS = [
    ("exponential", {"lam": 3.0}, 1 / 3, 1 / 9, 6.0),
    ("gamma", {"alpha": 0.4, "beta": 2.0}, 0.8, 1.6, 6 / 0.4),
    ("gamma", {"alpha": 3.0, "beta": 0.5}, 1.5, 0.75, 2.0),
    ("gamma", {"alpha": 2e6}, 2e6, 2e6, 0.0),
    ("generalized_negative_binomial", {"mu": 3.0, "alpha": 0.4}, 3.0, 6.6, 8.0),
    ("negative_binomial", {"k": 3, "p": 0.4}, 4.5, 11.25, 6 / 3 + 0.4**2 / (0.6 * 3)),
    ("normal", {"loc": -2.0, "scale": 3.0}, -2.0, 9.0, 0.0),
    ("poisson", {"lam": 4.0}, 4.0, 4.0, 0.25),
    ("poisson", {"lam": 5e7}, 5e7, 5e7, 0.0),
    ("uniform", {"low": -1.0, "high": 4.0}, 1.5, 25 / 12, -1.2),
]


@pytest.mark.nightly("every distribution", but_one_in=3)
@pytest.mark.parametrize(("name", "params", "mean", "variance", "excess"), MOMENTS)
def test_moments_of_numbers(name: str, params: dict[str, Any], mean: float, variance: float, excess: float):
    assert_moments(numbers(name, **params), mean, variance, excess)


@pytest.mark.nightly("every rate", but_one_in=3)
@pytest.mark.parametrize("rate", [0.3, 4.0, 9.99, 10.0, 37.5, 5000.0])
def test_poisson_masses(rate: float):
    assert_masses(numbers("poisson", lam=rate), poisson_masses(rate))


def test_poisson_masses_of_arrays():
    rates = [0.0, 0.5, 9.0, 12.0, 300.0]
    draws = of_arrays("poisson", [rates], N)
    assert not draws[0].any()
    for row, rate in zip(draws[1:], rates[1:], strict=True):
        assert_masses(row, poisson_masses(rate))


def test_negative_binomial_masses():
    assert_masses(numbers("negative_binomial", k=3, p=0.4), negative_binomial_masses(3, 0.4))
    for row, k, p in zip(
        of_arrays("negative_binomial", [[2.5, 0.5], [0.3, 0.8]], N), (2.5, 0.5), (0.3, 0.8), strict=True
    ):
        assert_masses(row, negative_binomial_masses(k, p))


@pytest.mark.nightly("draws much")
def test_generalized_negative_binomial_masses():
    masses = negative_binomial_masses(1 / 0.4, 1 / (1 + 0.4 * 3))
    assert_masses(numbers("generalized_negative_binomial", mu=3, alpha=0.4), masses)
    spread, without = of_arrays("generalized_negative_binomial", [[3.0, 3.0], [0.4, 0.0]], N)
    assert_masses(spread, masses)
    assert_masses(without, poisson_masses(3.0))


def test_without_dispersion_it_is_the_poisson_distribution():
    assert_masses(numbers("generalized_negative_binomial", mu=6, alpha=0), poisson_masses(6.0))


@pytest.mark.parametrize(
    ("name", "params", "cdf"),
    [
        ("exponential", {"lam": 2.0}, lambda x: 1 - np.exp(-2 * x)),
        ("gamma", {"alpha": 3.0}, lambda x: 1 - np.exp(-x) * (1 + x + x * x / 2)),
        ("gamma", {"alpha": 0.5, "beta": 2.0}, lambda x: np.vectorize(math.erf)(np.sqrt(x / 2))),
        ("normal", {}, lambda x: (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2),
        ("uniform", {"low": 2.0, "high": 3.0}, lambda x: x - 2),
    ],
)
def test_cumulative_distribution(name: str, params: dict[str, Any], cdf: Any):
    """The distance of Kolmogorov and Smirnov; 2.3 / √n is reached once in 20 000 times."""
    draws = np.sort(numbers(name, **params))
    assert np.abs(cdf(draws) - (np.arange(N) + 0.5) / N).max() < 2.3 / math.sqrt(N)


def test_each_element_of_the_parameters_has_its_own_distribution():
    draws = of_arrays("normal", [[0.0, 10.0], [1.0, 0.1]], 20_000)
    assert_moments(draws[0], 0.0, 1.0, 0.0)
    assert_moments(draws[1], 10.0, 0.01, 0.0)
    assert abs(np.corrcoef(draws)[0, 1]) < 5 / math.sqrt(20_000)
    draws = of_arrays("gamma", [[0.3, 7.0], [2.0, 0.5]], 20_000)
    assert_moments(draws[0], 0.6, 1.2, 20.0)
    assert_moments(draws[1], 3.5, 1.75, 6 / 7)
    draws = of_arrays("exponential", [[0.5, 4.0]], 20_000)
    assert_moments(draws[1], 0.25, 1 / 16, 6.0)
    draws = of_arrays("uniform", [[-3.0, 0.0], [0.0, 9.0]], 20_000)
    assert_moments(draws[1], 4.5, 81 / 12, -1.2)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_uniform_never_reaches_its_upper_end(dtype: str):
    for low, high in ((0.0, 1.0), (1000.0, 1001.0), (-1.0, 0.0)):
        (out,) = run(sym.random_uniform(low, high, shape=(N,), dtype=dtype))
        assert out.dtype == dtype
        assert out.min() >= low
        assert out.max() < high
        (out,) = run(
            sym.sample_uniform(sym.Variable("l"), sym.Variable("h"), shape=(N,), dtype=dtype), l=[low], h=[high]
        )
        assert low <= out.min() <= out.max() < high


def test_randint_is_uniform_over_its_range():
    (out,) = run(sym.random_randint(-3, 6, shape=(N,)))
    assert out.dtype == np.int32
    assert_masses(out.astype(np.float64) + 3, np.full(9, 1 / 9))


def test_randint_covers_the_whole_range_of_its_dtype():
    (out,) = run(sym.random_randint(low=-(2**31), high=2**31, shape=(N,)))
    assert_moments(out.astype(np.float64) / 2**31, 0.0, 1 / 3, -1.2)
    (out,) = run(sym.random_randint(low=-5, high=2**31, shape=(N,)))
    assert -5 <= out.min() <= out.max()
    assert_moments(out.astype(np.float64) / 2**31, 0.5, 1 / 12, -1.2)
    with jax.enable_x64(True):
        (out,) = run(sym.random_randint(low=-(2**40), high=2**42, shape=(N,), dtype="int64"))
    assert out.dtype == np.int64
    assert_moments(out.astype(np.float64) / 2**40, 1.5, 25 / 12, -1.2)


@pytest.mark.filterwarnings("ignore::symjax_nnvm.NarrowedDtypeWarning")
def test_randint_of_64_bits_says_what_it_needs():
    with pytest.raises(LoweringError, match=r"64 bits.*enable_x64"):
        run(sym.random_randint(low=0, high=2**40, shape=(2,), dtype="int64"))


# -- keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.nightly("every distribution", but_one_in=3)
@pytest.mark.parametrize("name", NAMES)
def test_one_key_gives_one_result_and_nodes_and_keys_differ(name: str):
    params = {"negative_binomial": {"p": 0.3}}.get(name, {})
    function = getattr(sym, f"_random_{name}")
    net = sym.Group([function(shape=(60,), name=node, **params) for node in "ab"])
    a, b = run(net)
    np.testing.assert_array_equal(run(net)[0], a)
    assert (a != b).any()
    assert (run(net, jax.random.key(6))[0] != a).any()


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_every_kind_of_key_will_do(impl: str):
    net = sym.random_poisson(4.0, shape=(20_000,)) + sym.random_gamma(2.0, shape=(20_000,))
    (out,) = run(net, jax.random.key(0, impl=impl))
    assert_moments(out.astype(np.float64), 6.0, 6.0, 3.0)


def test_a_missing_key_is_an_error_that_names_the_node():
    with pytest.raises(LoweringError, match="'noise'.* needs a PRNG key"):
        lowering.to_jax(sym.random_normal(shape=(2,), name="noise"))({})


# -- gradients -------------------------------------------------------------------------------------------------------


@pytest.mark.nightly("every distribution", but_one_in=3)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_flows_through_a_draw(name: str):
    row = next(row for row in DISTRIBUTIONS if row.name == name)
    net = getattr(sym, f"_sample_{name}")(*(sym.Variable(i) for i in row.inputs), shape=(3,))
    args = {i: np.full(2, 0.5, np.float32) for i in row.inputs}
    _, grads, _ = evaluated(lowering.grad_fn(net), args, {}, KEY, [np.ones((2, 3), np.float32)])
    theirs = evaluated(jax.grad(lambda a: lowering.to_jax(net)(a, key=KEY)[0][0].sum()), args)
    for i in row.inputs:
        np.testing.assert_array_equal(grads[i], np.zeros(2))
        np.testing.assert_array_equal(theirs[i], np.zeros(2))


# -- parameters that no distribution has -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "params", "bound"),
    [
        ("exponential", {"lam": 0}, "> 0"),
        ("gamma", {"alpha": 0}, "> 0"),
        ("gamma", {"beta": -1}, "> 0"),
        ("generalized_negative_binomial", {"mu": -1}, "≥ 0"),
        ("generalized_negative_binomial", {"alpha": -0.5}, "≥ 0"),
        ("negative_binomial", {"k": -1}, "≥ 0"),
        ("negative_binomial", {"p": 1.5}, "≤ 1"),
        ("negative_binomial", {"p": 0}, "> 0"),
        ("normal", {"scale": 0}, "> 0"),
        ("normal", {"scale": "nan"}, "> 0"),
        ("poisson", {"lam": -1}, "≥ 0"),
    ],
)
def test_numbers_outside_the_domain_are_refused(name: str, params: dict[str, Any], bound: str):
    data = sym.Variable("data")
    for make in (
        lambda: getattr(sym, f"_random_{name}")(shape=(2,), **params),
        lambda: getattr(sym, f"_random_{name}_like")(data, **params),
    ):
        with refused(ParamError, name, f"'{next(iter(params))}'", bound):
            make()


def test_intervals_that_are_empty_are_refused():
    with pytest.raises(ParamError, match=r"low must be less or equal to high.*low=2, high=1"):
        sym.random_uniform(low=2, high=1, shape=(2,))
    assert run(sym.random_uniform(1, 1, shape=(3,)))[0].tolist() == [1, 1, 1]


@pytest.mark.parametrize(("low", "high"), [(3, 3), (4, 1)])
def test_randint_of_an_empty_range_is_refused(low: int, high: int):
    """Mended: MXNet divides by zero, which ends the process."""
    with pytest.raises(ParamError, match="low must be less than high"):
        sym.random_randint(low=low, high=high, shape=(2,))


def test_randint_beyond_its_dtype_is_refused():
    """Mended: MXNet wraps around."""
    with pytest.raises(ParamError, match="int32 cannot hold"):
        sym.random_randint(low=0, high=2**40, shape=(2,))


def test_arrays_outside_the_domain_give_nan():
    """Mended: MXNet never returns from negative rates, and makes an integer of infinity."""
    assert np.isnan(of_arrays("poisson", [[-1.0, np.nan]], 3)).all()
    assert np.isnan(of_arrays("gamma", [[-1.0], [1.0]], 3)).all()
    assert np.isnan(of_arrays("negative_binomial", [[-1.0, 2.0], [0.5, 1.5]], 3)).all()
    assert np.isnan(of_arrays("generalized_negative_binomial", [[1.0, -1.0], [-1.0, 0.5]], 3)).all()


def test_limits_of_the_domain():
    assert np.isinf(of_arrays("poisson", [[np.inf]], 3)).all()
    assert np.isinf(of_arrays("negative_binomial", [[2.0], [0.0]], 3)).all()
    assert not of_arrays("negative_binomial", [[2.0, 0.0], [1.0, 0.5]], 3).any()
    assert not of_arrays("gamma", [[0.0], [1.0]], 3).any()
    assert not numbers("negative_binomial", 5, k=4, p=1).any()


# -- shapes and dtypes -----------------------------------------------------------------------------------------------


def test_users_of_a_draw_complete_its_shape():
    like = sym.Variable("like")
    assert (sym.random_normal(shape=(0, 3)) + like).infer_shape(like=(2, 3))[1] == [(2, 3)]
    assert run(sym.random_normal() + like, like=np.zeros((2, 3), np.float32))[0].shape == (2, 3)
    with pytest.raises(LoweringError, match="Pass shape="):
        run(sym.random_normal())


def test_parameters_are_learnt_from_the_draws_and_from_each_other():
    mu, sigma = sym.Variable("mu"), sym.Variable("sigma")
    net = sym.sample_normal(mu, sigma, shape=(4,))
    assert net.infer_shape(mu=(0, 3), sigma=(2, 0)) == ([(2, 3), (2, 3)], [(2, 3, 4)], [])
    assert (net + sym.Variable("x", shape=(2, 3, 4))).infer_shape()[0][:2] == [(2, 3), (2, 3)]
    with pytest.raises(InferenceError, match="sample_normal"):
        net.infer_shape(mu=(2, 3), sigma=(3, 2))


def test_draws_have_a_dtype_of_their_own():
    assert sym.sample_poisson(sym.Variable("lam")).infer_type(lam="int32")[1] == [np.float32]
    assert sym.sample_poisson(sym.Variable("lam"), dtype="float16").infer_type(lam="float64")[1] == [np.float16]
    with pytest.raises(InferenceError, match="float16"):
        (sym.random_normal(dtype="float32", shape=(2,)) + sym.Variable("x")).infer_type(x="float16")


def test_integer_models_of_a_shape_are_refused():
    with pytest.raises(InferenceError, match="floating point types, not int32"):
        sym._random_normal_like(sym.Variable("data")).infer_type(data="int32")


@pytest.mark.parametrize("shape", [(0,), (2, -1)])
def test_a_number_of_draws_below_1_is_refused(shape: tuple[int, ...]):
    with pytest.raises(ParamError, match="'shape'.*≥ 1"):
        sym.sample_poisson(sym.Variable("lam"), shape=shape)


def test_parameters_may_be_given_by_position():
    assert run(sym.random_normal(5, 1e-6, (2,)))[0] == pytest.approx([5, 5], abs=1e-4)
