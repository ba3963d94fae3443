"""SequenceMask, SequenceLast, SequenceReverse: inference, lengths outside, refusals."""

import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.traced import evaluated

X, L = sym.Variable("x"), sym.Variable("l")
OPERATORS = (sym.SequenceMask, sym.SequenceLast, sym.SequenceReverse)
DATA = np.arange(12, dtype=np.float32).reshape(4, 3)


def run(symbol: sym.Symbol, lengths: list[float]) -> list[list[float]]:
    args = {"x": jnp.asarray(DATA), "l": jnp.asarray(lengths)}
    return np.asarray(evaluated(lowering.to_jax(symbol), args)[0][0]).tolist()


@pytest.mark.parametrize("op", OPERATORS)
def test_lengths_are_an_input_only_where_they_are_used(op):
    assert op(name="s").list_arguments() == ["s_data"]
    assert op(name="s", use_sequence_length=True).list_arguments() == ["s_data", "s_sequence_length"]


@pytest.mark.parametrize("op", OPERATORS)
def test_lengths_and_data_know_each_others_batch(op):
    symbol = op(X, L, use_sequence_length=True, axis=1)
    assert symbol.infer_shape(x=(3, 4, 2))[0] == [(3, 4, 2), (3,)]
    assert symbol.infer_shape(x=(0, 4, 2), l=(3,))[0] == [(3, 4, 2), (3,)]
    assert symbol.infer_type(x="float64")[0] == [np.float64, np.float64]
    assert symbol.infer_type(x="float64", l="int32")[0] == [np.float64, np.int32]


def test_a_result_tells_the_shape_of_data():
    assert (sym.SequenceLast(X) + sym.Variable("y", shape=(3, 2))).infer_shape_partial(x=(4, 0, 0))[0][0] == (4, 3, 2)
    assert (sym.SequenceMask(X) + sym.Variable("y", shape=(4, 3, 2))).infer_shape()[0][0] == (4, 3, 2)


def test_lengths_past_the_axis_count_as_its_length():
    """A quirk mended: MXNet reads outside the array."""
    assert run(sym.SequenceLast(X, L, use_sequence_length=True), [9, 4, 0]) == [9, 10, 2]
    reverse = run(sym.SequenceReverse(X, L, use_sequence_length=True), [9, 1, -1])
    assert reverse == [[9, 1, 2], [6, 4, 5], [3, 7, 8], [0, 10, 11]]
    mask = run(sym.SequenceMask(X, L, use_sequence_length=True), [9, 1, -1])
    assert mask == [[0, 1, 0], [3, 0, 0], [6, 0, 0], [9, 0, 0]]


def test_fractions_of_lengths_are_truncated():
    assert run(sym.SequenceLast(X, L, use_sequence_length=True), [1.9, 2.5, 3]) == [0, 4, 8]


def test_reversing_twice_is_the_identity():
    once = sym.SequenceReverse(X, L, use_sequence_length=True)
    assert run(sym.SequenceReverse(once, L, use_sequence_length=True), [2, 3, 4]) == DATA.tolist()


@pytest.mark.parametrize("op", OPERATORS)
def test_what_does_not_fit_is_named(op):
    with pytest.raises(InferenceError, match=r"rank 2 or greater.*expected an axis of steps.*got \(4,\).*'s'"):
        op(X, name="s").infer_shape(x=(4,))
    with pytest.raises(ParamError, match=r"axis.*2"):
        op(X, axis=2)
    with pytest.raises(InferenceError, match=r"'s'.*'sequence_length'|'s'.*'data'"):
        op(X, L, use_sequence_length=True, name="s").infer_shape(x=(4, 3), l=(5,))
