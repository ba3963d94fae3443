"""What belongs to a process and not to a library: `python -m tests.lowering.xla.process_state` prints what we changed.

One line of JSON for each step: what it did, which parts of the process are different after it, and the resident
memory, in MiB, before, with and after an array of 229 MiB that NumPy makes and frees.
"""

import asyncio
import atexit
import builtins
import contextlib
import decimal
import faulthandler
import gc
import hashlib
import importlib
import io
import json
import locale
import logging
import multiprocessing
import os
import random
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np

BEFORE = ("orbax.checkpoint", "flatbuffers", "jax.export", "jax.experimental.multihost_utils", "optax", "rich.progress")
"""What we stand on: what these do to a process when they are imported is theirs."""

IDLE = "stream"
"""How the names of the threads begin that compute parts of a batch: an executor's, which hold up no end."""


def state() -> dict[str, Any]:
    """Everything that is compared, by name."""
    mask = os.umask(0)
    os.umask(mask)
    loggers = [logging.root, *(each for each in logging.root.manager.loggerDict.values() if hasattr(each, "handlers"))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        policy = type(asyncio.get_event_loop_policy())
    return {
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "umask": mask,
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if "RLIMIT" in name},
        "blocked signals": signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "path": list(sys.path),
        "importers": (list(sys.meta_path), list(sys.path_hooks), builtins.__import__),
        "builtins": dict(vars(builtins)).keys() - {"_"},
        "mxnet": sys.modules.get("mxnet"),
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "hooks": (sys.excepthook, sys.unraisablehook, sys.displayhook, sys.breakpointhook, threading.excepthook),
        "tracing": (sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile()),
        "interpreter": (sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits()),
        "asyncio": (sys.get_asyncgen_hooks(), policy),
        "collector": (gc.isenabled(), gc.get_threshold(), list(gc.callbacks), gc.get_debug(), gc.get_freeze_count()),
        "logging": {name: found for name, found in map(logger, loggers) if found != _UNTOUCHED},
        "all of logging": (logging.root.manager.disable, logging.lastResort, logging.getLoggerClass()),
        "warnings": (list(warnings.filters), warnings.showwarning, warnings.formatwarning),
        "locale": (locale.setlocale(locale.LC_ALL), time.tzname),
        "decimal": str(decimal.getcontext()),
        "numpy": (str(np.get_printoptions()), np.geterr(), np.geterrcall(), np.getbufsize()),
        "random numbers": (digest(random.getstate()), digest([*map(str, np.random.get_state(legacy=False).items())])),
        "jax": (dict(jax.config.values), jax.default_backend()),
        "at exit": (atexit._ncallbacks(), len(getattr(threading, "_threading_atexits", ()))),
        "threads": {
            thread.name for thread in threading.enumerate() if not thread.daemon and not thread.name.startswith(IDLE)
        },
        "daemons": {thread.name for thread in threading.enumerate() if thread.daemon},
        "others": (
            faulthandler.is_enabled(),
            socket.getdefaulttimeout(),
            multiprocessing.get_start_method(allow_none=True),
            tempfile.tempdir,
        ),
    }


def settled(before: dict[str, Any]) -> dict[str, Any]:
    """The state when threads that are about to end have ended, with what is not referenced any more."""
    deadline = time.monotonic() + 20
    if (native := sys.modules.get("lowering.native.ask")) is not None:
        native._end()  # the child, which ends by itself after ten idle seconds
    while True:
        gc.collect()
        after = state()
        if time.monotonic() > deadline or all(after[name] == before[name] for name in ("threads", "daemons")):
            return after
        time.sleep(0.2)


_UNTOUCHED: Any = (logging.NOTSET, [], [], True, False)
"""A logger as it is made."""


def logger(found: Any) -> tuple[str, Any]:
    """Its name, and what others may have changed of it."""
    return found.name, (found.level, list(found.handlers), list(found.filters), found.propagate, found.disabled)


def digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()


