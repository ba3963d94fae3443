"""Metrics: MXNet's numbers, summed on the device."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowering.training import metrics
from lowering.training.inputs import Inputs
from lowering.training.tracking import Tracker
from symjax_nnvm import TrainingError
from tests.lowering.training import cases

GOLDENS = json.loads((Path(__file__).parents[2] / "goldens/training/numbers.json").read_text())["metrics"]
MAKERS = {"nll_loss": metrics.nll_loss, "ce": metrics.cross_entropy}
INPUTS = Inputs(("data",), ("label",), {"data": np.float32, "label": np.float32})


def value(metric: metrics.Metric, batches: list[tuple[np.ndarray, np.ndarray]]) -> float:
    update = jax.jit(metric.update)
    state = metric.init()
    for label, output in batches:
        state = update(state, [jnp.asarray(label)], [jnp.asarray(output)])
    return metric.result(jax.device_get(state))


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("case", cases.METRICS)
def test_metric_equals_mxnet(case: str):
    name, arguments, kind = cases.METRICS[case]
    maker = MAKERS.get(name) or getattr(metrics, name)
    assert value(maker(**arguments), cases.metric_batches(kind)) == pytest.approx(GOLDENS[case], rel=1e-5)


def test_deviation_mean_errors_weigh_a_shorter_batch_less():
    batches = [(np.zeros(3), np.ones(3)), (np.zeros(1), np.full(1, 5.0))]
    assert value(metrics.mae(), batches) == pytest.approx(2.0)  # MXNet: the mean of the means, 3


@pytest.mark.parametrize("name", ["accuracy", "acc", "ce", "cross-entropy", "nll_loss", "f1", "rmse", "loss", "CE"])
def test_names_make_metrics(name: str):
    assert metrics.make_metric(name).init() is not None


def test_long_sums_keep_their_digits():
    metric = metrics.loss()
    update = jax.jit(lambda state: jax.lax.fori_loop(0, 200_000, lambda _, s: metric.update(s, [], [term]), state))
    term = jnp.full(1, 0.1, jnp.float32)
    assert metric.result(update(metric.init())) == pytest.approx(float(np.float32(0.1)), rel=1e-6)


def test_a_triple_of_functions_is_a_metric():
    def largest(state, labels, outputs):
        return jnp.maximum(state, jnp.max(outputs[0]))

    tracker = Tracker((lambda: jnp.float32(0), largest, float), INPUTS, ["out"])
    tracker.update({"label": np.zeros(2)}, [jnp.array([3.0, 2.0])])
    assert tracker.results() == {"largest": 3.0}


def test_metric_of_one_output_among_several():
    tracker = Tracker([metrics.mae().select(output_names=["b"])], INPUTS, ["a", "b"])
    tracker.update({"label": np.zeros(2, np.float32)}, [jnp.full(2, 7.0), jnp.full(2, 3.0)])
    assert tracker.results() == {"mae": 3.0}


@pytest.mark.slow("computes much")
def test_saved_state_goes_on_to_the_same_number():
    batches = cases.metric_batches("classes")
    straight, resumed = (Tracker(["accuracy", "ce"], INPUTS, ["out"]) for _ in range(2))
    for label, output in batches:
        straight.update({"label": label}, [jnp.asarray(output)])
    first = Tracker(["accuracy", "ce"], INPUTS, ["out"])
    first.update({"label": batches[0][0]}, [jnp.asarray(batches[0][1])])
    resumed.restore(json.loads(json.dumps(first.saved())))
    for label, output in batches[1:]:
        resumed.update({"label": label}, [jnp.asarray(output)])
    assert resumed.results() == straight.results()


def test_state_of_other_metrics_is_refused():
    with pytest.raises(TrainingError, match="other metrics"):
        Tracker(["accuracy"], INPUTS, ["out"]).restore([0.0])


def test_first_output_that_is_not_finite_is_named():
    tracker = Tracker(["loss"], INPUTS, ["good", "late", "bad"])
    finite, nan = jnp.ones(2), jnp.array([1.0, jnp.nan])
    for outputs in ([finite, finite, finite], [finite, finite, nan], [finite, nan, nan]):
        tracker.update({"label": np.zeros(2)}, outputs)
    with pytest.raises(TrainingError, match="batch 11 of epoch 2; in node 'bad'"):
        tracker.check_finite(2, 10)


def test_unknown_metric_lists_those_that_exist():
    with pytest.raises(TrainingError, match="'accurcy'.*'accuracy'.*'rmse'"):
        metrics.make_metric("accurcy")


def test_top_k_by_name_says_how_to_give_k():
    with pytest.raises(TrainingError, match="top_k_accuracy\\(5\\)"):
        metrics.make_metric("top_k_accuracy")


def test_labels_and_outputs_that_do_not_pair_are_an_error():
    tracker = Tracker(["accuracy"], INPUTS, ["a", "b"])
    with pytest.raises(TrainingError, match=r"1 outputs; got 2.*select\(output_names"):
        tracker.update({"label": np.zeros(2)}, [jnp.ones((2, 3)), jnp.ones((2, 3))])


def test_labels_of_the_wrong_length_are_an_error():
    with pytest.raises(TrainingError, match="expected 2 labels"):
        value(metrics.cross_entropy(), [(np.zeros(3), np.ones((2, 4)))])


def test_metrics_that_need_labels_say_so():
    with pytest.raises(TrainingError, match="'accuracy' needs labels.*metrics='loss'"):
        Tracker("accuracy", INPUTS, ["out"]).update({}, [jnp.ones((2, 3))])


def test_two_metrics_of_one_name_are_told_apart_by_hand():
    with pytest.raises(TrainingError, match="share a name"):
        Tracker(["mae", "mae"], INPUTS, ["a"])
    both = [metrics.mae().select(["a"], name="a"), metrics.mae().select(["b"], name="b")]
    tracker = Tracker(both, INPUTS, ["a", "b"])
    tracker.update({"label": np.zeros(2, np.float32)}, [jnp.full(2, 7.0), jnp.full(2, 3.0)])
    assert tracker.results() == {"a": 7.0, "b": 3.0}


def test_metric_of_an_unknown_output_is_an_error():
    with pytest.raises(TrainingError, match="outputs \\['c'\\]"):
        Tracker([metrics.mae().select(output_names=["c"])], INPUTS, ["a"])


@pytest.mark.slow("compiles")
def test_deviation_of_equal_outputs_the_first_classes_are_among_the_top():
    """NumPy's argpartition, which MXNet asks, leaves classes 1 and 2 last."""
    outputs = np.full((3, 3), 0.3, np.float32)
    assert value(metrics.top_k_accuracy(2), [(np.arange(2), outputs[:2])]) == 1
    assert value(metrics.top_k_accuracy(2), [(np.arange(3), outputs)]) == pytest.approx(2 / 3)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    ("metric", "labels", "expected"),
    [
        (metrics.accuracy(), [np.nan, 0, np.inf, 1e10], 0.25),
        (metrics.top_k_accuracy(2), [np.nan, 0, -np.inf, 1], 0.5),
        (metrics.f1(), [np.nan, 0, np.inf, 1], 0.0),
        (metrics.perplexity(None), [np.nan, 0, 0, 0], 1 / 0.7),
    ],
)
def test_a_label_that_no_integer_holds_is_no_class(metric: metrics.Metric, labels: list[float], expected: float):
    outputs = np.array([[0.7, 0.2, 0.1]] * 4, np.float32)
    assert value(metric, [(np.array(labels, np.float32), outputs)]) == pytest.approx(expected)


@pytest.mark.slow("compiles")
def test_labels_may_count_classes_from_the_last():
    outputs = np.array([[0.7, 0.2, 0.1]] * 2, np.float32)
    assert value(metrics.cross_entropy(), [(np.array([-3, -2]), outputs)]) == pytest.approx(-np.log(0.7 * 0.2) / 2)
