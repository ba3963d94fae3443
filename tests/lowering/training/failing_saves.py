"""Processes whose checkpoints fail, or are another's: what the tests start, one mode each.

`read_only FOLDER OTHER`: a run into a folder that becomes read-only, and a save into another that is not waited for.
`hold FOLDER`: a run that holds a folder until it is killed.
"""

import logging
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import CheckpointError


def made_trainer(seed: int = 7) -> lowering.Trainer:
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc1")
    made = lowering.Trainer(sym.SoftmaxOutput(net, name="softmax"), "adam")
    made.init(seed, data=(4, 5))
    return made


def data() -> lowering.Batches:
    return lowering.Batches({"data": np.ones((16, 5), np.float32), "softmax_label": np.zeros(16, np.float32)}, 4)


@contextmanager
def full_disk() -> Iterator[None]:
    """A context in which no file can grow beyond 50 bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def make_read_only(folder: Path) -> str:
    """Whatever this machine lets us do, in words."""
    if os.geteuid() != 0:
        folder.chmod(0o555)
        return "by its mode"
    try:
        for words in (["mount", "--bind", folder, folder], ["mount", "-o", "remount,bind,ro", folder]):
            subprocess.run(words, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        real = os.mkdir

        def mkdir(path: Any, *args: Any, **kwargs: Any) -> None:
            if folder in Path(path).parents:
                raise OSError(30, os.strerror(30), os.fspath(path))
            real(path, *args, **kwargs)

        os.mkdir = mkdir
        return "in name only"
    return "by a mount"


class MakeReadOnly:
    """After step 5."""

    def __init__(self, checkpoints: lowering.Checkpoints):
        self._checkpoints = checkpoints

    def on_step_end(self, trainer: lowering.Trainer, event: lowering.training.StepEvent) -> None:
        if event.step == 5:
            self._checkpoints.wait()
            print(f"read-only {make_read_only(self._checkpoints.directory)}", flush=True)


def read_only(folder: Path, other: Path) -> None:
    logging.getLogger("absl").setLevel(
        logging.CRITICAL
    )  # Orbax logs what its threads met, unless an application says so
    # Straight into Orbax: the look at the folder that goes before is to spare it that, and cannot always.
    lowering.Checkpoints._check_writable = lambda self, size: None  # type: ignore[method-assign]
    checkpoints = lowering.Checkpoints(folder, every=4)
    try:
        made_trainer().fit(data(), 2, checkpoints=checkpoints, callbacks=[MakeReadOnly(checkpoints)], progress=False)
    except CheckpointError:
        lowering.Checkpoints(other).save(1, made_trainer().require_state(), {})
        raise


def hold(folder: Path) -> None:
    class Wait:
        def on_step_end(self, trainer: lowering.Trainer, event: lowering.training.StepEvent) -> None:
            if event.step == 5:
                checkpoints.wait()
                (folder / "9.orbax-checkpoint-tmp").mkdir()
                print("holding", flush=True)
                time.sleep(600)

    checkpoints = lowering.Checkpoints(folder, every=2)
    made_trainer().fit(data(), 4, checkpoints=checkpoints, callbacks=[Wait()], progress=False)


if __name__ == "__main__":
    {"read_only": read_only, "hold": hold}[sys.argv[1]](*map(Path, sys.argv[2:]))
