"""Boxes: suppression and matching against plain loops, mended and kept quirks, refusals."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowering
from lowering.ops.vision.bounding_box import descending, greedy_pairs, survivors
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.cases.vision.bounding_box import Boxes, Detections
from tests.support.refusals import refused

X, Y = sym.Variable("x"), sym.Variable("y")


def run(symbol, **args):
    return [np.asarray(o) for o in jax.jit(lowering.to_jax(symbol))({k: jnp.asarray(v) for k, v in args.items()})[0]]


# -- the shared algorithms -------------------------------------------------------------------------------------------


def pairs_one_at_a_time(scores: np.ndarray, threshold: float) -> dict[int, int]:
    """The definition: all cells by descending score, ties in order, each taken if its row and column are free."""
    cells = sorted(itertools.product(*map(range, scores.shape)), key=lambda cell: -scores[cell])
    found: dict[int, int] = {}
    for row, column in cells:
        if scores[row, column] > threshold and row not in found and column not in found.values():
            found[row] = column
    return found


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=20, max_size=20), st.integers(-1, 4))
def test_pairs_made_at_once_are_those_made_one_at_a_time(values, threshold):
    scores = np.array(values, np.float32).reshape(5, 4)
    of_row, of_column = map(np.asarray, jax.jit(greedy_pairs)(scores, threshold))
    expected = pairs_one_at_a_time(scores, threshold)
    assert {row: column for row, column in enumerate(of_row.tolist()) if column >= 0} == expected
    assert {row: column for column, row in enumerate(of_column.tolist()) if row >= 0} == expected


@partial(jax.jit, static_argnames="limit")
def survivors_of(table, candidates, limit=None):
    return survivors(candidates, lambda i: table[i], limit)


@pytest.mark.slow("compiles")
@settings(max_examples=30, deadline=None)
@given(st.lists(st.booleans(), min_size=64, max_size=64), st.lists(st.booleans(), min_size=8, max_size=8))
def test_survivors_are_those_of_the_plain_loop(cells, candidates):
    rivals = np.array(cells).reshape(8, 8)
    left = np.array(candidates)
    for i in range(8):
        if left[i]:
            left[i + 1 :] &= ~rivals[i, i + 1 :]
    assert survivors_of(rivals, np.array(candidates)).tolist() == left.tolist()
    first = np.flatnonzero(left)[:2]
    assert np.flatnonzero(survivors_of(rivals, np.array(candidates), limit=2)).tolist() == first.tolist()


@pytest.mark.slow("compiles")
def test_suppression_takes_one_step_for_each_survivor():
    """A thousand boxes in one place: one survivor, one step; nothing of a thousand times a thousand is made."""
    data = np.concatenate([np.linspace(1, 0.1, 1000)[:, None], np.tile([0.1, 0.1, 0.5, 0.5], (1000, 1))], 1)
    symbol = sym._contrib_box_nms(X, score_index=0, coord_start=1)
    args = {"x": data.astype(np.float32)}
    assert (run(symbol, **args)[0][:, 0] > 0).sum() == 1
    assert "1000,1000" not in str(jax.make_jaxpr(lowering.to_jax(symbol))(args))


# -- box_nms ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow("compiles")
def test_equal_scores_keep_their_order():
    data = np.array([[0, 0.5, 0, 0, 1, 1], [1, 0.5, 2, 2, 3, 3], [2, 0.9, 4, 4, 5, 5]], np.float32)
    assert run(sym._contrib_box_nms(X), x=data)[0][:, 0].tolist() == [2, 0, 1]


def test_scores_of_zero_and_minus_zero_are_equal():
    scores = np.array([-0.0, 0.0, -0.0, 0.0], np.float32)
    every = np.ones(4, bool)
    for count in (None, 3, 4):
        order = jax.jit(lambda scores, count=count: descending(scores * 1, every, count))(scores)
        assert np.asarray(order).tolist() == [0, 1, 2, 3][:count]


@pytest.mark.slow("compiles")
def test_mended_boxes_left_of_zero_are_converted_too():
    data = np.array([[0, 0.5, -2, 1, 2, 3]], np.float32)
    assert run(sym._contrib_box_nms(X, out_format="center"), x=data)[0].tolist() == [[0, 0.5, 0, 2, 4, 2]]


@pytest.mark.slow("compiles")
def test_the_record_is_exact_in_half_precision():
    """MXNet keeps row numbers in the data's dtype, in which float16 cannot count beyond 2048."""
    n = 2100
    scores, left = np.zeros(n), np.zeros(n)
    scores[-1] = 1
    data = np.stack([scores, left, left, left + 1, left + 1], 1).astype(np.float16)
    gradient = jax.jit(lowering.grad_fn(sym._contrib_box_nms(X, score_index=0, coord_start=1), ["x"]))
    _, grads, _ = gradient({"x": data}, head_grads=[jnp.ones((n, 5), jnp.float16)])
    assert np.flatnonzero(np.asarray(grads["x"])[:, 0]).tolist() == [n - 1]


