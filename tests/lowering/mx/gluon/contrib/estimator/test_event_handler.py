"""Handlers that log, evaluate, save, resume and stop: numbers, names of files and lines are MXNet 1.9.1's."""

from pathlib import Path
from typing import Any

import pytest

from lowering import mx
from lowering.mx.gluon.contrib.estimator import (
    CheckpointHandler,
    EarlyStoppingHandler,
    LoggingHandler,
    ValidationHandler,
)
from tests.lowering.mx.gluon.contrib.estimator.shared import data, estimator, lines, network, values


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def both(*stems: str) -> list[str]:
    return [f"m-{stem}.{ending}" for stem in stems for ending in ("params", "states")]


def test_values_are_logged_every_some_batches():
    made = estimator(train_metrics=mx.metric.Accuracy())
    made.fit(data(), epochs=1, event_handlers=LoggingHandler(2, metrics=made.train_metrics))
    assert lines(made)[3:5] == [
        "[Epoch 0][Batch 0][Samples 16] time/interval: Ts training accuracy: 0.5000",
        "[Epoch 0][Batch 2][Samples 48] time/interval: Ts training accuracy: 0.6667",
    ]
    with pytest.raises(ValueError, match="log_interval must be either an integer or string 'epoch'"):
        LoggingHandler("batch")


@pytest.mark.parametrize(
    ("periods", "count"), [({"epoch_period": 2}, 1), ({"epoch_period": None, "batch_period": 3}, 2)]
)
def test_it_is_evaluated_when_it_is_time(periods: dict[str, Any], count: int):
    made = estimator(train_metrics=mx.metric.Accuracy())
    made.fit(data(), epochs=2, event_handlers=[ValidationHandler(data(32), made.evaluate, **periods)])
    assert lines(made).count("Validation Begin") == count


def test_checkpoints_are_written_and_the_older_ones_removed(tmp_path: Path):
    made = estimator()
    made.fit(data(), epochs=3, event_handlers=CheckpointHandler(tmp_path / "new", "m", verbose=1, max_checkpoints=2))
    assert names(tmp_path / "new") == both("epoch1batch8", "epoch2batch12")
    assert lines(made)[3].startswith("Model architecture(symbol file) is not saved, please use HybridBlock")
    saving = f"[Epoch 0] CheckpointHandler: trained total 5 batches, saving model at {tmp_path / 'new'} with prefix: "
    assert lines(made)[4] == saving + "m-epoch0batch4"


@pytest.mark.slow("compiles")
def test_the_oldest_checkpoint_is_removed_and_none_whose_name_begins_alike(tmp_path: Path):
    handler = CheckpointHandler(tmp_path, "m", epoch_period=None, batch_period=1, max_checkpoints=11)
    estimator().fit(data(64, 4), batches=12, event_handlers=handler)
    assert handler.saved_checkpoints == [f"m-epoch0batch{i}" for i in range(1, 12)]
    assert names(tmp_path) == sorted(both(*(f"epoch0batch{i}" for i in range(1, 12))))


def test_a_hybridised_network_is_written_with_its_checkpoints(tmp_path: Path):
    net = network()
    net.hybridize()
    estimator(net=net).fit(
        data(), batches=3, event_handlers=CheckpointHandler(tmp_path, "m", epoch_period=None, batch_period=3)
    )
    assert names(tmp_path) == [*both("epoch0batch2"), "m-symbol.json"]
    assert mx.sym.load(str(tmp_path / "m-symbol.json")).list_arguments() == ["data", "n_weight", "n_bias"]


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    ("which", "mode", "better"),
    [(0, "max", "greater"), (1, "min", "less"), (0, "auto", "greater"), (1, "auto", "less")],
)
def test_the_best_checkpoint_is_kept(which: int, mode: str, better: str, tmp_path: Path, recwarn: Any):
    """A deviation: MXNet's "auto" takes every metric for one that should be great."""
    made = estimator()
    monitor = made.train_metrics[which]
    handler = CheckpointHandler(tmp_path, "m", monitor=monitor, save_best=True, mode=mode, verbose=1)
    assert [better in str(each.message) for each in recwarn] == [True] * (mode == "auto")
    made.fit(data(), epochs=2, event_handlers=handler)
    assert handler.best == monitor.get()[1]
    assert names(tmp_path)[:2] == both("best")
    first, second = ("0.73438", "0.92188") if which == 0 else ("0.47971", "0.13559")
    told = f"{monitor.name} improved from {first} to {second}, updating best model at {tmp_path} with prefix: m-best"
    assert f"[Epoch 1] CheckpointHandler: {told}" in lines(made)


