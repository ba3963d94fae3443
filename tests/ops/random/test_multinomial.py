"""Classes by their probabilities, classes without replacement, shuffles: masses, order, gradients, refusals."""

import itertools
import math
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.traced import evaluated

KEY = jax.random.key(9)
DATA = sym.Variable("data")
N = 60_000


def run(symbol: sym.Symbol, key: jax.Array = KEY, **args: Any) -> list[np.ndarray]:
    function = jax.jit(lowering.to_jax(symbol))
    return [np.asarray(out) for out in function({k: jnp.asarray(v) for k, v in args.items()}, key=key)[0]]


def assert_masses(counts: Any, masses: Any) -> None:
    """χ² of counts against probabilities, within five standard deviations."""
    counts, masses = np.asarray(counts, np.float64), np.asarray(masses, np.float64)
    expected = masses * counts.sum()
    assert (counts[expected == 0] == 0).all()
    held = expected > 0
    assert ((counts[held] - expected[held]) ** 2 / expected[held]).sum() < held.sum() + 5 * math.sqrt(2 * held.sum())


# -- _sample_multinomial ---------------------------------------------------------------------------------------------


@pytest.mark.slow("computes much")
def test_classes_come_by_their_probabilities():
    data = np.array([[0.0, 0.1, 0.2, 0.3, 0.4], [0.5, 0.0, 0.25, 0.25, 0.0]], np.float32)
    (draws,) = run(sym.sample_multinomial(DATA, shape=(N,)), data=data)
    assert draws.dtype == np.int32
    for row, masses in zip(draws, data, strict=True):
        assert_masses(np.bincount(row, minlength=5), masses)
    assert abs(np.corrcoef(draws)[0, 1]) < 5 / math.sqrt(N)


@pytest.mark.slow("computes much")
def test_many_classes_are_searched():
    data = np.random.RandomState(0).dirichlet(np.ones(200)).astype(np.float32)
    (draws,) = run(sym.sample_multinomial(DATA, shape=(N,)), data=data)
    assert_masses(np.bincount(draws, minlength=200), data / data.sum(dtype=np.float64))


def test_proportions_count_where_probabilities_do_not_add_up_to_1():
    """Mended: MXNet draws class 2 of 2 then."""
    (draws,) = run(sym.sample_multinomial(DATA, shape=(N,)), data=np.array([0.1, 0.3], np.float32))
    assert_masses(np.bincount(draws), [0.25, 0.75])


@pytest.mark.slow("computes much")
def test_probabilities_are_those_of_the_draws():
    data = np.array([[0.2, 0.8], [0.6, 0.4]], np.float32)
    draws, logarithms = run(sym.sample_multinomial(DATA, shape=(3, 4), get_prob=True), data=data)
    assert draws.shape == logarithms.shape == (2, 3, 4)
    for i in range(2):
        np.testing.assert_allclose(logarithms[i], np.log(data[i])[draws[i]], rtol=1e-6)


@pytest.mark.slow("compiles")
def test_the_gradient_is_that_of_reinforce():
    data = np.array([[0.2, 0.8], [0.6, 0.4]], np.float32)
    net = sym.sample_multinomial(DATA, shape=(5,), get_prob=True)
    heads = [np.full((2, 5), 7.0), np.arange(10, dtype=np.float32).reshape(2, 5)]
    (draws, _), grads, _ = evaluated(lowering.grad_fn(net), {"data": data}, key=KEY, head_grads=heads)
    expected = np.zeros((2, 2))
    for i, j in np.ndindex(2, 5):
        expected[i, draws[i, j]] += heads[1][i, j] / data[i, draws[i, j]]
    np.testing.assert_allclose(grads["data"], expected, rtol=1e-5)


@pytest.mark.slow("compiles")
def test_without_probabilities_nothing_flows():
    net = sym.sample_multinomial(DATA, shape=(5,), dtype="float32")
    _, grads, _ = evaluated(
        lowering.grad_fn(net), {"data": np.full(2, 0.5, np.float32)}, key=KEY, head_grads=[np.ones(5)]
    )
    np.testing.assert_array_equal(grads["data"], np.zeros(2))


def test_outputs_shapes_and_dtypes():
    net = sym.sample_multinomial(DATA, shape=(2,), get_prob=True, name="draw")
    assert net.list_outputs() == ["draw_output0", "draw_output1"]
    assert sym.sample_multinomial(DATA, name="draw").list_outputs() == ["draw_output"]
    assert net.infer_shape(data=(4, 3))[1] == [(4, 2), (4, 2)]
    assert net.infer_type(data="float16")[1] == [np.int32, np.float16]
    assert sym.sample_multinomial(DATA).infer_shape(data=(3,))[1] == [(1,)]
    assert (net[1] + sym.Variable("x", shape=(4, 2))).infer_shape_partial()[0][0] == (4, 0)


