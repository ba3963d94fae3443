"""`mx.contrib.tensorboard`: metrics as TensorBoard shows them, written by mxboard or by tensorboardX."""

from __future__ import annotations

import importlib
import logging
from typing import Any

from lowering.mx.module.module_checkpoints import BatchEndParam


class LogMetricsCallback:
    """At the end of a batch, or of an evaluation, the values of the metrics, by epoch. prefix: before their names.

    Without a package that writes such files an error is logged, as by MXNet, and nothing is written.
    """

    def __init__(self, logging_dir: str, prefix: str | None = None):
        self.prefix = prefix
        self.summary_writer: Any = None
        for package in ("mxboard", "tensorboardX"):
            try:
                self.summary_writer = importlib.import_module(package).SummaryWriter(logging_dir)
                return
            except ImportError:
                continue
        logging.error(
            "You can install mxboard via `pip install mxboard`, or tensorboardX via `pip install tensorboardX`."
        )

    def __call__(self, param: BatchEndParam) -> None:
        """Write the values."""
        if param.eval_metric is None or self.summary_writer is None:
            return
        for name, value in param.eval_metric.get_name_value():
            shown = name if self.prefix is None else f"{self.prefix}-{name}"
            self.summary_writer.add_scalar(shown, value, global_step=param.epoch)
