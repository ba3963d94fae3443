"""Samplers: orders, and what becomes of numbers that fill no batch."""

import numpy as np
import pytest

from lowering.mx.gluon import data
from symjax_nnvm.errors import ParamError


def test_samplers_give_numbers_in_order_from_a_start_or_shuffled_by_numpys_generator():
    assert list(data.SequentialSampler(4, 3)) == [3, 4, 5, 6]
    shuffled = data.RandomSampler(6)
    np.random.seed(5)
    first = list(shuffled)
    np.random.seed(5)
    expected = np.arange(6)
    np.random.shuffle(expected)
    assert first == expected.tolist() != list(shuffled)
    assert len(shuffled) == 6


def test_a_filter_keeps_the_numbers_of_samples():
    sampler = data.FilterSampler(lambda x: x > 4, [3, 9, 1, 7])
    assert (list(sampler), len(sampler)) == ([1, 3], 2)


@pytest.mark.parametrize(
    ("last", "epochs"),
    [
        ("keep", [([[0, 1, 2], [3, 4, 5], [6]], 3)] * 2),
        ("discard", [([[0, 1, 2], [3, 4, 5]], 2)] * 2),
        (
            "rollover",
            [([[0, 1, 2], [3, 4, 5]], 2), ([[6, 0, 1], [2, 3, 4]], 2), ([[5, 6, 0], [1, 2, 3], [4, 5, 6]], 3)],
        ),
    ],
)
def test_the_rest_of_an_epoch(last: str, epochs: list[tuple[list[list[int]], int]]):
    sampler = data.BatchSampler(data.SequentialSampler(7), 3, last)
    for batches, length in epochs:
        assert len(sampler) == length
        assert list(sampler) == batches


def test_other_words_for_the_rest_are_refused():
    with pytest.raises(ParamError, match="last_batch must be one of 'keep', 'discard', or 'rollover', but got drop"):
        data.BatchSampler(data.SequentialSampler(7), 3, "drop")


def test_a_sampler_must_say_its_numbers():
    with pytest.raises(NotImplementedError, match="Sampler must define __iter__"):
        list(data.Sampler())
