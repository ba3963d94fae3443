"""`Estimator`: numbers, names of metrics and lines of the log are MXNet 1.9.1's, of the same network and data."""

from typing import Any

import pytest

from lowering import mx
from lowering.mx import gluon
from lowering.mx.gluon.contrib.estimator import (
    BatchBegin,
    BatchEnd,
    BatchProcessor,
    EpochBegin,
    EpochEnd,
    Estimator,
    LoggingHandler,
    TrainBegin,
    TrainEnd,
)
from tests.lowering.mx.gluon.contrib.estimator.shared import X, data, estimator, lines, network, values


@pytest.mark.slow("compiles")
def test_fit_trains_measures_and_logs():
    made = estimator()
    made.fit(data(), epochs=2)
    assert values(made.train_metrics) == {"training accuracy": 0.9219, "training softmaxcrossentropyloss": 0.1356}
    assert lines(made) == [
        "Training begin: using optimizer SGD with current learning rate 0.5000 ",
        "Train for 2 epochs.",
        "[Epoch 0] Begin, current learning rate: 0.5000",
        "[Epoch 0] Finished in Ts, training accuracy: 0.7344, training softmaxcrossentropyloss: 0.4797",
        "[Epoch 1] Begin, current learning rate: 0.5000",
        "[Epoch 1] Finished in Ts, training accuracy: 0.9219, training softmaxcrossentropyloss: 0.1356",
        "Train finished using total Ts with 2 epochs. training accuracy: 0.9219, "
        "training softmaxcrossentropyloss: 0.1356",
    ]


def test_fit_counts_batches_and_evaluates_after_each_epoch():
    metrics = [mx.metric.Accuracy(), mx.metric.TopKAccuracy(2)]
    made = estimator(train_metrics=mx.metric.Accuracy(), val_metrics=mx.metric.CompositeEvalMetric(metrics))
    made.fit(data(), data(32), batches=6)
    assert values(made.train_metrics) == {"training accuracy": 0.875}
    assert values(made.val_metrics) == {"validation accuracy": 0.9375, "validation top_k_accuracy_2": 1.0}
    assert lines(made)[1:6] == [
        "Train for 6 batches.",
        "[Epoch 0] Begin, current learning rate: 0.5000",
        "Validation Begin",
        "[Epoch 0] Finished in Ts, validation accuracy: 0.8750, validation top_k_accuracy_2: 1.0000",
        "[Epoch 0] Finished in Ts, training accuracy: 0.7344",
    ]


def test_evaluate_computes_by_the_network_for_validation():
    made = estimator()
    made.evaluate(data())
    assert values(made.val_metrics) == {"validation accuracy": 0.5312, "validation softmaxcrossentropyloss": 0.6931}
    other = estimator(
        val_net=lambda x: 10 * mx.nd.stack(-x.sum(1), x.sum(1), axis=1), val_loss=gluon.loss.SoftmaxCELoss()
    )
    other.evaluate(data())
    assert values(other.val_metrics[:1]) == {"validation accuracy": 1.0}


def test_a_batch_is_split_over_contexts():
    made = estimator(net=None, context=None)
    net = gluon.nn.Dense(2, in_units=4, prefix="n_")
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    with pytest.warns(UserWarning, match="No trainer specified, default SGD optimizer with learning rate 0.001"):
        spread = Estimator(net, loss, initializer=mx.init.Constant(0.1), context=[mx.cpu(0), mx.cpu(1)])
    assert (made.context, net.weight.list_ctx()) == ([mx.cpu()], [mx.cpu(0), mx.cpu(1)])
    batch = next(iter(data()))
    parts = spread.batch_processor.evaluate_batch(spread, batch)
    assert [[part.shape for part in each] for each in parts] == [[(8, 4)] * 2, [(8,)] * 2, [(8, 2)] * 2, [(8,)] * 2]


class Seen(TrainBegin, TrainEnd, EpochBegin, EpochEnd, BatchBegin, BatchEnd):
    """Keeps what happened; ends the first epoch at its second batch, and training at the end of the second epoch."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        self.events.append("train {")

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        self.events.append("}")

    def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        self.events.append("epoch {")

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
        self.events.append("}")
        return self.events.count("epoch {") == 2

    def batch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        self.events.append(f"batch {sorted(kwargs)}")

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
        self.events.append(f"{sorted(kwargs)} {kwargs['loss'][0].shape}")
        return len(self.events) == 6


def test_handlers_are_told_what_happens_and_may_end_it():
    handler = Seen()
    estimator().fit(data(), epochs=5, event_handlers=handler)
    batch = ["batch ['batch']", "['batch', 'label', 'loss', 'pred'] (16,)"]
    assert handler.events == ["train {", "epoch {", *batch, *batch, "}", "epoch {", *batch * 4, "}", "}"]


class Doubled(BatchProcessor):
    """Computes the first half of a batch."""

    def fit_batch(self, estimator: Any, train_batch: Any, batch_axis: int = 0) -> Any:
        return super().fit_batch(estimator, [part[:8] for part in train_batch], batch_axis)


def test_a_processor_of_ones_own_computes_the_batches():
    made = estimator(batch_processor=Doubled(), train_metrics=mx.metric.Accuracy())
    made.fit(data(), batches=2)
    assert made.train_metrics[0].num_inst == 16


def test_an_initialised_network_is_left_alone():
    with pytest.warns(UserWarning, match="Network already fully initialized, skipping initialization"):
        made = estimator(initializer=mx.init.One())
    assert float(made.net.collect_params()["n_weight"].data().max().asscalar()) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: Estimator(network(), "l2"), "loss must be a Loss"),  # pyright: ignore[reportArgumentType]
        (lambda: estimator(context="cpu"), "context must be a Context or a list of Context"),
        (lambda: estimator(context=[mx.gpu(99)]), r"gpu\(99\) is not available"),
        (lambda: Estimator(network(), gluon.loss.L2Loss(), trainer="sgd"), "must be a Gluon Trainer"),  # pyright: ignore
        (lambda: estimator(batch_processor=3), r"must contain fit_batch\(\) and evaluate_batch\(\)"),
        (lambda: estimator(train_metrics="acc"), "metrics must be a Metric or a list of Metric"),
        (lambda: estimator().fit(data(), epochs=1, batches=1), "Give one of epochs= and batches="),
        (lambda: estimator().fit(data()), "exactly one type of iteration"),
        (lambda: estimator().fit([X], epochs=1), r"only support input as Gluon DataLoader; got list"),  # pyright: ignore
        (lambda: estimator().fit(data(), epochs=1, event_handlers=[3]), "handlers must be an EventHandler"),  # pyright: ignore
        (lambda: estimator().fit(data(), epochs=1, event_handlers=LoggingHandler(1, mx.metric.MSE())), "outside of the known training"),  # noqa: E501
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(call: Any, told: str):
    with pytest.raises((ValueError, AssertionError), match=told):
        call()


@pytest.mark.parametrize("length", [{"epochs": -1}, {"batches": -3}, {"epochs": 1.5}])
def test_lengths_that_are_never_reached_are_refused(length: dict[str, Any]):
    """MXNet trains for ever."""
    with pytest.raises(
        mx.MXNetError, match=rf"'{next(iter(length))}'; expected a whole number ≥ 1; got {next(iter(length.values()))}"
    ):
        estimator().fit(data(), **length)
