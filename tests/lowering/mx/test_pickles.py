"""What MXNet can pickle and copy can be pickled and copied here, with its state."""

# The classes are found by their names.
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lowering.initializer
from lowering import mx
from lowering.initializer import initializer_base as initializers
from lowering.mx.metric.metric_base import REGISTRY

COPIES = pytest.mark.parametrize("copied", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy, copy.copy])

LABELS = [mx.nd.array([1, 1, 0, 0]), mx.nd.array([1, 0, 1, 0])]
OUTPUTS = [
    mx.nd.array([[0.25, 0.5, 0.25], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.9, 0.05, 0.05]]),
    mx.nd.array([[0.1, 0.8, 0.1], [0.7, 0.2, 0.1], [0.25, 0.25, 0.5], [0.3, 0.4, 0.3]]),
]


def spread(label: np.ndarray, output: np.ndarray) -> tuple[float, int]:
    """A metric of a user's own: (sum, count)."""
    return float(output.max() - label.min()), len(label)


class WholeOutputs(mx.metric.Accuracy):
    """An accuracy whose subclass writes the sums itself, as many scripts do."""

    def update(self, labels: Any, preds: Any) -> None:
        """Count labels of class 1 as right."""
        for label in labels:
            right = float((label.asnumpy() == 1).sum())
            self.sum_metric += right
            self.global_sum_metric += right
            self.num_inst += label.size
            self.global_num_inst += label.size


METRICS: dict[str, Callable[[], Any]] = {
    "topkaccuracy": lambda: mx.metric.create("topkaccuracy", top_k=2),
    "perplexity": lambda: mx.metric.create("perplexity", ignore_label=0),
    "custommetric": lambda: mx.metric.CustomMetric(spread),
    "compositeevalmetric": lambda: mx.metric.create(["acc", "mse", "f1"]),
    "f1": lambda: mx.metric.F1(average="micro"),
    "pearsoncorrelation": lambda: mx.metric.PearsonCorrelation(average="micro"),
    "own": WholeOutputs,
}
ALL_METRICS = sorted({cls.__name__.lower() for cls in REGISTRY.values()} & {n.lower() for n in dir(mx.metric)})


def seen(metric: Any, batch: int) -> Any:
    """A metric after a batch."""
    same_shape = isinstance(metric, mx.metric.MSE | mx.metric.MAE | mx.metric.RMSE | mx.metric.PearsonCorrelation)
    output = OUTPUTS[batch][:, 1] if same_shape else OUTPUTS[batch]
    composite = isinstance(metric, mx.metric.CompositeEvalMetric)
    for one in metric.metrics if composite else [metric]:
        one.update([LABELS[batch]], [OUTPUTS[batch][:, 1] if composite and one.name == "mse" else output])
    return metric


@pytest.mark.slow("has many cases")
@COPIES
@pytest.mark.parametrize("name", [*ALL_METRICS, "own"])
def test_a_metric_goes_on_with_its_sums(name: str, copied: Callable[[Any], Any]):
    metric = seen(METRICS.get(name, lambda: mx.metric.create(name))(), 0)
    metric.reset_local()
    again = copied(seen(metric, 1))
    assert (type(again), again.get_config()) == (type(metric), metric.get_config())
    for asked in ("get", "get_global"):
        np.testing.assert_equal(getattr(again, asked)(), getattr(metric, asked)())
    if copied is copy.copy:
        return
    before = metric.get()
    np.testing.assert_equal(seen(again, 0).get_global(), seen(copy.deepcopy(metric), 0).get_global())
    np.testing.assert_equal(metric.get(), before)


def test_every_metric_and_initialiser_is_copied():
    assert (len(ALL_METRICS), len(ALL_INITIALIZERS)) == (17, 13)
    assert [type(mx.metric.create(name)).__name__ for name in ("torch", "caffe")] == ["Torch", "Caffe"]


def test_a_subclass_of_a_metric_may_write_its_sums():
    metric = WholeOutputs()
    for batch in (0, 1):
        seen(metric, batch)
    assert (metric.get(), metric.num_inst, metric.sum_metric) == (("accuracy", 0.5), 8, 4)
    metric.reset_local()
    seen(metric, 0)
    assert (metric.num_inst, metric.global_num_inst, metric.global_sum_metric) == (4, 12, 6)
    with pytest.raises(mx.base.MXNetError, match="cannot be assigned"):
        mx.metric.F1(average="micro").sum_metric = 1


