"""`mx.notebook.callback`: metrics of a training run, as tables of pandas and as curves of Bokeh in a notebook."""

from __future__ import annotations

import importlib
import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from weakref import WeakKeyDictionary

from lowering.mx.module.module_checkpoints import BatchEndParam
from symjax_nnvm.errors import CallError, MissingExtraError, listed

_EVENTS = ("train", "eval", "epoch")


def _package(name: str, user: str) -> Any:
    """Return an optional package. Raises MissingExtraError."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise MissingExtraError(f"{user} needs {package}. Install it with: pip install {package}") from None


_READ: WeakKeyDictionary[Any, dict[str, float]] = WeakKeyDictionary()
"""Metric → its values when a callback last read and reset it: the next callback of the same batch gets them, too."""


def _metrics_of(param: BatchEndParam) -> dict[str, float]:
    """Return the values of the metrics, which begin anew."""
    metric = param.eval_metric
    if metric is None:
        return {}
    values = dict(metric.get_name_value())
    if all(math.isnan(value) for value in values.values()):
        values = _READ.get(metric, values)
    _READ[metric] = values
    metric.reset()
    return values


class PandasLogger:
    """Keeps metrics as tables of pandas: `train_df` and `eval_df` of metrics and speed, `epoch_df` of times.

    batch_size: the batch size of the data. frequent: every how many batches there is a row of `train_df`.
    `module.fit(..., **logger.callback_args())` fills them. Raises MissingExtraError without pandas.
    """

    def __init__(self, batch_size: int, frequent: int = 50):
        self.batch_size = batch_size
        self.frequent = frequent
        self._frame: Callable[..., Any] = _package("pandas", type(self).__name__).DataFrame
        self._rows: dict[str, list[dict[str, Any]]] = {name: [] for name in _EVENTS}
        self.last_time = time.time()
        self.start_time = self.last_epoch_time = datetime.now()

    @property
    def train_df(self) -> Any:
        """Return the table of training batches."""
        return self._frame(self._rows["train"])

    @property
    def eval_df(self) -> Any:
        """Return the table of evaluations."""
        return self._frame(self._rows["eval"])

    @property
    def epoch_df(self) -> Any:
        """Return the table of epochs."""
        return self._frame(self._rows["epoch"])

    @property
    def all_dataframes(self) -> dict[str, Any]:
        """Return the three tables, as train, eval and epoch."""
        return {name: self._frame(rows) for name, rows in self._rows.items()}

    def elapsed(self) -> timedelta:
        """Return the time since this object was made."""
        return datetime.now() - self.start_time

    def append_metrics(self, metrics: Mapping[str, Any], df_name: str) -> None:
        """Add a row to a table, and columns for names that are new."""
        self._rows[df_name].append(dict(metrics))

    def train_cb(self, param: BatchEndParam) -> None:
        """Add a row at the end of every `frequent`-th batch; the metrics begin anew."""
        if param.nbatch % self.frequent == 0:
            self._process_batch(param, "train")

    def eval_cb(self, param: BatchEndParam) -> None:
        """Add a row at the end of an evaluation; the metrics begin anew."""
        self._process_batch(param, "eval")

    def epoch_cb(self, *_: Any) -> None:
        """Add the time of an epoch at its end."""
        now = datetime.now()
        self.append_metrics({"elapsed": self.elapsed(), "epoch_time": now - self.last_epoch_time}, "epoch")
        self.last_epoch_time = now

    def _process_batch(self, param: BatchEndParam, df_name: str) -> None:
        now = time.time()
        batches = self.frequent / max(now - self.last_time, 1e-9)
        row = _metrics_of(param)
        row |= {"batches_per_sec": batches, "records_per_sec": batches * self.batch_size, "elapsed": self.elapsed()}
        self.append_metrics(row | {"minibatch_count": param.nbatch, "epoch": param.epoch}, df_name)
        self.last_time = now

    def callback_args(self) -> dict[str, Any]:
        """Return the callbacks, as keywords of `fit`."""
        return {
            "batch_end_callback": self.train_cb,
            "eval_end_callback": self.eval_cb,
            "epoch_end_callback": self.epoch_cb,
        }


class LiveBokehChart:
    """A chart of Bokeh in a notebook, which is drawn anew while training runs. A subclass defines `setup_chart()`,
    which shows it and returns its handle, and `update_chart_data()`.

    pandas_logger: where the data are; None makes one of batch_size and frequent. metric_name: what is drawn.
    display_freq: seconds between two drawings. Raises MissingExtraError without Bokeh.
    """

    def __init__(
        self,
        pandas_logger: PandasLogger | None,
        metric_name: str | None,
        display_freq: float = 10,
        batch_size: int | None = None,
        frequent: int = 50,
    ):
        self.pandas_logger = pandas_logger or PandasLogger(batch_size or 1, frequent)
        self._begin(metric_name, display_freq)

    def _begin(self, metric_name: str | None, display_freq: float) -> None:
        self._bokeh = _package("bokeh.plotting", type(self).__name__)
        self.display_freq, self.metric_name = display_freq, metric_name
        self.last_update = time.time()
        self._bokeh.output_notebook()
        self.handle = self.setup_chart()

    def setup_chart(self) -> Any:
        """Show the chart; a subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__} must define setup_chart(self)")

    def update_chart_data(self, *_: Any) -> None:
        """Put new values into the chart; a subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__} must define update_chart_data(self)")

    def interval_elapsed(self) -> bool:
        """Whether it is time to draw anew."""
        return time.time() - self.last_update > self.display_freq

    def _push_render(self) -> None:
        importlib.import_module("bokeh.io").push_notebook(handle=self.handle)
        self.last_update = time.time()

    def _do_update(self) -> None:
        self.update_chart_data()
        self._push_render()

    def batch_cb(self, param: BatchEndParam) -> None:
        """Draw anew at the end of a batch, if it is time."""
        if self.interval_elapsed():
            self._do_update()

    def eval_cb(self, param: BatchEndParam) -> None:
        """Draw anew at the end of an evaluation."""
        self._do_update()

    def callback_args(self) -> dict[str, Any]:
        """Return the callbacks, as keywords of `fit`."""
        return {"batch_end_callback": self.batch_cb, "eval_end_callback": self.eval_cb}


class LiveTimeSeries(LiveBokehChart):
    """A line of the values of `update_chart_data(value)`, by the time since it was made. fig_params: Bokeh's,
    of the figure."""

    def __init__(self, **fig_params: Any):
        self._params = fig_params
        self._begin(None, 10)

    def setup_chart(self) -> Any:
        """Show an empty line."""
        self.start_time = datetime.now()
        self.fig = self._bokeh.figure(x_axis_type="datetime", x_axis_label="Elapsed time", **self._params)
        self._line = self.fig.line([], [])
        return self._bokeh.show(self.fig, notebook_handle=True)

    def elapsed(self) -> timedelta:
        """Return the time since this object was made."""
        return datetime.now() - self.start_time

    def update_chart_data(self, value: float) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Put a value at the end of the line, and draw it."""
        self._line.data_source.stream({"x": [self.elapsed()], "y": [value]})
        self._push_render()


