"""`mx.callback`: what a training loop calls after batches and epochs. Lines are MXNet's, to the letter."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from lowering.messages.counts import check_count, check_number, checks_flags
from lowering.mx.module.module_checkpoints import BatchEndParam, save_checkpoint
from lowering.mx.shared_arguments import explained_by
from symjax_nnvm.io.files import path_text


@checks_flags
def module_checkpoint(
    mod: Any, prefix: str, period: int = 1, save_optimizer_states: bool = False
) -> Callable[..., None]:
    """Return a callback that writes a checkpoint of a module at the end of every `period` epochs.

    Args:
        mod: the module.
        prefix: the part of the path before `-symbol.json`.
        period: the number of epochs between two checkpoints.
        save_optimizer_states: write the optimiser's states as well.
    """
    path_text(prefix, "prefix")
    period = int(max(1, period))

    def callback(iter_no: int, sym: Any = None, arg: Any = None, aux: Any = None) -> None:
        if (iter_no + 1) % period == 0:
            mod.save_checkpoint(prefix, iter_no + 1, save_optimizer_states)

    return callback


@checks_flags
@explained_by(module_checkpoint)
def do_checkpoint(prefix: str, period: int = 1) -> Callable[..., None]:
    """Return a callback that writes a checkpoint of the trained network at the end of every `period` epochs."""
    path_text(prefix, "prefix")
    period = int(max(1, period))

    def callback(iter_no: int, sym: Any, arg: Mapping[str, Any], aux: Mapping[str, Any]) -> None:
        if (iter_no + 1) % period == 0:
            save_checkpoint(prefix, iter_no + 1, sym, arg, aux)

    return callback


def log_train_metric(period: int, auto_reset: bool = False) -> Callable[[BatchEndParam], None]:
    """Return a callback that logs the metrics after every `period` batches.

    Args:
        period: the number of batches between two lines.
        auto_reset: reset the metrics after each line.
    """
    period = check_count(period, "period")

    def callback(param: BatchEndParam) -> None:
        if param.nbatch % period == 0 and param.eval_metric is not None:
            for name, value in param.eval_metric.get_name_value():
                logging.info("Iter[%d] Batch[%d] Train-%s=%f", param.epoch, param.nbatch, name, value)
            if auto_reset:
                param.eval_metric.reset_local()

    return callback


class Speedometer:
    """A callback that logs the samples per second and the metrics.

    Args:
        batch_size: the number of samples in a batch.
        frequent: the number of batches between two lines.
        auto_reset: reset the metrics after each line.
    """

    @checks_flags
    def __init__(self, batch_size: int, frequent: int = 50, auto_reset: bool = True):
        check_number(batch_size, "batch_size")
        self.batch_size, self.auto_reset = batch_size, auto_reset
        self.frequent = check_count(frequent, "frequent")
        self.init, self.tic, self.last_count = False, 0, 0

    def __call__(self, param: BatchEndParam) -> None:
        """Report after a batch."""
        count = param.nbatch
        if self.last_count > count:
            self.init = False
        self.last_count = count
        if not self.init:
            self.init, self.tic = True, time.time()
        elif count % self.frequent == 0:
            elapsed = time.time() - self.tic
            self._log(param, self.frequent * self.batch_size / elapsed if elapsed else math.inf)
            self.tic = time.time()

    def _log(self, param: BatchEndParam, speed: float) -> None:
        if param.eval_metric is None:
            logging.info("Iter[%d] Batch [%d]\tSpeed: %.2f samples/sec", param.epoch, param.nbatch, speed)
            return
        pairs = param.eval_metric.get_name_value()
        first = 0
        if self.auto_reset:
            param.eval_metric.reset_local()
            first = param.nbatch - self.frequent
        message = "Epoch[%d] Batch [%d-%d]\tSpeed: %.2f samples/sec" + "\t%s=%f" * len(pairs)
        logging.info(message, param.epoch, first, param.nbatch, speed, *(part for pair in pairs for part in pair))


class ProgressBar:
    """A callback that prints a bar after each batch.

    Args:
        total: the number of batches in an epoch.
        length: the number of characters.
    """

    def __init__(self, total: int, length: int = 80):
        self.bar_len, self.total = check_count(length, "length"), check_count(total, "total")

    def __call__(self, param: BatchEndParam) -> None:
        """Report after a batch."""
        filled = round(self.bar_len * param.nbatch / float(self.total))
        percents = math.ceil(100.0 * param.nbatch / float(self.total))
        logging.info("[%s] %s%s\r", "=" * filled + "-" * (self.bar_len - filled), percents, "%")


class LogValidationMetricsCallback:
    """A callback that logs a line for each metric at the end of an evaluation."""

    def __call__(self, param: BatchEndParam) -> None:
        """Log the metrics at the end."""
        for name, value in param.eval_metric.get_name_value() if param.eval_metric else ():
            logging.info("Epoch[%d] Validation-%s=%f", param.epoch, name, value)