INITIALIZERS: dict[str, Callable[[], Any]] = {
    "constant": lambda: mx.init.Constant(3),
    "fusedrnn": lambda: mx.init.FusedRNN(mx.init.Xavier(), 2, 1, "lstm", forget_bias=2.0),
    "load": lambda: mx.init.Load({"arg:a_weight": mx.nd.ones((3, 4))}, mx.init.Xavier(), True),
    "mixed": lambda: mx.init.Mixed(["a_", ".*"], [mx.init.Xavier("gaussian", "in"), mx.init.Zero()]),
    "library's": lambda: lowering.initializer.Orthogonal(rand_type="normal"),
}
ALL_INITIALIZERS = sorted(
    name for name, cls in initializers._CLASSES.items() if cls.__module__.startswith("lowering.initializer")
)


@pytest.mark.slow("compiles")
@COPIES
@pytest.mark.parametrize("name", [*ALL_INITIALIZERS, "load", "mixed", "library's"])
def test_an_initialiser_draws_as_before(name: str, copied: Callable[[Any], Any]):
    initializer = INITIALIZERS.get(name, lambda: mx.init.create(name))()
    again = copied(initializer)
    assert type(again) is type(initializer)
    shape = {"fusedrnn": (4 * 2 * (3 + 2 + 2),), "bilinear": (1, 1, 4, 4), "lstmbias": (8,)}.get(name, (3, 4))
    values = []
    for each in (initializer, again):
        mx.random.seed(3)
        filled = mx.nd.zeros(shape)
        if name == "library's":
            filled = each("a_weight", shape, key=3)
        else:
            each("a_weight", filled)
        values.append(np.asarray(filled))
    np.testing.assert_array_equal(*values)
    if isinstance(initializer, mx.init.Initializer):
        assert again.dumps() == initializer.dumps()


def exponential() -> Any:
    """exp(a)."""
    return mx.sym.exp(mx.sym.Variable("a"), name="exp")


OTHERS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "DataDesc": (lambda: mx.io.DataDesc("a", (2, 3), np.int32, "NT"), lambda d: (repr(d), tuple(d), d.layout, d.dtype)),
    "DataBatch": (lambda: next(rows()), lambda b: (b.data[0].asnumpy().tolist(), b.pad, str(b))),
    "NDArrayIter": (lambda: rows(), lambda it: [batch.data[0].asnumpy().tolist() for batch in it]),
    "ResizeIter": (lambda: mx.io.ResizeIter(rows(), 3), lambda it: [batch.pad for batch in it]),
    "sentences": (lambda: mx.rnn.BucketSentenceIter([[1, 2]] * 4, 2), lambda it: [b.bucket_key for b in it]),
    "Context": (lambda: mx.cpu(2), str),
    "InitDesc": (lambda: mx.init.InitDesc("a", {"b": "c"}), lambda d: (str(d), d.attrs, d.drawn_as)),
    "NDArray": (lambda: mx.nd.arange(3), lambda x: x.asnumpy().tolist()),
    "np.ndarray": (lambda: mx.np.arange(3), lambda x: (x + x).tolist()),
    "Symbol": (exponential, lambda x: x.tojson()),
    "Speedometer": (lambda: mx.callback.Speedometer(4, 2), vars),
    "ProgressBar": (lambda: mx.callback.ProgressBar(4), vars),
    "LogValidation": (lambda: mx.callback.LogValidationMetricsCallback(), vars),
    "AttrScope": (lambda: mx.AttrScope(ctx_group="a"), lambda scope: scope.get(None)),
    "augmenter": (lambda: mx.image.HueJitterAug(0.2), lambda each: each.dumps()),
    "cell": (lambda: mx.rnn.LSTMCell(3, "a_"), lambda cell: (cell.state_info, type(cell))),
    "IRHeader": (lambda: mx.recordio.IRHeader(0, 1, 2, 3), tuple),
}


def rows() -> Any:
    """Five rows in batches of two."""
    return mx.io.NDArrayIter(np.arange(10.0).reshape(5, 2), np.arange(5.0), 2)


@COPIES
@pytest.mark.parametrize("name", OTHERS)
def test_what_else_can_be_copied(name: str, copied: Callable[[Any], Any]):
    made, told = OTHERS[name]
    again = copied(made())
    assert type(again) is type(made())
    assert told(again) == told(made())