class LiveLearningCurve(LiveBokehChart):
    """The curves of a metric in training and in evaluations, while a network learns.

    metric_name: the name that the metric has, "accuracy". display_freq: seconds between two drawings. frequent: every
    how many batches there is a point of training. Raises MissingExtraError without Bokeh.
    """

    def __init__(self, metric_name: str, display_freq: float = 10, frequent: int = 50):
        self.frequent = frequent
        self.start_time = datetime.now()
        self._data: dict[str, list[tuple[timedelta, float]]] = {"train": [], "eval": []}
        self._begin(metric_name, display_freq)

    def setup_chart(self) -> Any:
        """Show both curves, empty."""
        self.fig = self._bokeh.figure(
            x_axis_type="datetime", x_axis_label="Training time", y_axis_label=self.metric_name
        )
        self._lines = {
            "train": self.fig.line([], [], line_dash="dotted", legend_label="train"),
            "eval": self.fig.line([], [], line_color="green", line_width=2, legend_label="validation"),
        }
        self.fig.legend.location = "bottom_right"
        return self._bokeh.show(self.fig, notebook_handle=True)

    def batch_cb(self, param: BatchEndParam) -> None:
        """Take a point of training at the end of every `frequent`-th batch, and draw anew if it is time."""
        if param.nbatch % self.frequent == 0:
            self._process_batch(param, "train")
        super().batch_cb(param)

    def eval_cb(self, param: BatchEndParam) -> None:
        """Take a point of an evaluation at its end, and draw anew."""
        self._process_batch(param, "eval")
        super().eval_cb(param)

    def _process_batch(self, param: BatchEndParam, df_name: str) -> None:
        """Keep the metric's value. Raises CallError where there is no metric of this name."""
        metrics = _metrics_of(param)
        if metrics and self.metric_name not in metrics:
            raise CallError(
                f"No metric has the name {self.metric_name!r}", expected=f"metric_name= one of {listed(list(metrics))}"
            )
        if metrics:
            self._data[df_name].append((datetime.now() - self.start_time, metrics[str(self.metric_name)]))

    def update_chart_data(self, *_: Any) -> None:
        """Put all points into the curves."""
        for name, points in self._data.items():
            self._lines[name].data_source.data = {"x": [x for x, _ in points], "y": [y for _, y in points]}


def args_wrapper(*args: Any) -> dict[str, Sequence[Any]]:
    """The callbacks of several objects together, as keywords of `fit`: each a list."""
    callbacks: defaultdict[str, list[Any]] = defaultdict(list)
    for owner in args:
        for name, callback in owner.callback_args().items():
            callbacks[name].append(callback)
    return dict(callbacks)