@pytest.mark.nightly("compiles")
def test_suppression_of_many_axes_is_that_of_each_batch():
    data = Detections((2, 2, 6, 6)).draw(np.random.RandomState(1))
    function = jax.jit(lowering.to_jax(sym._contrib_box_nms(X, overlap_thresh=0.2)))
    whole = np.asarray(function({"x": data})[0][0])
    for i, j in itertools.product(range(2), range(2)):
        np.testing.assert_array_equal(whole[i, j], function({"x": data[i, j]})[0][0])


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"score_index": 3}, ("score_index=3", "[2, 3, 4, 5]")),
        ({"id_index": 5}, ("id_index=5", "[2, 3, 4, 5]")),
        ({"id_index": 1}, ("id_index=1", "score_index=1")),
        ({"coord_start": -1}, ("'coord_start'", "≥ 0", "-1")),
        ({"in_format": "corners"}, ("in_format", "'center', 'corner'")),
    ],
)
def test_places_in_a_row_that_do_not_fit_are_named(params, words):
    with refused(ParamError, *words):
        sym._contrib_box_nms(X, **params)


# -- bipartite_matching ----------------------------------------------------------------------------------------------


@pytest.mark.slow("compiles")
def test_topk_lets_one_pair_more_pass():
    scores = np.diag([4.0, 3.0, 2.0, 1.0]).astype(np.float32)
    rows, columns = run(sym._contrib_bipartite_matching(X, threshold=0.5, topk=2), x=scores)
    assert rows.tolist() == columns.tolist() == [0, 1, 2, -1]


def test_matching_needs_a_threshold():
    with pytest.raises(ParamError, match="threshold"):
        sym._contrib_bipartite_matching(X)


# -- encoding --------------------------------------------------------------------------------------------------------


def test_decoding_inverts_encoding():
    rng = np.random.RandomState(2)
    refs, anchors = Boxes((1, 5, 4)).draw(rng), Boxes((1, 5, 4)).draw(rng)
    names = ("samples", "matches", "anchors", "refs", "means", "stds")
    encode = sym._contrib_box_encode(*map(sym.Variable, names))
    std = np.array([0.1, 0.1, 0.2, 0.2], np.float32)
    values = (np.ones((1, 5), np.float32), np.arange(5, dtype=np.float32)[None], anchors, refs, 0 * std, std)
    targets, _ = run(encode, **dict(zip(names, values, strict=True)))
    stds = {f"std{i}": float(v) for i, v in enumerate(std)}
    decoded = run(sym._contrib_box_decode(X, Y, format="corner", **stds), x=targets, y=anchors)[0]
    np.testing.assert_allclose(decoded, refs, atol=1e-6)


# -- inference -------------------------------------------------------------------------------------------------------


def test_inference_runs_backwards():
    iou = sym._contrib_box_iou(X, Y) + sym.Variable("z", shape=(2, 3, 5))
    assert iou.infer_shape(x=(2, 3, 4))[0][:2] == [(2, 3, 4), (5, 4)]
    assert iou.infer_shape(y=(5, 4))[0][:2] == [(2, 3, 4), (5, 4)]
    assert sym._contrib_box_decode(X, Y).infer_shape(x=(2, 3, 4))[0] == [(2, 3, 4), (1, 3, 4)]


@pytest.mark.parametrize(
    ("symbol", "shapes", "words"),
    [
        (sym._contrib_box_iou(X, Y, name="n"), {"x": (4,), "y": (5, 4)}, ("'lhs'", "at least 2 axes", "(4,)")),
        (sym._contrib_box_iou(X, Y, name="n"), {"x": (2, 3), "y": (5, 4)}, ("'lhs'", "(2, 3)", "(2, 4)")),
        (sym._contrib_box_nms(X, name="n"), {"x": (3, 5)}, ("'data'", "rows of at least 6", "got 5")),
        (sym._contrib_box_nms(X, name="n"), {"x": (6,)}, ("'data'", "at least 2 axes", "(6,)")),
        (sym._contrib_bipartite_matching(X, threshold=0.1, name="n"), {"x": (6,)}, ("'data'", "at least 2 axes")),
        (sym._contrib_box_decode(X, Y, name="n"), {"x": (2, 3, 4), "y": (2, 3, 4)}, ("'anchors'", "(1, 3, 4)")),
        (sym._contrib_box_decode(X, Y, name="n"), {"x": (2, 4, 4), "y": (1, 3, 4)}, ("'anchors'", "(1, 4, 4)")),
    ],
)
def test_what_does_not_fit_is_named(symbol, shapes, words):
    with refused(InferenceError, *words, "'n'"):
        symbol.infer_shape(**shapes)
