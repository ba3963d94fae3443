"""Batches: which rows come when."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

from typing import Any

import numpy as np
import pytest

from lowering import Batches
from symjax_nnvm import TrainingError

ROWS = {"data": np.arange(10), "label": np.arange(10) * 2}


def rows(batches: Batches, epoch: int = 0, start: int = 0) -> list[list[int]]:
    return [batch["data"].tolist() for batch in batches.epoch(epoch, start)]


def test_rows_stay_together_and_each_comes_once():
    seen = list(Batches(ROWS, 3, shuffle=True, last="keep").epoch(5))
    assert sorted(np.concatenate([batch["data"] for batch in seen])) == list(range(10))
    for batch in seen:
        np.testing.assert_array_equal(batch["label"], 2 * batch["data"])


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ("drop", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("keep", [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]),
        ("pad", [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]]),
    ],
)
def test_what_becomes_of_the_last_batch(last: Any, expected: list[list[int]]):
    batches = Batches(ROWS, 4, last=last)
    assert rows(batches) == expected
    assert len(batches) == len(expected)
    assert [batches.rows(i) for i in range(len(batches))] == [4, 4, 2][: len(expected)]


def test_the_order_depends_on_seed_and_epoch_only():
    batches = Batches(ROWS, 2, shuffle=True, seed=4)
    assert rows(batches, 3) == rows(Batches(ROWS, 2, shuffle=True, seed=4), 3)
    assert rows(batches, 3) != rows(batches, 4)
    assert rows(batches, 3) != rows(Batches(ROWS, 2, shuffle=True, seed=5), 3)
    assert rows(batches, 0) == [[3, 7], [5, 1], [9, 4], [6, 8], [0, 2]]  # for all time


def test_an_epoch_can_start_in_the_middle():
    batches = Batches(ROWS, 3, shuffle=True)
    assert rows(batches, 2, start=1) == rows(batches, 2)[1:]


def test_a_mapped_array_is_read_batch_by_batch(tmp_path: Any):
    np.save(tmp_path / "data.npy", np.arange(10))
    mapped = np.load(tmp_path / "data.npy", mmap_mode="r")
    batches = Batches({"data": mapped}, 5)
    assert batches.arrays["data"] is mapped
    assert rows(batches) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


@pytest.mark.parametrize(
    ("arrays", "size", "options", "says"),
    [
        ({"data": np.ones(3), "label": np.ones(4)}, 1, {}, "'data': 3, 'label': 4"),
        ({}, 1, {}, "arrays of the same length"),
        ({"data": np.float32(1)}, 1, {}, "None"),
        (ROWS, 11, {}, "1 to 10"),
        (ROWS, 0, {}, "1 to 10"),
        (ROWS, 2, {"last": "wrap"}, "'drop', 'pad' or 'keep'"),
    ],
)
def test_arrays_that_make_no_batches(arrays: Any, size: int, options: Any, says: str):
    with pytest.raises(TrainingError, match=says):
        Batches(arrays, size, **options)
