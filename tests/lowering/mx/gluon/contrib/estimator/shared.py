"""A block of one layer, its data, and an Estimator whose logs are read."""

import io
import re
from typing import Any

import numpy as np

from lowering import mx
from lowering.mx import gluon
from lowering.mx.gluon.contrib.estimator import Estimator

X = np.random.RandomState(0).randn(64, 4).astype(np.float32)
Y = (X.sum(1) > 0).astype(np.float32)


def data(count: int = 64, batch_size: int = 16) -> gluon.data.DataLoader:
    return gluon.data.DataLoader(gluon.data.ArrayDataset(X[:count], Y[:count]), batch_size)


def network() -> Any:
    net = gluon.nn.Dense(2, in_units=4, prefix="n_")
    net.initialize(mx.init.Constant(0.1))
    return net


def estimator(**options: Any) -> Estimator:
    net = options.pop("net", None) or network()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5, "momentum": 0.9})
    made = Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer=trainer, **options)
    made.logger.handlers[0].stream = io.StringIO()
    return made


def lines(made: Estimator) -> list[str]:
    """What was logged, without times."""
    text = made.logger.handlers[0].stream.getvalue()
    return re.sub(r"(in|total|interval:) \d+(\.\d+)?s", r"\1 Ts", text).splitlines()


def values(metrics: list[Any]) -> dict[str, float]:
    return {name: round(float(value), 4) for name, value in (metric.get() for metric in metrics)}
