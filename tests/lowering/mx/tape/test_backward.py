"""Gradients flow back over the rows of a tape."""

import operator
from typing import Any

import pytest

from lowering.mx.tape.backward import Row, leaf_gradients

X, W = (-1, 0), (-1, 1)
"""Leaves."""

PRODUCT = Row((0, 1), (X, W), 1)
SQUARE = Row((0, 1), (X, X), 1)


@pytest.mark.parametrize(
    ("rows", "heads", "slopes", "gradients"),
    [
        pytest.param(
            [PRODUCT, SQUARE, Row((0, 1), ((0, 0), (1, 0)), 1)],  # x = 3, w = 5: x w + x x
            [(2, 0)],
            {0: [5.0, 3.0], 1: [3.0, 3.0], 2: [1.0, 1.0]},
            {0: 11.0, 1: 3.0},
            id="a leaf used twice gets the sum",
        ),
        pytest.param(
            [PRODUCT, Row((0,), (X,), 1)],
            [(0, 0), (1, 0), (0, 0)],
            {0: [5.0, 3.0], 1: [7.0]},
            {0: 17.0, 1: 6.0},
            id="several heads, and a head twice, add up",
        ),
        pytest.param(
            [PRODUCT], [(0, 0), X], {0: [5.0, 3.0]}, {0: 6.0, 1: 3.0}, id="a head that is a leaf has its own gradient"
        ),
        pytest.param(
            [Row((), (), 1), Row((1,), (W,), 1)],
            [None, (1, 0)],
            {1: [2.0]},
            {1: 2.0},
            id="what leads to no leaf is not differentiated",
        ),
        pytest.param(
            [Row((0,), (X,), 3), Row((0,), ((0, 1),), 1), Row((0,), ((0, 0),), 1)],
            [(1, 0)],
            {0: [5.0], 1: [7.0]},
            {0: 35.0},
            id="what no head came from is not differentiated, an output without a gradient has zeros",
        ),
    ],
)
def test_gradients_are_products_of_slopes_and_sums(
    rows: list[Row], heads: list[Any], slopes: dict[int, list[float]], gradients: dict[int, float]
):
    def differentiate(number: int, arrays: list[float], wrt: tuple[int, ...]) -> list[float]:
        (head,) = filter(None, arrays)
        assert len(arrays) == rows[number].outputs
        return [head * slope for slope, _ in zip(slopes[number], wrt, strict=True)]

    found = leaf_gradients(rows, [(head, 1.0) for head in heads], differentiate, operator.add, lambda *_: 0.0)
    assert found == gradients


def test_gradients_are_added_as_soon_as_they_meet():
    rows = [PRODUCT, *(Row((0, 1), ((i, 0), W), 1) for i in range(5))]
    done: list[Any] = []

    def differentiate(number: int, arrays: list[int], wrt: tuple[int, ...]) -> list[int]:
        done.append(number)
        return [1, 1]

    def add(a: int, b: int) -> int:
        done.append("+")
        return a + b

    assert leaf_gradients(rows, [((5, 0), 1)], differentiate, add, lambda *_: 0) == {0: 1, 1: 6}
    assert done == [5, 4, "+", 3, "+", 2, "+", 1, "+", 0, "+"]
