"""A program computed by lanes is the program: each has its samples, and sums over samples are added up."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from lowering.convolutions.products import row_product, sequence_product
from lowering.lanes.pieces import Lane, Piece, Unsplit
from lowering.lanes.split import run
from lowering.ops.nn.batch_norm import batch_moments
from tests.support.together import together
from tests.support.traced import Traced

ROWS = 8
X = np.random.RandomState(0).standard_normal((ROWS, 3, 4)).astype(np.float32)
W = np.random.RandomState(1).standard_normal((4, 5)).astype(np.float32)
NUMBERS = np.random.RandomState(2).randint(0, 4, ROWS)


def in_lanes(function: Callable[..., Any], count: int, split: Sequence[Any], whole: Sequence[Any]) -> tuple[Any, int]:
    """The results that lanes have together, and how often they meet. `jax.vmap` stands for threads."""
    closed = jax.make_jaxpr(lambda split, whole: jax.tree.leaves(function(*split, *whole)))([*split], [*whole])
    kinds: list[Piece] = []
    met = [0]

    def lane_sum(number: Any, arrays: list[Any]) -> tuple[Any, list[Any]]:
        return number, lax.psum(arrays, "lanes")

    def of_lane(split: Sequence[Any], whole: Sequence[Any]) -> list[Any]:
        lane = Lane(count, lax.axis_index("lanes"), lane_sum)
        results = run(lane, closed.jaxpr, closed.consts, [*(Piece(x, 0) for x in split), *map(Piece, whole)])
        kinds[:], met[0] = results, lane.sums
        return [piece.array for piece in results]

    def together_(split: Sequence[Any], whole: Sequence[Any]) -> list[Any]:
        parts = [x.reshape(count, -1, *x.shape[1:]) for x in split]
        results = jax.vmap(of_lane, in_axes=(0, None), axis_name="lanes")(parts, whole)
        return [
            value.sum(0) if kind.partial else value[0] if kind.axis is None else jnp.concatenate([*value], kind.axis)
            for value, kind in zip(results, kinds, strict=True)
        ]

    return Traced(together_, [*split], [*whole]).evaluated([*split], [*whole]), met[0]


def normalized(x: Any) -> Any:
    mean = x.mean((0, 2), keepdims=True)
    return (x - mean) / jnp.sqrt(jnp.square(x - mean).mean((0, 2), keepdims=True) + 1e-3)


def looped(x: Any) -> Any:
    """A sum by a loop over samples in a loop over rows, and a map over samples."""

    def add(total: Any, sample: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, t: t + sample[i] ** 2, total), jnp.sin(sample)

    return lax.scan(add, jnp.ones(4), x)


def recurrent(x: Any, w: Any) -> Any:
    """A loop over the second axis that carries samples, and one that adds up a weight's gradient."""
    steps = jnp.swapaxes(x, 0, 1)
    last, kept = lax.scan(lambda h, s: (jnp.tanh(s @ w + h), h), jnp.zeros((ROWS, 5)), steps)
    grad, _ = lax.scan(lambda g, s: (g + s[0].T @ s[1], None), jnp.zeros((4, 5)), (steps, kept))
    return last, kept, grad


def _sequence(x: Any) -> Any:
    """Four matrices of 240 rows, of which each sample has 30."""
    return jnp.tile(x, (4, 1, 10, 20)).reshape(4, -1, 80)