@pytest.mark.parametrize(("dtype", "most"), [("uint8", 256), ("float16", 2049)])
def test_a_dtype_that_cannot_number_the_classes_is_refused(dtype: str, most: int):
    """Mended: MXNet wraps around or rounds."""
    net = sym.sample_multinomial(DATA, dtype=dtype)
    assert net.infer_shape(data=(2, most))[1] == [(2,)]
    with pytest.raises(InferenceError, match=rf"{dtype} cannot number the classes.*at most {most}.*{most + 1}"):
        net.infer_shape(data=(2, most + 1))


def test_integer_probabilities_are_refused():
    with pytest.raises(InferenceError, match="floating point types, not int32"):
        sym.sample_multinomial(DATA).infer_type(data="int32")
    with pytest.raises(ParamError, match="'shape'.*≥ 1"):
        sym.sample_multinomial(DATA, shape=(2, 0))


# -- _sample_unique_zipfian ------------------------------------------------------------------------------------------


def zipfian(range_max: int) -> np.ndarray:
    c = np.arange(range_max)
    return np.log((c + 2) / (c + 1)) / math.log(range_max + 1)


def unique(range_max: int, shape: tuple[int, int]) -> list[np.ndarray]:
    return run(sym._sample_unique_zipfian(range_max=range_max, shape=shape))


@pytest.mark.slow("compiles")
def test_first_classes_have_the_documented_distribution():
    """Mended: MXNet rounds where it documents that it truncates: class 0 comes 35 % less often."""
    classes, trials = unique(11, (N, 1))
    assert_masses(np.bincount(classes[:, 0], minlength=11), zipfian(11))
    np.testing.assert_array_equal(trials, np.ones(N))


@pytest.mark.nightly("computes much")
def test_pairs_are_drawn_without_replacement_in_order():
    p = zipfian(4)
    classes, trials = unique(4, (N, 2))
    found = Counter(map(tuple, classes.tolist()))
    pairs = list(itertools.permutations(range(4), 2))
    assert set(found) <= set(pairs)
    assert_masses([found[pair] for pair in pairs], [p[a] * p[b] / (1 - p[a]) for a, b in pairs])
    # After class a the number of further draws is geometric, with probability 1 - p[a].
    expected = 1 + (p / (1 - p)).sum()
    assert abs(trials.mean() - expected) < 5 * trials.std() / math.sqrt(N)


@pytest.mark.nightly("computes much")
def test_all_classes_are_found_and_counted():
    classes, trials = unique(40, (50, 40))
    np.testing.assert_array_equal(np.sort(classes, 1), np.broadcast_to(np.arange(40), (50, 40)))
    assert (trials >= 40).all()


@pytest.mark.nightly("computes much")
def test_long_lists_reach_their_rare_classes():
    (classes, _) = unique(2**31 - 1, (1, 4000))
    assert len(set(classes[0].tolist())) == 4000
    octaves = np.log2(classes[0] + 1.0)
    assert octaves.max() > 30.5
    assert (classes[0][octaves > 25] % 2 == 1).mean() == pytest.approx(0.5, abs=0.15)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"range_max": 5, "shape": (1, 6)}, "Number of samples cannot exceed the number of possible classes"),
        ({"range_max": 5, "shape": (3,)}, "shape must have two dimensions"),
        ({"range_max": 5}, "shape must have two dimensions"),
        ({"range_max": 0, "shape": (1, 1)}, "range_max"),
    ],
)
def test_impossible_samples_are_refused(params: dict[str, Any], message: str):
    with pytest.raises(ParamError, match=message):
        sym._sample_unique_zipfian(**params)


# -- _shuffle --------------------------------------------------------------------------------------------------------


@pytest.mark.slow("compiles")
def test_every_order_is_equally_likely():
    net = sym.shuffle(DATA)
    draw = jax.jit(jax.vmap(lambda key: lowering.to_jax(net)({"data": jnp.arange(3.0)}, key=key)[0][0]))
    orders = Counter(map(tuple, np.asarray(draw(jax.random.split(KEY, 6000))).tolist()))
    assert_masses([orders[order] for order in itertools.permutations(range(3))], np.full(6, 1 / 6))


@pytest.mark.slow("compiles")
def test_rows_stay_whole():
    data = np.arange(24, dtype=np.int8).reshape(6, 2, 2)
    (out,) = run(sym.shuffle(DATA), data=data)
    assert out.dtype == np.int8
    assert (out != data).any()
    np.testing.assert_array_equal(out[np.argsort(out[:, 0, 0])], data)
