"""A training run that is killed again and again; `python -m tests.lowering.training.interrupted_run` shows the log.

The run has all that must survive: momentum and variance of Adam, moving statistics, dropout's random numbers, shuffled
data, a learning rate schedule, metrics summed over an epoch.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np

import lowering
from symjax_nnvm import symbol as sym

ROOT = Path(__file__).parents[3]
NEVER = 10**9

# -- the run ---------------------------------------------------------------------------------------------------------


def network() -> sym.Symbol:
    """data (n, 12) → probabilities of four classes."""
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=16, name="fc1")
    net = sym.Activation(sym.BatchNorm(net, fix_gamma=False, name="bn"), act_type="tanh")
    net = sym.FullyConnected(sym.Dropout(net, p=0.3, name="dropout"), num_hidden=4, name="fc2")
    return sym.SoftmaxOutput(net, name="softmax")


def train(epochs: int, directory: Path | None, every: int, callbacks: Sequence[Any] = ()) -> dict[str, np.ndarray]:
    """Everything that the run ends with: the whole state and the metrics of every epoch, as arrays by path."""
    data = np.random.RandomState(0).standard_normal((96, 12)).astype(np.float32)
    labels = data[:, :4].argmax(axis=1).astype(np.float32)
    batches = lowering.Batches({"data": data, "softmax_label": labels}, 8, shuffle=True, seed=1)
    schedule = lowering.training.FactorScheduler(step=50, factor=0.9, base_lr=0.01)
    recipe = {"lr_scheduler": schedule, "wd": 1e-3}
    trainer = lowering.Trainer(network(), "adam", recipe, clip_global_norm=5.0, effort="full")
    trainer.init(7, data=(8, 12))
    checkpoints = None if directory is None else lowering.Checkpoints(directory, keep=2, every=every)
    history = trainer.fit(
        batches, epochs, metrics=("accuracy", "ce"), callbacks=callbacks, checkpoints=checkpoints, progress=False
    )
    leaves, _ = jax.tree_util.tree_flatten_with_path(trainer.require_state())
    found = {
        jax.tree_util.keystr(path): np.asarray(
            jax.random.key_data(leaf) if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        )
        for path, leaf in leaves
    }
    metrics = {name: np.array(history[name]) for name in history.epochs[0].metrics}
    assert len(history) == epochs
    return found | metrics


# -- killing it ------------------------------------------------------------------------------------------------------


def serve() -> None:
    """Fork a process for each line `epochs directory every result`, say its number, and then how it ended.

    Directory "-": without checkpoints.

    Forks of one process that has imported everything start in no time. It must not have used JAX itself.
    """
    for line in sys.stdin:
        epochs, directory, every, result = line.split()
        child = os.fork()
        if child == 0:
            found = train(int(epochs), None if directory == "-" else Path(directory), int(every))
            np.savez(result, allow_pickle=False, **found)
            sys.stdout.flush()
            os._exit(0)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


class Server:
    """Starts runs in processes of their own, one at a time."""

    def __init__(self, process: subprocess.Popen[str]):
        self._process = process

    def start(self, epochs: int, directory: Path | str, every: int, result: Path) -> int:
        """Begin a run, which writes what it ends with to `result`; returns the number of its process."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{epochs} {directory} {every} {result}\n")
        self._process.stdin.flush()
        return self._number()

    def finish(self) -> int:
        """Wait for the run: its exit code, or minus the signal that ended it."""
        return self._number()

    def _number(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


@contextmanager
def server(cache: Path) -> Iterator[Server]:
    """A `serve` in a process of its own. cache: where its runs leave compiled programs to each other."""
    env = os.environ | {
        "PYTHONPATH": str(ROOT),
        "JAX_PLATFORMS": "cpu",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    command = [sys.executable, "-W", "ignore", "-m", "tests.lowering.training.interrupted_run", "--serve"]
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Server(process)
    finally:
        process.kill()
        process.communicate()


def half_written(directory: Path) -> set[tuple[str, int]]:
    """Checkpoints that are being written, or were when their process ended: name and inode."""
    found = set()
    for path in directory.glob("*tmp*"):
        with suppress(FileNotFoundError):  # it has become whole, or was cleaned away
            found.add((path.name, path.stat().st_ino))
    return found


def steps_saved(directory: Path) -> list[int]:
    """The steps of the checkpoints that are whole."""
    return sorted(int(path.name) for path in directory.glob("*") if path.name.isdigit())


def kill_many_times(kills: int, epochs: int, folder: Path, seed: int) -> tuple[list[str], list[str]]:
    """Run, kill, and run again; at last let it end: (a line for each life, what differs from a run without kills).

    Every second kill waits, after its random moment, for the next save.
    """
    moments = random.Random(seed)
    log: list[str] = []
    directory, expected, result = folder / "run", folder / "expected.npz", folder / "end.npz"
    with server(folder / "cache") as runs:
        runs.start(epochs, "-", NEVER, expected)
        assert runs.finish() == 0
        for number in range(kills):
            before, left = steps_saved(directory), half_written(directory)
            began = time.monotonic()
            process = runs.start(epochs, directory, 2, result)
            while number % 5 and steps_saved(directory) in (before, []) and time.monotonic() - began < 60:
                time.sleep(0.01)  # a life that is killed before its first save takes the run nowhere
            time.sleep(moments.uniform(0, 0.4))
            while number % 2 and half_written(directory) <= left and time.monotonic() - began < 60:
                time.sleep(0.001)
            os.kill(process, signal.SIGKILL)
            code = runs.finish()
            saving = not half_written(directory) <= left
            saved = steps_saved(directory)
            log.append(
                f"life {number + 1}: went on from {before[-1] if before else 0}, ended by {code} after "
                f"{time.monotonic() - began:.2f} s, checkpoints {saved}{', during a save' if saving else ''}"
            )
        runs.start(epochs, directory, NEVER, result)
        log.append(f"last life: went on from {steps_saved(directory)[-1]}, exit code {runs.finish()}")
    with np.load(expected) as wanted, np.load(result) as found:
        names = sorted(wanted.keys() | found.keys())
        same = [n for n in names if n in wanted and n in found and wanted[n].tobytes() == found[n].tobytes()]
    assert same
    return log, [name for name in names if name not in same]


def main() -> None:
    """Kill a run many times and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    with tempfile.TemporaryDirectory() as folder:
        log, different = kill_many_times(options.kills, options.epochs, Path(folder), options.seed)
    print("\n".join(log))
    print(f"different from a run without kills: {', '.join(different) or 'nothing, to the last bit'}")
    raise SystemExit(bool(different))


if __name__ == "__main__":
    main()