def resident() -> int:
    """MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 20


def memory() -> list[int]:
    """Resident memory before, with and after an array of 229 MiB."""
    before = resident()
    array = np.ones(30_000_000)
    held = resident()
    del array
    return [before, held, resident()]


# -- what is done ------------------------------------------------------------------------------------------------------

x = np.random.default_rng(0).normal(size=(8, 3, 6, 6)).astype("float32")
batch = {"data": x, "softmax_label": np.zeros(8, "float32")}
ours = SimpleNamespace()


def import_the_ground_floor() -> None:
    ours.nn = importlib.import_module("symjax_nnvm")
    ours.sym = ours.nn.symbol


def import_the_engine_room() -> None:
    ours.lowering = importlib.import_module("lowering")


def import_mxnets_namespace() -> None:
    ours.mx = ours.lowering.mx


def build() -> None:
    sym = ours.sym
    h = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=16, pad=(1, 1), name="conv")
    h = sym.Activation(sym.BatchNorm(h, name="norm"), act_type="relu")
    ours.net = sym.SoftmaxOutput(sym.FullyConnected(h, num_hidden=4, name="fc"), name="softmax")
    ours.args, ours.aux = ours.lowering.init_params(ours.net, {"data": x.shape}, 0)
    ours.net.infer_shape(data=x.shape)
    ours.net.gradient(["fc_weight"])
    ours.sym.load_json(ours.net.tojson())
    ours.nn.check(ours.net)


def draw() -> None:
    ours.nn.plot_network(ours.net, {"data": x.shape}).svg()
    str(ours.nn.summarize(ours.net, {"data": x.shape}))


def functions() -> None:
    given = {**ours.args, **batch}
    jax.jit(ours.lowering.to_jax(ours.net))(given, ours.aux)
    ours.lowering.compile(ours.net)(given, ours.aux)
    ours.lowering.grad_fn(ours.net, ["fc_weight"])(given, ours.aux)
    ours.lowering.check_gradients(ours.net, given, ours.aux, wrt=["fc_bias"])


def predict() -> None:
    predictor = ours.lowering.Predictor(ours.net, ours.args, ours.aux)
    predictor(data=x)
    list(predictor.batches([x, x[:2]], batch_size=8))
    predictor.save("served")
    ours.lowering.Predictor.load("served")(data=x)


def bind() -> None:
    executor = ours.lowering.simple_bind(ours.net, data=x.shape)
    executor.forward(is_train=True, **batch)
    executor.backward()


def made_trainer() -> Any:
    trainer = ours.lowering.Trainer(ours.net, "adam")
    trainer.init(0, data=x.shape)
    return trainer


def fit() -> None:
    trainer = made_trainer()
    trainer.fit([batch] * 2, 2, validation=[batch])
    trainer.predict([batch])
    trainer.export("exported", 1)


def fit_with_kept_memory() -> None:
    made_trainer().fit([batch] * 2, 1, progress=False, keep_memory=True)


def checkpoints() -> None:
    made_trainer().fit([batch] * 3, 2, checkpoints=ours.lowering.Checkpoints("run", every=2), progress=False)
    made_trainer().fit([batch] * 3, 3, checkpoints=ours.lowering.Checkpoints("run", every=2), progress=False)
    ours.lowering.Checkpoints("other").save(1, made_trainer().require_state(), {})


def a_save_that_fails() -> None:
    store = ours.lowering.Checkpoints("full")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, hard))
    try:
        store.save(1, made_trainer().require_state(), {})
    except ours.nn.errors.CheckpointError:
        pass
    else:
        raise AssertionError("it was saved")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def export() -> None:
    ours.lowering.export_program("net.stablehlo", ours.net, ours.args, ours.aux, {"data": x.shape})


def mxnets_way() -> None:
    mx = ours.mx
    data = mx.nd.array(x)
    data.attach_grad()
    with mx.autograd.record():
        total = (data * data).sum()
    total.backward()
    mx.random.seed(1)
    mx.nd.random.normal(shape=(3,)).asnumpy()
    module = mx.mod.Module(ours.net)
    module.fit(mx.io.NDArrayIter(x, np.zeros(8, "float32"), batch_size=4), num_epoch=1)
    module.predict(mx.io.NDArrayIter(x, batch_size=4))


def the_command() -> None:
    main = importlib.import_module("symjax_nnvm.cli").main
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["run", "exported", "random", "--shape", "data=2,3,6,6"]) == 0
        assert main(["check", "exported"]) == 0


STEPS: tuple[Callable[[], None], ...] = (
    import_the_ground_floor,
    import_the_engine_room,
    import_mxnets_namespace,
    build,
    draw,
    functions,
    predict,
    bind,
    fit,
    fit_with_kept_memory,
    checkpoints,
    a_save_that_fails,
    export,
    mxnets_way,
    the_command,
)


def lines() -> Iterator[dict[str, Any]]:
    """What is printed."""
    jax.jit(lambda a: a + 1)(x).block_until_ready()
    before = state()
    yield {"step": "jax alone", "changed": {}, "memory": memory()}
    for step in STEPS:
        step()
        after = settled(before)
        changed = {
            name: [repr(before[name])[:2000], repr(after[name])[:2000]]
            for name in before
            if before[name] != after[name]
        }
        yield {"step": step.__name__, "changed": changed, "memory": memory()}
        before = after


if __name__ == "__main__":
    for module in BEFORE:
        importlib.import_module(module)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for line in lines():
            print(json.dumps(line), flush=True)
        os.chdir("/")