FUNCTIONS: dict[str, tuple[Callable[..., Any], Sequence[Any], int]] = {
    "element by element": (lambda x, w: jnp.where(x > 0, jnp.exp(x), w[0, 0] * x) + w[:, 0], (X, W), 0),
    "gradient of tanh": (jax.grad(lambda x: jnp.tanh(x).sum()), (X,), 0),
    "the whole meets samples": (lambda x, w: x[:, 0] + jnp.cumsum(jnp.ones((ROWS, 1)), 0) * w[:, 1], (X, W), 0),
    "axes": (lambda x: jnp.flip(jnp.pad(x.transpose(1, 0, 2)[:, :, 1:3], ((1, 0), (0, 0), (0, 2))), 0), (X,), 0),
    "reshaped": (lambda x: x.reshape(ROWS * 3, 4).reshape(ROWS, 12).T, (X,), 0),
    "products": (lambda x, w: (x @ w, x.reshape(ROWS, 12).T @ (x[:, 1] @ w)), (X, W), 0),
    "batches of products": (lambda x: jnp.einsum("nij,nkj->nik", x, x), (X,), 0),
    "statistics of the batch": (normalized, (X,), 2),
    "moments far from zero": (lambda x: batch_moments(x + 100, 2, "cpu", None), (X,), 1),
    "moments in blocks": (
        lambda x, w: batch_moments((jnp.round(4 * (x @ w)) / 4).repeat(2500, 1), 2, "cpu", None),
        (X, W),
        1,
    ),
    "sums that are ready together": (lambda x: jax.tree.map(jnp.exp, (x.sum(0), (x * x).sum(0))), (X,), 1),
    "sums of sums": (lambda x: ((x.sum(0) - 2 * x.sum(0)[::-1]) / 3).T, (X,), 0),
    "a sum of integers divided": (lambda n: lax.div(n.sum(), 3), (NUMBERS,), 1),
    "the largest of a sample": (lambda x: (x.max(1), x.argmin(2), jax.nn.softmax(x)), (X,), 0),
    "axes taken apart": (lambda x: [part * n for n, part in enumerate(jnp.unstack(x, axis=1))], (X,), 0),
    "sums taken apart": (lambda x: [part * n for n, part in enumerate(jnp.unstack(x.sum(0)))], (X,), 0),
    "one sample stands for all": (lambda x: x - x[5:6], (X,), 1),
    "loops over samples": (looped, (X,), 0),
    "loops beside samples": (recurrent, (X, W), 0),
    "windows": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2), (1, 1, 2), "VALID"), (X,), 0),
    "rows of a table": (lambda n, w: w[n] * 2, (NUMBERS, W), 0),
    "added to rows": (lambda n, x, w: w.at[n].add(jnp.ones((ROWS, 5)) * x[:, 0, :1]), (NUMBERS, X, W), 0),
    "each sample's own": (lambda n, x: jnp.take_along_axis(x[:, 0], n[:, None], 1), (NUMBERS, X), 0),
    "drawn": (lambda x: x * jax.random.bernoulli(jax.random.key(3), 0.5, x.shape), (X,), 0),
    "a library's product over rows": (
        lambda x: row_product(jnp.tile(x, (1, 30, 25)).reshape(-1, 100), jnp.tile(x, (1, 30, 20)).reshape(-1, 80)),
        (X,),
        0,
    ),
    "a library's sequence of products": (
        lambda x, w: sequence_product(_sequence(x), jnp.tile(w, (4, 20, 20))),
        (X, W),
        0,
    ),
    "a library's sequence of products over rows": (
        lambda x: row_product(_sequence(x), _sequence(x) + 1),
        (X,),
        0,
    ),
    "convolved": (lambda x, w: lax.conv(x, w.T.reshape(5, 1, 4)[:, :, :2].repeat(3, 1), (1,), "VALID"), (X, W), 0),
}
"""Functions, arrays, of which those with 8 rows are split, and how often lanes meet."""


@pytest.mark.slow("traces all functions in 2 and 4 lanes")
def test_lanes_compute_what_the_whole_does():
    with together() as check:
        for name, (function, arrays, meets) in FUNCTIONS.items():
            with check(name):
                expected = jax.tree.leaves(Traced(function, *arrays).evaluated(*arrays))
                split = [array for array in arrays if len(array) == ROWS]
                for count in (2, 4):
                    results, met = in_lanes(function, count, split, arrays[len(split) :])
                    assert met == meets
                    for result, value in zip(results, expected, strict=True):
                        np.testing.assert_allclose(result, value, rtol=2e-5, atol=1e-6)


UNSPLIT: dict[str, Callable[[Any], Any]] = {
    "sort mixes samples": lambda x: jnp.sort(x, 0),
    "rev mixes samples": lambda x: x[::-1],
    "reduce_max mixes samples": lambda x: x.max(0),
    "slice mixes samples": lambda x: x[1:],
    "unstack mixes samples": lambda x: jnp.unstack(x),
    "tile mixes samples": lambda x: jnp.tile(x, (2, 1, 1)),
    "cumsum mixes samples": lambda x: jnp.cumsum(x, 0),
    "takes samples apart": lambda x: x.transpose(1, 0, 2).reshape(-1),
    "passes something from sample to sample": lambda x: lax.scan(lambda h, s: (jnp.tanh(h + s), h), x[0] * 0, x),
    "a loop sums over samples in each step": lambda x: lax.scan(
        lambda h, s: (h, jnp.exp(s.sum(0))), 0.0, x.transpose(1, 0, 2)
    ),
    "there is no rule for while": lambda x: lax.while_loop(lambda y: y.sum() < 0, lambda y: y + 1, x),
}


def test_what_mixes_samples_is_not_split_and_says_why():
    with together() as check:
        for words, function in UNSPLIT.items():
            with check(words), pytest.raises(Unsplit, match=words):
                in_lanes(function, 2, [X], [])
