"""Every kind of save, killed again and again; `python -m tests.support.interrupted_saves --kills 50` shows the counts.

A process saves two contents by turns under one name until it is killed with SIGKILL at a random moment. What is there
then must be readable, and one of the two contents to the last number.
"""

import argparse
import contextlib
import io
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.export
import numpy as np

import lowering
import symjax_nnvm as nn
from lowering.serving.archive import read_folder
from symjax_nnvm import symbol as sym
from symjax_nnvm.cli import main as command
from symjax_nnvm.viz.network_plot import plot_network

ROOT = Path(__file__).parents[2]

# -- what is saved ---------------------------------------------------------------------------------------------------


def dense() -> sym.Symbol:
    return sym.FullyConnected(sym.Variable("data"), num_hidden=512, name="fc")


@cache
def network(which: int) -> sym.Symbol:
    """One of two networks, which differ in twenty names and fit the same arrays."""
    net = dense()
    for number in range(20):
        net = sym.Activation(net, act_type="tanh", name=f"act{number}_{'ab'[which]}")
    return net


@cache
def arrays(which: int) -> dict[str, np.ndarray]:
    """One of two sets of arrays, of 2 MB: a write takes long enough to be killed in."""
    return {"fc_weight": np.full((512, 1024), which, np.float32), "fc_bias": np.full(512, which, np.float32)}


@cache
def compiled(which: int) -> Any:
    return lowering.compile(network(which))


@cache
def trainer(which: int) -> lowering.Trainer:
    made = lowering.Trainer(sym.SoftmaxOutput(dense(), name=f"softmax_{'ab'[which]}"))
    made.init(0, arrays(which), data=(2, 1024))
    return made


class CommandFailedError(Exception):
    """The command ended with another code than 0; what it said."""


def run_command(*argv: object) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as told:
        code = command([str(word) for word in argv])
    if code:
        raise CommandFailedError(told.getvalue())


@cache
def model(which: int, small: bool = False) -> Path:
    """The prefix of a model to convert, or of a small one to run."""
    prefix = Path(_FOLDER.name) / f"{os.getpid()}-{small}-{'ab'[which]}"
    nn.save_checkpoint(prefix, 0, dense() if small else network(which), arrays(which), {})
    return prefix


_FOLDER = tempfile.TemporaryDirectory(prefix="symjax-nnvm-saves-")


def run_output(folder: Path, which: int) -> None:
    run_command(
        "run", model(which, small=True), "data=zeros", "--shape", "data=800,1024", "--output", folder / "out.npz"
    )


def export(folder: Path, which: int) -> None:
    compiled(which).export(folder / "m.stablehlo", arrays(which) | {"data": np.ones((2, 1024), np.float32)})


@cache
def predictor(which: int) -> lowering.Predictor:
    net = sym.SoftmaxOutput(dense(), name=f"softmax_{'ab'[which]}")
    return lowering.Predictor(net, arrays(which)).warm(data=(2, 1024))


def read_predictor(path: Path) -> list[Any]:
    folder = read_folder(path)
    net, args, _ = folder.network
    return [net.tojson(), numbers(dict(args)), folder.signatures, numbers(dict(folder.values))]


@dataclass(frozen=True)
class Kind:
    """A kind of save. save(folder, which): one of the two contents. files: name → what is in a file, to compare."""

    save: Callable[[Path, int], Any]
    files: dict[str, Callable[[Path], Any]]
    uses_jax: bool = False


def numbers(found: dict[str, Any]) -> dict[str, bytes]:
    return {name: np.asarray(array).tobytes() for name, array in found.items()}


def read_params(path: Path) -> Any:
    found = nn.load_arrays(path)
    assert isinstance(found, dict)
    return numbers(found)


def read_symbol(path: Path) -> str:
    return sym.load(path).tojson()


def read_export(path: Path) -> list[str]:
    """The program, without the places in the source that its lines come from: those of its caller."""
    text = jax.export.deserialize(bytearray(path.read_bytes())).mlir_module()
    return [line.partition("loc(")[0] for line in text.splitlines() if not line.startswith("#loc")]


_PAIR = {"m-0000.params": read_params, "m-symbol.json": read_symbol}
_SAFE = {"m.safetensors": lambda path: numbers(nn.load_safetensors(path)[0]), "m-symbol.json": read_symbol}

KINDS: dict[str, Kind] = {
    "save_checkpoint": Kind(lambda f, w: nn.save_checkpoint(f / "m", 0, network(w), arrays(w), {}), _PAIR),
    "save_arrays": Kind(lambda f, w: nn.save_arrays(f / "m.params", arrays(w)), {"m.params": read_params}),
    "symbol.save": Kind(lambda f, w: network(w).save(f / "m-symbol.json"), {"m-symbol.json": read_symbol}),
    "save_safetensors": Kind(
        lambda f, w: nn.save_safetensors(f / "m.safetensors", arrays(w), {}), {"m.safetensors": _SAFE["m.safetensors"]}
    ),
    "plot.save": Kind(lambda f, w: plot_network(network(w)).save(f / "m.dot"), {"m.dot": Path.read_text}),
    "convert": Kind(lambda f, w: run_command("convert", model(w), f / "m"), _PAIR),
    "convert to safetensors": Kind(lambda f, w: run_command("convert", model(w), f / "m.safetensors"), _SAFE),
    "compile.export": Kind(export, {"m.stablehlo": read_export}, uses_jax=True),
    "Trainer.export": Kind(lambda f, w: trainer(w).export(f / "m", 0), _PAIR, uses_jax=True),
    "Predictor.save": Kind(lambda f, w: predictor(w).save(f / "served"), {"served": read_predictor}, uses_jax=True),
    "run --output": Kind(run_output, {"out.npz": read_params}, uses_jax=True),
}