def test_training_is_resumed_from_the_latest_checkpoint(tmp_path: Path):
    estimator().fit(data(), epochs=2, event_handlers=CheckpointHandler(tmp_path, "m"))
    (tmp_path / "m-epoch7batch32.params").write_bytes(b"of a process that was killed: its states are missing")
    made = estimator()
    made.fit(data(), epochs=5, event_handlers=CheckpointHandler(tmp_path, "m", resume_from_checkpoint=True))
    assert made.max_epoch == 3
    assert values(made.train_metrics)["training softmaxcrossentropyloss"] == 0.0449
    assert "m-epoch4batch20.states" in names(tmp_path)
    told = "CheckpointHandler: Checkpoint resumed from epoch 1 batch 8, continue to train for 3 epochs "
    assert lines(made)[0] == told
    with pytest.raises(ValueError, match="maximum number of epochs 5 reached"):
        estimator().fit(data(), epochs=5, event_handlers=CheckpointHandler(tmp_path, "m", resume_from_checkpoint=True))


def test_training_is_resumed_by_batches(tmp_path: Path):
    periods: dict[str, Any] = {"epoch_period": None, "batch_period": 3, "resume_from_checkpoint": True}
    first = estimator()
    first.fit(data(), batches=6, event_handlers=CheckpointHandler(tmp_path, "m", **periods))
    assert lines(first)[0] == "CheckpointHandler: No checkpoint found, training from scratch for 6 batches"
    made = estimator()
    made.fit(data(), batches=12, event_handlers=CheckpointHandler(tmp_path, "m", **periods))
    assert (made.max_batch, values(made.train_metrics)["training softmaxcrossentropyloss"]) == (6, 0.0516)
    assert names(tmp_path) == both("epoch0batch2", "epoch1batch5", "epoch2batch8", "epoch3batch11")
    with pytest.raises(AssertionError, match=r"needs checkpoints that count epochs. epoch_period=1, batch_period=None"):
        estimator().fit(data(), epochs=9, event_handlers=CheckpointHandler(tmp_path, "m", **periods))


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    ("most", "options", "fits", "expected"),
    [
        (1, {}, ({"epochs": 2}, {"epochs": 5}), ["epoch1batch8", "epoch4batch20"]),
        (2, {}, ({"epochs": 2}, {"epochs": 5}), ["epoch0batch4", "epoch1batch8", "epoch3batch16", "epoch4batch20"]),
        (0, {"epoch_period": 2}, ({"epochs": 2}, {"epochs": 5}), []),
        (
            1,
            {"epoch_period": 0, "batch_period": 3},
            ({"batches": 6}, {"batches": 12}),
            ["epoch1batch5", "epoch3batch11"],
        ),
    ],
)
def test_what_was_there_at_resume_stays_and_counts_for_no_limit(
    most: int, options: dict[str, Any], fits: tuple[dict[str, int], ...], expected: list[str], tmp_path: Path
):
    """The names are what MXNet 1.9.1 leaves after the same two runs, the second of which resumes."""
    for fit, resume in zip(fits, (False, True), strict=True):
        made = estimator()
        monitor = made.train_metrics[0]
        options = {**options, "monitor": monitor, "save_best": True, "mode": "max", "max_checkpoints": most}
        handler = CheckpointHandler(tmp_path, "m", resume_from_checkpoint=resume, **options)
        made.fit(data(), event_handlers=handler, **fit)  # pyright: ignore[reportArgumentType]
    assert names(tmp_path) == both("best", *expected)


@pytest.mark.parametrize(
    ("which", "options", "expected"),
    [
        (0, {"mode": "min"}, (2, 1)),
        (1, {"mode": "min", "min_delta": 0.05, "patience": 2}, (5, 4)),
        (1, {"mode": "max", "patience": 3}, (4, 3)),
        (0, {"mode": "max", "baseline": 0.99}, (1, 0)),
    ],
)
def test_training_stops_early(which: int, options: dict[str, Any], expected: tuple[int, int]):
    made = estimator()
    handler = EarlyStoppingHandler(made.train_metrics[which], **options)
    made.fit(data(), epochs=8, event_handlers=[handler])
    assert (handler.current_epoch, handler.stopped_epoch) == expected
    told = f"[Epoch {expected[1]}] EarlyStoppingHanlder: early stopping due to {made.train_metrics[which].name} not "
    assert (told + "improving" in lines(made)) == (expected[1] > 0)


def test_a_metric_that_nothing_updates_is_told():
    handler = EarlyStoppingHandler(mx.metric.MSE(), mode="min")
    with pytest.warns(RuntimeWarning, match="mse is not updated, make sure you pass one of the metric objects"):
        estimator().fit(data(), epochs=1, event_handlers=handler)
    assert not handler.stop_training
    for monitor in ("acc", mx.metric.CompositeEvalMetric(["acc"])):
        with pytest.raises(ValueError, match="one of the metric objects"):
            EarlyStoppingHandler(monitor)  # pyright: ignore[reportArgumentType]
    with pytest.warns(RuntimeWarning, match="EarlyStopping mode middle is unknown, fallback to auto mode"):  # noqa: SIM117
        with pytest.warns(UserWarning, match="`greater` operator"):
            EarlyStoppingHandler(mx.metric.F1(), mode="middle")


def test_best_needs_a_metric(tmp_path: Path):
    with pytest.raises(ValueError, match="please provide one of the metric objects"):
        CheckpointHandler(tmp_path, save_best=True)
