"""What one of several processes of a training run does; `test_processes.py` starts them, and says what comes of it.

    python -m tests.lowering.training.processes INDEX COUNT PORT SCENARIO FOLDER

Each prints a line of JSON for each thing that it has found.
"""

import hashlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

import lowering
from lowering import mx
from lowering.training import StepEvent
from lowering.training.state import TrainState
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import NNVMError
from tests.lowering.training.mesh_networks import batch, mlp

EPOCHS = 3
ENDLESS = 10**6
PATIENCE = 150
"""Seconds that the coordinator waits for another process that is to find out that one was lost."""

LOST = 2
"""The process that is killed in the first run; process 0 in the second."""


def data(**options: Any) -> lowering.Batches:
    arrays = {name: value.astype(np.float32) for name, value in batch((12,), rows=34).items()}
    return lowering.Batches(arrays, 8, shuffle=True, **options)


def by_module(rows: slice | None = None) -> list[float]:
    """The weights of a Module that trains on rows of its own; None: on those of this process, with all others."""
    store = mx.kv.create("local" if rows else "dist_sync")
    rows = rows or slice(store.rank * 4, store.rank * 4 + 4)
    arrays = batch((12,))
    net = sym.SoftmaxOutput(sym.FullyConnected(sym.Variable("data"), num_hidden=4, name="fc"), name="softmax")
    module = mx.mod.Module(net)
    (data, label) = ([mx.nd.array(arrays[name][rows])] for name in ("data", "softmax_label"))
    module.bind([("data", data[0].shape)], [("softmax_label", label[0].shape)])
    module.init_params(mx.init.Constant(1 + store.rank))
    module.init_optimizer(store, optimizer_params={"learning_rate": 0.5, "momentum": 0.9})
    for _ in range(3):
        module.forward_backward(mx.io.DataBatch(data, label))
        module.update()
    store.barrier()
    return module.get_params()[0]["fc_weight"].asnumpy().ravel().tolist()


class Signal:
    """Sends a signal to its own process after a step."""

    def __init__(self, number: int, step: int):
        self._number, self._step = number, step

    def on_step_end(self, trainer: Any, event: StepEvent) -> None:
        if event.step == self._step:
            os.kill(os.getpid(), self._number)


@cache
def trainer() -> lowering.Trainer:
    """One for all runs of a process: it compiles once."""
    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    return lowering.Trainer(mlp("float32"), "adam", initializer="xavier", mesh=mesh, sharding="fsdp")


def fit(batches: Any, folder: Path | None = None, epochs: int = EPOCHS, callbacks: Any = ()) -> lowering.Trainer:
    made = trainer()
    made.init(0, data=(8, 12))
    checkpoints = None if folder is None else lowering.Checkpoints(folder, every=5)
    options = {"checkpoints": checkpoints, "callbacks": list(callbacks), "progress": True, "exit_when_lost": True}
    tell(losses=list(made.fit(batches, epochs, metrics=["ce"], **options)["cross-entropy"]), digest=digest(made))
    return made


def digest(made: lowering.Trainer) -> str:
    """Of the bits of the parameters that this process holds."""
    state = made.require_state()
    shards = [shard.data for array in jax.tree.leaves((state.params, state.aux)) for shard in array.addressable_shards]
    return hashlib.sha256(b"".join(np.asarray(shard).tobytes() for shard in shards)).hexdigest()


def tell(**found: Any) -> None:
    print(json.dumps(found), flush=True)


def undisturbed_then_killed(index: int, folder: Path) -> None:
    fit(data())
    fit(data(), folder, callbacks=[Signal(signal.SIGKILL, 8)] if index == LOST else [])


def killed(index: int, folder: Path) -> None:
    """The last of two processes is killed."""
    fit(data(), folder, callbacks=[Signal(signal.SIGKILL, 8)] if index else [])


def resumed_then_killed(index: int, folder: Path) -> None:
    made = fit(data(), folder)
    kill = Signal(signal.SIGKILL, int(made.require_state().step) + 2)
    made.fit(data(), ENDLESS, callbacks=[kill] if index == 0 else [], progress=False, exit_when_lost=True)


def killed_while_saving(index: int, folder: Path) -> None:
    """A fit of three processes that did not ask for an end, of which one is killed: after it has begun its second save,
    while the others train, or its last, when all that is left is to wait. What comes of it is told."""
    when, told = folder.name, folder.with_name("told")
    made = trainer()
    made.init(0, data=(6, 12))
    checkpoints = lowering.Checkpoints(folder, every=5)
    if index == 1:
        _die_at_save(checkpoints, when)
    if index == 2 and when == "hung":
        _hang_after_save(checkpoints, told)
    epochs = 1 if when == "last" else ENDLESS
    began = time.monotonic()
    try:
        made.fit(data(last="drop"), epochs, progress=False, checkpoints=checkpoints)
    except NNVMError as error:
        tell(raised=type(error).__name__, message=str(error), seconds=time.monotonic() - began)
    sys.stdout.flush()
    if index != 0:
        told.touch()
    while index == 0 and not told.exists() and time.monotonic() - began < PATIENCE:
        time.sleep(0.1)  # the coordinator goes last
    time.sleep(1 if index == 0 else 0)
    os._exit(3)


def _die_at_save(checkpoints: lowering.Checkpoints, when: str) -> None:
    """Have this process killed when it has begun to save its second checkpoint, or the last one."""
    manager = checkpoints._manager
    save, number = manager.save, 0

    def save_and_die(*args: Any, **options: Any) -> Any:
        nonlocal number
        number += 1
        done = save(*args, **options)
        if number == 2 or when == "last":
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    manager.save = save_and_die


def _hang_after_save(checkpoints: lowering.Checkpoints, told: Path) -> None:
    """Have this process wait after its second save, as in an operation that never fails, until a line of its errors
    names a lost process."""
    named = threading.Event()
    save, write, number = checkpoints.save, sys.stderr.write, 0

    def save_and_hang(step: int, state: TrainState, position: Mapping[str, Any]) -> None:
        nonlocal number
        number += 1
        save(step, state, position)
        if number == 2:
            named.wait(PATIENCE)
            sys.stderr.flush()
            told.touch()
            os._exit(4)

    def look(text: str) -> int:
        length = write(text)
        if "Lost process" in text:
            named.set()
        return length

    checkpoints.save, sys.stderr.write = save_and_hang, look


def small(index: int, folder: Path) -> None:
    """Two processes: resumed; batches of their own; what the whole data set gives; SIGTERM."""
    fit(data(), folder / "resumed")
    made = fit(list(data(shard="process")), epochs=1)
    padded = data(last="pad")
    tell(predicted=np.asarray(made.predict(padded)[0]).tolist(), evaluated=made.evaluate(padded, ["accuracy"]))
    made.export(folder / "exported", 1)
    tell(module=by_module())
    # JAX tells the others of a signal about a second after it came.
    fit(data(), folder / "preempted", ENDLESS, callbacks=[Signal(signal.SIGTERM, 2)] if index == 1 else [])


if __name__ == "__main__":
    number, count, port = (int(value) for value in sys.argv[1:4])
    jax.distributed.initialize(f"localhost:{port}", count, number)
    scenarios = {
        "killed": killed,
        "undisturbed": undisturbed_then_killed,
        "resumed": resumed_then_killed,
        "small": small,
        "saving": killed_while_saving,
    }
    scenarios[sys.argv[4]](number, Path(sys.argv[5]))
