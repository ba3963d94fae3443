"""Our speed against MXNet 1.9.1's, onnxruntime's and hand-written JAX's, on whole networks.

    python benchmarks/zoo.py --mxnet mxnet-env/bin/python --onnxruntime ort-env/bin/python [--models FOLDER]
                             [--only resnet50,lstm-b32-train] [--inference | --training] [--rounds 7] [--turn 0.2]
                             [--json out.json]
    python benchmarks/zoo.py --deep         # the gradients of 48 transformer blocks instead: minutes

Leave out an interpreter to omit its column. MXNet's (Python 3.10 or newer, with `onnx` for the exports) makes the files
of Gluon's networks, kept in FOLDER; without it they must be there. Each contender is a process that loads a row's
network and waits; all take turns of --turn seconds as in `contenders.py`, after a pause, in which the threads of the
others fall asleep. (Training needs 3: a step takes longer than 0.2, and one alone is slower than its followers.) A call
ends when its results are there. ms: the median of the rounds' medians; ratio: ours over the faster of MXNet and
onnxruntime; difference: the largest from MXNet's outputs (in training, also of the first update), relative to their
scale.

--deep: pre-norm blocks, 128 wide, 4 heads, on (8, 64, 128); the mean square of the output and its gradients by all
parameters. By hand there are three: plain; with an optimization_barrier after each residual sum; and with LayerNorm
under a jit of its own, which changes no number but adds up a LayerNorm's gradient before it joins the residual
stream's. `largest fusion` is the number of instructions in the largest loop that XLA computes in one go: what it grows
by with the depth is computed again and again (docs/reference/benchmarks.md says why).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.contenders import Contender, Failed, conditions, medians, print_table, take_turns
from benchmarks.networks import Row, asked, blocks, chosen, files, initial_values
from symjax_nnvm.tables import table_text

WORKER = str(Path(__file__).with_name("worker.py"))
OTHERS = ("MXNet", "onnxruntime")
CONTENDERS = (*OTHERS, "ours", "JAX by hand")
Commands = Mapping[str, Sequence[str]]


@dataclass
class Result:
    """What was found of a row. rounds: by contender, a median in ms each; difference: from the first of them."""

    row: Row
    rounds: dict[str, list[float]] = field(default_factory=dict)
    difference: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def ms(self) -> dict[str, float]:
        """Medians by contender."""
        return medians(self.rounds)

    @property
    def ratio(self) -> float | None:
        """Ours over the faster of the others."""
        ms = self.ms
        others = [ms[name] for name in OTHERS if name in ms]
        return ms["ours"] / min(others) if others and "ours" in ms else None


def measure(row: Row, commands: Commands, folder: str, *, rounds: int, turn: float = 0.2, pause: float = 0.3) -> Result:
    """Start the contenders, compare their outputs and time them in turn. One that fails is left out from then on."""
    result = Result(row)
    outputs: dict[str, list[np.ndarray]] = {}
    with ExitStack() as stack:
        running: dict[str, Contender] = {}
        for name, command in commands.items():
            running[name] = stack.enter_context(Contender(command))
            try:
                result.seconds[name] = running[name].load(**asked(row, folder))["seconds"]
                outputs[name] = running[name].outputs()
            except Failed as failure:
                result.errors[name] = str(failure)
                del running[name]
        reference = next(iter(outputs.values()), [])
        result.difference = {name: difference(arrays, reference) for name, arrays in outputs.items()}
        ways = {name: contender.time for name, contender in running.items()}
        result.rounds = take_turns(ways, rounds, seconds=turn, pause=pause, errors=result.errors)
    return result


def difference(arrays: Sequence[np.ndarray], reference: Sequence[np.ndarray]) -> float:
    """The largest of any element, relative to the largest element of its array; infinite where they do not compare."""
    if [a.size for a in arrays] != [b.size for b in reference]:
        return math.inf
    pairs = ((a.ravel(), b.ravel()) for a, b in zip(arrays, reference, strict=True))
    found = [float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs]
    return max(value if math.isfinite(value) else math.inf for value in found)


# -- model files -------------------------------------------------------------------------------------------------------


def make_model(row: Row, folder: str, mxnet: str | None) -> None:
    """Have the network's files made, by MXNet or by us, where they are not there yet. Raises Failed."""
    prefix = files(folder, row)
    if Path(f"{prefix}-symbol.json").exists() and Path(f"{prefix}-0000.params").exists():
        return
    if callable(row.network.source):
        _made(folder, [sys.executable, WORKER, "make", row.name])
    else:
        _made(folder, [_needed(mxnet, f"{prefix}-symbol.json"), WORKER, "make", row.name])


