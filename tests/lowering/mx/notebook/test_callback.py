"""Tables and curves of a training run; pandas and Bokeh are stood in for, and what is missing says what to install."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from lowering import mx
from lowering.mx.module.module_checkpoints import BatchEndParam
from lowering.mx.notebook.callback import LiveBokehChart, LiveLearningCurve, LiveTimeSeries, PandasLogger, args_wrapper


class Source(SimpleNamespace):
    """Data of a line, as Bokeh keeps them."""

    def stream(self, more: dict[str, list[Any]]) -> None:
        self.data = {name: self.data[name] + values for name, values in more.items()}


class Figure(SimpleNamespace):
    """A figure that keeps what it is told."""

    def line(self, x: list[Any], y: list[Any], **style: Any) -> Any:
        return SimpleNamespace(data_source=Source(data={"x": x, "y": y}), style=style)


@pytest.fixture
def pushed(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What is pushed to the notebook."""
    handles: list[object] = []
    plotting = SimpleNamespace(
        figure=lambda **options: Figure(legend=SimpleNamespace(), options=options),
        output_notebook=lambda: None,
        show=lambda figure, notebook_handle: ("handle", figure),
    )
    monkeypatch.setitem(sys.modules, "bokeh", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "bokeh.plotting", plotting)
    monkeypatch.setitem(sys.modules, "bokeh.io", SimpleNamespace(push_notebook=lambda handle: handles.append(handle)))
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=list))
    return handles


def batch(epoch: int, nbatch: int, right: float) -> BatchEndParam:
    metric = mx.metric.Accuracy()
    metric.sum_metric, metric.num_inst = 10 * right, 10
    metric.global_sum_metric, metric.global_num_inst = 10 * right, 10
    return BatchEndParam(epoch, nbatch, metric, None)


@pytest.mark.usefixtures("pushed")
def test_tables_have_a_row_for_every_frequent_batch_evaluation_and_epoch():
    logger = PandasLogger(batch_size=4, frequent=2)
    callbacks = logger.callback_args()
    told = [batch(1, number, 0.5) for number in range(3)]
    for param in told:
        callbacks["batch_end_callback"](param)
    callbacks["eval_end_callback"](BatchEndParam(1, 3, None, None))
    callbacks["epoch_end_callback"](1, None, {}, {})
    assert [row["minibatch_count"] for row in logger.train_df] == [0, 2]
    first = logger.train_df[0]
    assert (first["accuracy"], first["epoch"]) == (0.5, 1)
    assert first["records_per_sec"] == 4 * first["batches_per_sec"] > 0
    assert [param.eval_metric.num_inst for param in told] == [0, 10, 0]
    assert "accuracy" not in logger.eval_df[0]
    assert logger.epoch_df[0].keys() == {"elapsed", "epoch_time"}
    assert {name: len(table) for name, table in logger.all_dataframes.items()} == {"train": 2, "eval": 1, "epoch": 1}


def test_curves_grow_while_training_runs(pushed: list[object]):
    curve = LiveLearningCurve("accuracy", display_freq=1000, frequent=2)
    for number in range(3):
        curve.batch_cb(batch(0, number, number / 4))
    assert pushed == []  # it is not time yet
    curve.eval_cb(batch(0, 3, 1.0))
    assert pushed == [curve.handle]
    lines = {name: line.data_source.data for name, line in curve._lines.items()}
    assert (lines["train"]["y"], lines["eval"]["y"]) == ([0, 0.5], [1])
    assert lines["train"]["x"] == sorted(lines["train"]["x"])
    with pytest.raises(TypeError, match=r"No metric has the name 'F1'; expected metric_name= one of .'accuracy'"):
        LiveLearningCurve("F1").eval_cb(batch(0, 0, 1.0))


@pytest.mark.usefixtures("pushed")
def test_two_callbacks_of_one_batch_see_the_same_values():
    logger, curve = PandasLogger(4, frequent=1), LiveLearningCurve("accuracy", frequent=1)
    callbacks = args_wrapper(logger, curve)
    assert {name: len(each) for name, each in callbacks.items()} == {
        "batch_end_callback": 2, "eval_end_callback": 2, "epoch_end_callback": 1,
    }  # fmt: skip
    param = batch(0, 0, 0.75)
    for callback in callbacks["batch_end_callback"]:
        callback(param)
    assert logger.train_df[0]["accuracy"] == curve._data["train"][0][1] == 0.75


def test_a_time_series_is_told_its_values(pushed: list[object]):
    series = LiveTimeSeries(title="Loss")
    assert series.fig.options["title"] == "Loss"
    for value in (3.0, 2.0):
        series.update_chart_data(value)
    assert series._line.data_source.data["y"] == [3, 2]
    assert len(pushed) == 2


@pytest.mark.usefixtures("pushed")
def test_a_chart_of_ones_own_says_how_it_is_set_up():
    with pytest.raises(NotImplementedError, match=r"LiveBokehChart must define setup_chart"):
        LiveBokehChart(None, "accuracy", batch_size=4)


@pytest.mark.parametrize(("make", "package"), [(lambda: PandasLogger(4), "pandas"), (LiveTimeSeries, "bokeh")])
def test_what_is_missing_says_what_to_install(make: Any, package: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"needs {package}. Install it with: pip install {package}"):
        make()
