"""Run a model on arrays, an image, or random numbers, and print what comes out.

Of outputs (n, classes) the largest elements are listed; `--output` saves everything.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import lowering
from lowering.cli.model_inputs import InputError, add_inputs, gather
from lowering.cli.saving import member_names, write_npz
from lowering.core.cache import Programs
from lowering.jax_casts import require_held
from symjax_nnvm.cli.argument_types import COUNT, file_path, whole
from symjax_nnvm.cli.console import note, print_json, print_table, show, steps, working
from symjax_nnvm.cli.model_argument import make_folder, of_options
from symjax_nnvm.errors import plain_list, printable
from symjax_nnvm.inspect.roles import data_inputs, label_variables
from symjax_nnvm.io.files import atomic_write, read_bounded
from symjax_nnvm.ir.types import format_shape
from symjax_nnvm.pipeline import Options
from symjax_nnvm.symbol.symbol import Symbol

_ROWS = 8
"""How many rows of an output's first axis are ranked."""

_MAX_LABELS = 1 << 26


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: MODEL, inputs, and the options for outputs."""
    add_inputs(parser)
    parser.add_argument(
        "--topk", type=whole(0, 1_000_000), default=5, metavar="K", help="list the K largest of each row; 0: none"
    )
    parser.add_argument("--labels", type=file_path, metavar="FILE", help="names of classes, one a line (synset.txt)")
    parser.add_argument("--output", type=file_path, metavar="FILE.npz", help="save the outputs by name")
    parser.add_argument("--backend", choices=("xla", "onnxruntime"), default="xla", help="what runs it, default xla")
    parser.add_argument("--time", type=COUNT, nargs="?", const=20, metavar="N", help="time N runs, default 20")


def run(options: argparse.Namespace) -> int:
    """Compile the model, run it, and print its outputs."""
    if options.own_process:
        lowering.keep_memory()
    model = of_options(options)
    symbol = model.symbol()
    if options.output and (not options.output.name or options.output.is_dir()):
        raise InputError(f"{str(options.output)!r} is a folder: name a file in it.")
    if options.output:
        model.keep(options.output)
    args, aux = gather(options, model, symbol)
    labels = _labels(options.labels) if options.labels else None
    compute, times = _ready(options, symbol, args, aux)
    began = time.perf_counter()
    outputs = jax.block_until_ready(compute())
    times["first run"] = time.perf_counter() - began
    if options.time:
        runs = [_timed(compute) for _ in steps("running", range(options.time), options.time)]
        times |= {f"median of {options.time}": median(runs), "fastest": min(runs)}
    arrays = dict(zip(symbol.list_outputs(), map(np.asarray, outputs), strict=True))
    if options.output:
        _save(options.output, arrays)
    ranked = {name: _ranked(array, options.topk) for name, array in arrays.items()}
    if options.json:
        print_json(_report(arrays, ranked, labels, times if options.time else None))
        return 0
    columns = ("output", "shape", "dtype", "min", "mean", "max")
    print_table(columns, [(n, format_shape(a.shape), str(a.dtype), *_extent(a)) for n, a in arrays.items()], right=3)
    for name, rows in ranked.items():
        lines = [
            (str(row), str(index), _label(labels, index), f"{value:.6g}")
            for row, classes in enumerate(rows)
            for index, value in classes
        ]
        if lines:
            show(f"{printable(name)}: the largest of each row")
            print_table(("row", "class", "label", "value"), lines, right=1)
    if options.time:
        print_table(list(times), [[f"{seconds * 1e3:,.2f} ms" for seconds in times.values()]], right=len(times))
    return 0


def _ready(
    options: argparse.Namespace, symbol: Symbol, args: Mapping[str, Any], aux: Mapping[str, Any]
) -> tuple[Callable[[], list[jax.Array]], dict[str, float]]:
    """Return the compiled function that computes the outputs, and the seconds that compiling took.

    It computes as a `Predictor` does; but where JAX keeps what it compiled, which it cannot do with a library's calls,
    and where random numbers are drawn, which are those of the graph as it is, as `lowering.compile` does.
    """
    for name, array in (*args.items(), *aux.items()):
        require_held(array, name)
    key = jax.random.key(options.seed)
    began = time.perf_counter()
    keeps = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    if options.backend == "xla" and (keeps or Programs(symbol).forward(Options()).needs_key):
        call = (jax.tree.map(jnp.asarray, dict(args)), jax.tree.map(jnp.asarray, dict(aux)), key)
        with working("tracing"):
            lowered = lowering.compile(symbol).lower(*call)
        traced = time.perf_counter()
        with working("compiling"):
            executable = lowered.compile()
        return lambda: executable(*call)[0], {"trace": traced - began, "compile": time.perf_counter() - traced}
    fed = data_inputs(symbol, dict(options.shape)) - {node.name for node in label_variables(symbol)}
    inputs = {name: jnp.asarray(array) for name, array in args.items() if name in fed}
    shapes = {name: array.shape for name, array in inputs.items()}
    with working("tracing"):
        constants = {name: array for name, array in args.items() if name not in fed}
        predict = lowering.Predictor(symbol, constants, aux, backend=options.backend)
        predict.plan_of(**shapes)
    traced = time.perf_counter()
    with working("compiling"):
        predict.warm(**shapes)
    return lambda: predict(**inputs), {"trace": traced - began, "compile": time.perf_counter() - traced}


def _timed(compute: Callable[[], Any]) -> float:
    began = time.perf_counter()
    jax.block_until_ready(compute())
    return time.perf_counter() - began


def _ranked(array: np.ndarray, k: int) -> list[list[tuple[int, float]]]:
    """Return (class, value) of the k largest of each row, of an array (n, classes); of other arrays nothing."""
    if array.ndim != 2 or array.shape[1] < 2 or k < 1:
        return []
    rows = array[:_ROWS].astype(np.float64)
    order = np.argsort(-rows, axis=1, kind="stable")[:, :k]
    return [[(int(i), float(row[i])) for i in classes] for row, classes in zip(rows, order, strict=True)]


def _labels(path: Path) -> list[str]:
    """Return the lines of a file of names. Raises InputError for anything that is not text, FileError, OSError."""
    try:
        text = read_bounded(path, _MAX_LABELS, "a file of labels").decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not a file with one label a line: it is not UTF-8 at byte {error.start}."
        ) from None
    return [line.rstrip("\r") for line in text.split("\n")]


def _save(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write the outputs, and print their names in the file where those differ. Raises FileError, OSError."""
    make_folder(path)
    with atomic_write(path) as file:
        write_npz(file, {name: _storable(array) for name, array in arrays.items()})
    others = [f"{name!r} as {member}" for name, member in member_names(arrays).items() if name != member]
    note(f"saved: {path}" + (f", with {plain_list(others)}" if others else ""))


def _label(labels: Sequence[str] | None, index: int) -> str:
    return labels[index] if labels is not None and index < len(labels) else ""


def _extent(array: np.ndarray) -> tuple[str, str, str]:
    if array.size == 0:
        return ("-", "-", "-")
    wide = array.astype(np.float64)
    return tuple(f"{value:.6g}" for value in (wide.min(), wide.mean(), wide.max()))  # type: ignore[return-value]


def _storable(array: np.ndarray) -> np.ndarray:
    """NumPy's files do not support bfloat16."""
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def _report(arrays: dict, ranked: dict, labels: Sequence[str] | None, times: dict[str, float] | None) -> dict:
    outputs = [
        {
            "name": name,
            "shape": list(array.shape),
            "dtype": str(array.dtype),
            "largest": [
                [{"class": index, "label": _label(labels, index), "value": value} for index, value in row]
                for row in ranked[name]
            ],
        }
        for name, array in arrays.items()
    ]
    return {"outputs": outputs, "seconds": times, "device": str(jax.devices()[0])}