def make_onnx(row: Row, folder: str, mxnet: str | None) -> None:
    """Have MXNet export the network for onnxruntime, where it has not yet. Raises Failed."""
    path = f"{files(folder, row)}-b{row.batch}.onnx"
    if not Path(path).exists():
        _made(folder, [_needed(mxnet, path), WORKER, "onnx", row.name, str(row.batch), folder])


def _needed(mxnet: str | None, path: str) -> str:
    if mxnet is None:
        raise Failed(f"{path} is not there, and only MXNet can make it: give --mxnet, or --models with the file")
    return mxnet


def _made(folder: str, command: Sequence[str]) -> None:
    """Run a maker in a folder of its own and take over what it wrote, so that no half of a file is ever kept."""
    with tempfile.TemporaryDirectory(dir=folder) as fresh:
        done = subprocess.run([*command, fresh], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed((done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1])
        for path in Path(fresh).iterdir():
            os.replace(path, Path(folder) / path.name)


def run_row(row: Row, interpreters: Mapping[str, str | None], folder: str, rounds: int, turn: float) -> Result:
    """Make the row's files and measure each contender that takes part in it."""
    mxnet, runtime = (interpreters[name] for name in OTHERS)
    commands: dict[str, Sequence[str]] = {}
    errors: dict[str, str] = {}
    try:
        make_model(row, folder, mxnet)
    except Failed as failure:
        return Result(row, errors={"model": str(failure)})
    if mxnet:
        commands["MXNet"] = (mxnet, WORKER, "mxnet")
    if runtime and row.network.onnx and not row.training:
        try:
            make_onnx(row, folder, mxnet)
            commands["onnxruntime"] = (runtime, WORKER, "onnxruntime")
        except Failed as failure:
            errors["onnxruntime"] = str(failure)
    commands["ours"] = (sys.executable, WORKER, "ours")
    if row.network.by_hand and not row.training:
        commands["JAX by hand"] = (sys.executable, WORKER, "by_hand")
    result = measure(row, commands, folder, rounds=rounds, turn=turn)
    result.errors = errors | result.errors
    return result


# -- what is shown -----------------------------------------------------------------------------------------------------


def table(results: Sequence[Result]) -> str:
    """The table, geometric means, and what failed."""
    columns = ["network", *(f"{name} ms" for name in CONTENDERS), "ratio", "ours/JAX", "difference"]
    rows = []
    for result in results:
        ms = result.ms
        cells = ["failed" if name in result.errors else _number(ms.get(name)) for name in CONTENDERS]
        to_jax = ms["ours"] / ms["JAX by hand"] if {"ours", "JAX by hand"} <= ms.keys() else None
        largest = max(result.difference.values(), default=None)
        shown = "-" if largest is None or len(result.difference) < 2 else f"{largest:.0e}"
        rows.append([result.row.label, *cells, _number(result.ratio, 2), _number(to_jax, 2), shown])
    lines = [table_text(columns, rows, right=len(columns) - 1)]
    for kind, training in (("inference", False), ("training", True)):
        ratios = [result.ratio for result in results if result.row.training == training and result.ratio is not None]
        if ratios:
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            lines.append(f"geometric mean of the ratios, {kind}: {mean:.2f}")
    failed = ((result.row.label, name, error) for result in results for name, error in result.errors.items())
    return "\n".join([*lines, *(f"{label}: {name}: {error}" for label, name, error in failed)])


def _number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def as_json(results: Iterable[Result]) -> list[dict[str, Any]]:
    """Everything that was measured, as plain data."""
    return [{**asdict(result), "row": result.row.label, "ms": result.ms, "ratio": result.ratio} for result in results]


# -- the deep stack ----------------------------------------------------------------------------------------------------

DEEP = ("ours", "by hand", "by hand, barriers", "by hand, LayerNorm jitted")


def deep_gradient(variant: str, layers: int) -> tuple[Any, tuple[Any, ...]]:
    """(jitted function of the arrays, the arrays), of one of `DEEP`."""
    import jax
    import jax.numpy as jnp

    import lowering
    from benchmarks.by_hand import normalised, pre_norm, transposed
    from lowering.xla.compile_options import jit
    from symjax_nnvm import symbol as sym

    shape, heads = (8, 64, 128), 4
    how: dict[str, dict[str, Any]] = {
        "by hand, barriers": {"between": jax.lax.optimization_barrier},
        "by hand, LayerNorm jitted": {"normal": jax.jit(normalised)},
    }
    net = sym.MakeLoss(sym.mean(sym.square(blocks(sym, layers, shape[-1], heads, pre_norm=True))))
    shapes = dict(zip(net.list_arguments(), net.infer_shape(data=shape)[0], strict=True))
    del shapes["data"]
    values = initial_values(shapes)
    data = jnp.asarray(np.random.RandomState(1).standard_normal(shape), jnp.float32)
    if variant == "ours":
        function = lowering.grad_fn(net, list(values))
        return jit(lambda w, x: function({**w, "data": x})[:2]), (jax.device_put(values), data)

    def loss(w: Any, x: jax.Array) -> jax.Array:
        return jnp.mean(jnp.square(pre_norm(w, x, layers, heads, **how.get(variant, {}))))

    return jax.jit(jax.value_and_grad(loss)), (transposed(values), data)


def fusions(hlo: str) -> list[list[str]]:
    """The instructions of each fused computation."""
    bodies = re.findall(r"^%fused_computation[\w.]* \([^\n]*\{\n(.*?)^\}", hlo, re.MULTILINE | re.DOTALL)
    return [[line for line in body.splitlines() if " parameter(" not in line] for body in bodies]


def compare_deep(layers: int, rounds: int) -> None:
    """Have each compile, time them in turn and print the table."""
    lines: dict[str, list[str]] = {}
    reference: list[np.ndarray] = []
    with ExitStack() as stack:
        children = {name: stack.enter_context(Contender.worker("deep")) for name in DEEP}
        for name, child in children.items():
            print(f"compiling: {name}", file=sys.stderr, flush=True)
            facts = child.load(variant=name, layers=layers)
            outputs = child.outputs()
            reference = reference or outputs
            counts = [f"{facts[key]:,.0f}" for key in ("megabytes", "largest", "instructions")]
            lines[name] = [f"{facts['compile']:.1f}", *counts, f"{difference(outputs, reference):.0e}"]
        ways = {name: child.time for name, child in children.items()}
        ms = medians(take_turns(ways, rounds, seconds=0.2, pause=0.3))
    columns = ["gradients", "compile s", "temporaries MB", "largest fusion", "fused instructions", "difference", "ms"]
    print_table(columns, [[name, *lines[name], f"{ms[name]:.0f}"] for name in DEEP])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--turn", type=float, default=0.2, metavar="SECONDS")
    parser.add_argument("--mxnet", metavar="PYTHON", help="of an environment with MXNet 1.9.1 and onnx")
    parser.add_argument("--onnxruntime", metavar="PYTHON", help="of an environment with onnxruntime")
    parser.add_argument("--models", metavar="FOLDER", help="where model files are kept; default a temporary folder")
    parser.add_argument("--only", help="names of networks or rows, with commas between")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--inference", dest="training", action="store_false", default=None)
    kind.add_argument("--training", action="store_true", default=None)
    parser.add_argument("--json", metavar="FILE", help="write everything measured there")
    parser.add_argument("--deep", nargs="?", type=int, const=48, metavar="LAYERS", help="the deep stack instead")
    options = parser.parse_args()
    if options.deep:
        return compare_deep(options.deep, options.rounds)
    try:
        rows = chosen(options.only, options.training)
    except ValueError as error:
        parser.error(str(error))
    interpreters = {"MXNet": options.mxnet, "onnxruntime": options.onnxruntime}
    results: list[Result] = []
    with tempfile.TemporaryDirectory() if options.models is None else nullcontext(options.models) as folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for index, row in enumerate(rows):
            print(f"{index + 1} of {len(rows)}: {row.label}", file=sys.stderr, flush=True)
            results.append(run_row(row, interpreters, folder, options.rounds, options.turn))
            if options.json:  # after each row: an interrupted run keeps what it has
                Path(options.json).write_text(json.dumps(as_json(results), indent=1), encoding="utf-8")
    print(conditions(("mxnet", options.mxnet), ("onnxruntime", options.onnxruntime)), table(results), sep="\n")


if __name__ == "__main__":
    main()