def contents(kind: Kind, folder: Path) -> dict[str, Any]:
    """What is in each file. Raises when one of them cannot be read."""
    return {name: read(folder / name) for name, read in kind.files.items()}


# -- killing it ------------------------------------------------------------------------------------------------------


def serve() -> None:
    """Fork a process for each line `folder kind`, which saves until it is killed; say its number and how it ended.

    It says itself when it has saved, and how long that takes. Forks of one process that has imported everything start
    in no time; it must not have used JAX itself.
    """
    for line in sys.stdin:
        folder, _, name = line.strip().partition(" ")
        child = os.fork()
        if child == 0:
            kind = KINDS[name]
            kind.save(Path(folder), 1)
            began = time.perf_counter()
            kind.save(Path(folder), 0)
            print(f"saved {time.perf_counter() - began}", flush=True)
            while True:
                kind.save(Path(folder), 1)
                kind.save(Path(folder), 0)
        print(f"process {child}", flush=True)
        print(f"ended {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}", flush=True)


@contextmanager
def server() -> Iterator[subprocess.Popen[str]]:
    """A `serve` in a process of its own."""
    env = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
    words = [sys.executable, "-W", "ignore", "-m", "tests.support.interrupted_saves", "--serve"]
    process = subprocess.Popen(words, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@dataclass
class Count:
    """What kills left: in the middle of a write, of two files one new and one old, and what could not be read."""

    kills: int = 0
    writing: int = 0
    between: int = 0
    broken: list[str] = field(default_factory=list)


def kill_many_times(process: subprocess.Popen[str], name: str, kills: int, folder: Path, seed: int = 0) -> Count:
    """Save, kill, look; at the end nothing but the files must be left. Every second kill waits for a write."""
    kind, moments, count = KINDS[name], random.Random(seed), Count()
    wanted = []
    for which in (0, 1):
        (folder / f"expected{which}").mkdir()
        kind.save(folder / f"expected{which}", which)
        wanted.append(contents(kind, folder / f"expected{which}"))
    assert wanted[0] != wanted[1]
    place = folder / "killed"
    place.mkdir()
    for number in range(kills):
        for _ in range(5):  # on a busy machine the kill may come after the write that it waited for
            _life(process, name, place, moments, wait=number % 2 == 1)
            if number % 2 == 0 or _writing(place):
                break
        count.kills += 1
        count.writing += _writing(place)
        try:
            found = contents(kind, place)
        except (OSError, nn.NNVMError, ValueError) as error:
            count.broken.append(f"{type(error).__name__}: {error}")
            continue
        sides = {next((i for i, known in enumerate(wanted) if known[file] == found[file]), None) for file in found}
        if None in sides:
            count.broken.append("neither the old content nor the new")
        count.between += len(sides) > 1
    kind.save(place, 0)
    surplus = {path.name for path in place.iterdir()} - kind.files.keys()
    count.broken += [f"left over: {file}" for file in sorted(surplus)]
    return count


def _writing(place: Path) -> bool:
    return any(name.endswith(".tmp") for _, _, names in os.walk(place) for name in names)


def _life(process: subprocess.Popen[str], name: str, place: Path, moments: random.Random, wait: bool) -> None:
    """Start a process and kill it, at a random moment after it has saved for the first time.

    wait: for the next write to begin, which is a small part of what some kinds do.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{place} {name}\n")
    process.stdin.flush()
    told: dict[str, float] = {}
    while told.keys() != {"process", "saved"}:
        word, _, value = process.stdout.readline().partition(" ")
        assert word in ("process", "saved"), f"{name} ended by itself: {word} {value}"
        told[word] = float(value)
    time.sleep(moments.uniform(0, 2 * told["saved"]))
    number, began = int(told["process"]), time.monotonic()
    while wait and time.monotonic() - began < 60:
        if not _writing(place):
            continue
        os.kill(number, signal.SIGSTOP)  # and look again: a small file is whole before it is seen
        time.sleep(0.002)
        if _writing(place):
            break
        os.kill(number, signal.SIGCONT)
    os.kill(number, signal.SIGKILL)
    assert process.stdout.readline() == f"ended {-signal.SIGKILL}\n"


def main() -> None:
    """Kill every kind of save many times and print what was left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--kills", type=int, default=50, help="of each kind")
    parser.add_argument("--kind", choices=tuple(KINDS), action="append", help="default all")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    failed = False
    with server() as process:
        for name in options.kind or KINDS:
            with tempfile.TemporaryDirectory() as folder:
                count = kill_many_times(process, name, options.kills, Path(folder), options.seed)
            print(
                f"{name}: {count.kills} kills, {count.writing} in the middle of a write, {count.between} between the "
                f"renames of two files, {len(count.broken)} broken",
                *count.broken[:3],
                sep="\n    ",
                flush=True,
            )
            failed = failed or bool(count.broken)
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
