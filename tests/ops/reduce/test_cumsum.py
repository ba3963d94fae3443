"""histogram, cumsum, ravel_multi_index, unravel_index: edges, inference, refusals."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import tracemalloc
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.ops.reduce import histogram as rules
from tests.support.traced import evaluated

X, BINS = sym.Variable("x"), sym.Variable("bins")


def run(symbol: sym.Symbol, **args: object) -> list[Any]:
    outputs, _ = evaluated(lowering.to_jax(symbol), {name: jnp.asarray(value) for name, value in args.items()})
    return [np.asarray(output).tolist() for output in outputs]


# -- histogram -------------------------------------------------------------------------------------------------------

VALUES = np.array([0, 1, 2, 3, 4, 5, 6, -1, 7, np.nan], np.float32)


def test_a_bin_has_its_lower_edge_and_the_last_one_both():
    assert run(sym._histogram(X, bin_cnt=3, range=(0, 6)), x=VALUES) == [[2, 2, 3], [0, 2, 4, 6]]
    edges = np.array([0, 2, 6], np.float32)
    assert run(sym._histogram(X, BINS), x=VALUES, bins=edges) == [[2, 5], [0, 2, 6]]


def test_uniform_bins_are_the_bins_of_their_rounded_edges():
    x = np.round(np.random.RandomState(0).uniform(-1, 1, 2000), 2).astype(np.float32)
    counts, edges = run(sym._histogram(X, bin_cnt=70, range=(-0.7, 0.7)), x=x)
    given, _ = run(sym._histogram(X, BINS), x=x, bins=np.asarray(edges, np.float32))
    assert counts == given
    assert sum(counts) == np.sum((x >= -0.7) & (x <= 0.7))


def test_many_edges_take_no_more_than_their_own_memory():
    """Every one of 2³¹ - 1 was a float64 several times over: 64 GB."""
    count = 1 << 20
    tracemalloc.start()
    edges = rules.edges(count, 0.1, 7.0, np.dtype("float32"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * edges.nbytes
    steps = np.arange(count + 1)
    np.testing.assert_array_equal(edges, ((7.0 * steps + 0.1 * (count - steps)) / count).astype(np.float32))


def test_integer_edges_are_cut_off():
    assert run(sym._histogram(X, bin_cnt=3, range=(0, 4)), x=np.arange(5)) == [[1, 1, 3], [0, 1, 2, 4]]


def test_a_range_of_one_value_is_widened():
    assert run(sym._histogram(X, bin_cnt=2, range=(1, 1)), x=np.array([1, 1, 2], np.float32))[1] == [0.5, 1, 1.5]


def test_edges_pass_their_gradient_on_and_data_has_none():
    args = {"x": jnp.asarray([0.5]), "bins": jnp.asarray([0.0, 1.0])}
    _, grads, _ = evaluated(
        lowering.grad_fn(sym._histogram(X, BINS)), args, head_grads=[jnp.ones(1), jnp.asarray([2.0, 3.0])]
    )
    assert (grads["x"].tolist(), grads["bins"].tolist()) == ([0], [2, 3])


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"bin_cnt": 3}, "bin_cnt and range should both or neither"),
        ({"range": (0, 1)}, "bin_cnt and range should both or neither"),
        ({"bin_cnt": 3, "range": (1, 0)}, "two numbers, the lower one first"),
        ({"bin_cnt": 3, "range": (0, 1, 2)}, "two numbers, the lower one first"),
        ({"bin_cnt": 0, "range": (0, 1)}, "'bin_cnt'; expected int or None ≥ 1; got 0"),
    ],
)
def test_impossible_bins_are_refused_when_the_node_is_made(params: dict[str, object], words: str):
    with pytest.raises(ParamError, match=words):
        sym._histogram(X, name="n", **params)


def test_edges_must_be_a_vector_of_two_or_more():
    for shape in ((2, 2), (1,)):
        with pytest.raises(InferenceError, match="bins must be edges.*'bins'.*at least 2 edges.*'_histogram'"):
            sym._histogram(X, BINS, name="n").infer_shape(x=(3,), bins=shape)


def test_counts_are_int64():
    assert sym._histogram(X, bin_cnt=2, range=(0, 1)).infer_type(x="float16")[1] == [np.int64, np.float16]
    with pytest.raises(InferenceError):
        sym._histogram(X, BINS).infer_type(x="int32", bins="float32")


# -- cumsum ----------------------------------------------------------------------------------------------------------


def test_booleans_are_counted_in_int64():
    assert sym.cumsum(X).infer_type(x="bool")[1] == [np.int64]
    assert run(sym.cumsum(X), x=np.array([True, False, True])) == [[1, 1, 2]]


def test_small_integers_wrap_around():
    assert run(sym.cumsum(X), x=np.array([100, 100], np.int8)) == [[100, -56]]


def test_elements_are_converted_before_they_are_added():
    assert run(sym.cumsum(X, dtype="int32"), x=np.array([4.5, 1.5, 3], np.float32)) == [[4, 5, 8]]


def test_an_axis_that_is_not_there_is_named():
    with pytest.raises(InferenceError, match="'axis'; expected -2 ≤ axis < 2; got 2.*'_np_cumsum', node 'n'"):
        sym.cumsum(X, axis=2, name="n").infer_shape(x=(2, 3))


# -- ravel_multi_index, unravel_index --------------------------------------------------------------------------------


def test_ravel_and_unravel_are_inverse():
    places = np.arange(24, dtype=np.float32)
    there = sym.unravel_index(X, shape=(2, 3, 4))
    assert run(sym.ravel_multi_index(there, shape=(-1, 3, 4)), x=places) == [places.tolist()]


@pytest.mark.parametrize("op", ["ravel_multi_index", "unravel_index"])
@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "Empty shape"),
        ({"shape": ()}, "Empty shape"),
        ({"shape": (2, -1)}, "positive"),
        ({"shape": (0,)}, "positive"),
    ],
)
def test_impossible_shapes_are_refused_when_the_node_is_made(op: str, params: dict[str, object], words: str):
    with pytest.raises(ParamError, match=f"{words}.*'_{op}', node 'n'"):
        getattr(sym, op)(X, name="n", **params)


@pytest.mark.parametrize(
    ("symbol", "shape", "words"),
    [
        (sym.ravel_multi_index(X, shape=(7, 6), name="n"), (2,), ("column", "(2, n)", "got (2,)")),
        (sym.ravel_multi_index(X, shape=(7, 6), name="n"), (3, 4), ("(2, 4)", "(3, 4)")),
    ],
)
def test_shapes_that_do_not_fit_are_named(symbol: sym.Symbol, shape: tuple[int, ...], words: tuple[str, ...]):
    with pytest.raises(InferenceError) as error:
        symbol.infer_shape(x=shape)
    assert all(word in str(error.value) for word in (*words, "'n'")), str(error.value)


def test_ravel_learns_the_number_of_indices_from_its_result():
    assert (sym.ravel_multi_index(X, shape=(7, 6)) + sym.Variable("y", shape=(5,))).infer_shape()[0][0] == (2, 5)
