"""`mx.lr_scheduler`: rates that count on, attributes that may be written, what is logged, and copies."""

import copy
import logging
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from lowering import mx
from lowering.optim import schedules

S = mx.lr_scheduler

PAIRS: dict[str, tuple[Callable[[], Any], Any]] = {
    "factor": (
        lambda: S.FactorScheduler(3, 0.5, 1e-3, 1.0),
        schedules.FactorScheduler(step=3, factor=0.5, stop_factor_lr=1e-3, base_lr=1.0),
    ),
    "factor, stopped, after a warm-up": (
        lambda: S.FactorScheduler(3, 0.1, 0.05, 1.0, 5, 0.1, "constant"),
        schedules.FactorScheduler(
            step=3, factor=0.1, stop_factor_lr=0.05, base_lr=1.0, warmup_steps=5, warmup_begin_lr=0.1,
            warmup_mode="constant",
        ),
    ),
    "several": (
        lambda: S.MultiFactorScheduler([2, 5, 6], 0.25, base_lr=2.0, warmup_steps=3),
        schedules.MultiFactorScheduler(step=[2, 5, 6], factor=0.25, base_lr=2.0, warmup_steps=3),
    ),
    "poly": (
        lambda: S.PolyScheduler(8, 1.0, 3, 0.1, warmup_steps=2),
        schedules.PolyScheduler(max_update=8, base_lr=1.0, pwr=3, final_lr=0.1, warmup_steps=2),
    ),
    "cosine": (
        lambda: S.CosineScheduler(9, 1.0, 0.2, warmup_steps=2, warmup_begin_lr=0.5),
        schedules.CosineScheduler(max_update=9, base_lr=1.0, final_lr=0.2, warmup_steps=2, warmup_begin_lr=0.5),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_rates_are_those_of_the_functions(name: str):
    made, function = PAIRS[name]
    scheduler = made()
    rates = [scheduler(i) for i in range(1, 14)]
    assert rates == pytest.approx([function.exactly(i) for i in range(1, 14)], rel=1e-12)
    assert scheduler.base_lr == rates[-1]


@pytest.mark.parametrize("name", PAIRS)
def test_a_copy_goes_on_where_it_was(name: str):
    scheduler = PAIRS[name][0]()
    for i in range(1, 6):
        scheduler(i)
    for other in (copy.deepcopy(scheduler), pickle.loads(pickle.dumps(scheduler))):
        assert vars(other) == vars(scheduler)
        other(13)
    assert scheduler(6) == PAIRS[name][0]()(6)


def test_attributes_that_are_written_hold():
    scheduler = S.FactorScheduler(2, 0.5, base_lr=1.0)
    scheduler.factor = 0.1
    assert [scheduler(i) for i in range(1, 7)] == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])
    scheduler.base_lr = 5.0  # it goes on from here
    assert [scheduler(i) for i in (6, 7)] == pytest.approx([5, 0.5])
    poly = S.PolyScheduler(10, 1.0, 2)
    poly.power = 1
    assert poly(5) == pytest.approx(0.5)
    assert (poly.base_lr_orig, poly.max_steps, poly.warmup_final_lr) == (1.0, 10, 1.0)


def test_changes_are_logged(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO):
        S.FactorScheduler(1, 0.1, 0.05, 1.0)(3)
        S.MultiFactorScheduler([1], 0.5, base_lr=1.0)(2)
    assert [record.getMessage() for record in caplog.records] == [
        "Update[3]: Change learning rate to 1.00000e-01",
        "Update[3]: now learning rate arrived at 5.00000e-02, will not change in the future",
        "Update[2]: Change learning rate to 5.00000e-01",
    ]


@pytest.mark.parametrize(
    "make",
    [
        lambda: S.LRScheduler(0.1, warmup_begin_lr=0.2),
        lambda: S.LRScheduler(warmup_steps=-1),
        lambda: S.LRScheduler(warmup_mode="quick"),
        lambda: S.FactorScheduler(0),
        lambda: S.FactorScheduler(1, 2),
        lambda: S.MultiFactorScheduler([]),
        lambda: S.MultiFactorScheduler([0, 1]),
        lambda: S.MultiFactorScheduler([3, 2]),
        lambda: S.MultiFactorScheduler([1], 2),
        lambda: S.PolyScheduler(0),
    ],
)
def test_what_makes_no_schedule_is_refused(make: Callable[[], Any]):
    with pytest.raises(ValueError, match="; in parameter '"):
        make()


def test_a_scheduler_of_ones_own_must_say_the_rate():
    with pytest.raises(NotImplementedError, match="__call__"):
        S.LRScheduler()(1)
