"""`symjax-nnvm verify MODEL.onnx --against MODEL`: a file in onnxruntime and the network here, on the same inputs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import lowering
from lowering.cli.model_inputs import InputError, gather
from lowering.serving.onnx_session import distance, open_session, tolerance
from symjax_nnvm.cli.console import print_json, print_table, working
from symjax_nnvm.errors import plain_list
from symjax_nnvm.io.guess import require_file
from symjax_nnvm.ir.types import format_shape
from symjax_nnvm.onnx import find_any_model
from symjax_nnvm.onnx.model_file import SUFFIX
from symjax_nnvm.surgery import inference_symbol


def run(options: argparse.Namespace) -> int:
    """Print a row for each output of the file; 1 where one is not ours."""
    if not _is_onnx(options.model) and _is_onnx(options.against):  # the other way round
        options.model, options.against = options.against, options.model
    session = _session(options.model)
    model = find_any_model(options.against, options.params, options.epoch)
    symbol = inference_symbol(model.symbol())
    infos = {input_info.name: input_info for input_info in session.get_inputs()}
    named_shapes = {name for name, _ in options.shape}
    # What has a name in the file is any size: two of each are as good as any.
    sizes = {
        name: tuple(s if isinstance(s, int) else 2 for s in input_info.shape) for name, input_info in infos.items()
    }
    options.shape += [(name, shape) for name, shape in sizes.items() if name not in named_shapes and shape]
    if all("=" in text for text in options.inputs):
        named = {text.partition("=")[0] for text in options.inputs}
        options.inputs += [f"{name}=random" for name in sorted(infos.keys() - named)]
    args, aux = gather(options, model, symbol)
    missing = infos.keys() - args.keys() - aux.keys()
    if missing:
        raise InputError(f"{options.model} needs inputs that {options.against} lacks: {plain_list(sorted(missing))}.")
    feed = {n: np.asarray((args | aux)[n]).astype(_dtype(input_info.type)) for n, input_info in infos.items()}
    with working("computing"):
        outputs, _ = lowering.compile(symbol)(args, aux)
        theirs = session.run(None, feed)
    ours = dict(zip(symbol.list_outputs(), outputs, strict=True))
    names = [input_info.name for input_info in session.get_outputs()]
    rows = [_row(name, np.asarray(array), ours.get(name)) for name, array in zip(names, theirs, strict=True)]
    ok = all(row["ok"] for row in rows)
    if options.json:
        print_json({"ok": ok, "rows": rows})
    else:
        table = [(r["output"], format_shape(r["shape"]), f"{r['difference']:.1e}", r["verdict"]) for r in rows]
        print_table(("output", "shape", "largest difference, of the scale", ""), table)
    return int(not ok)


def _is_onnx(path: str) -> bool:
    return path.lower().endswith(SUFFIX)


def _session(path: str) -> Any:
    if not (_is_onnx(path) or Path(path).is_file()):
        raise InputError(
            f"{path} is not an ONNX file: symjax-nnvm verify MODEL.onnx --against MODEL compares what an ONNX file "
            "computes with what the model that it was made from computes."
        )
    require_file(Path(path))
    return open_session(path, path)


def _dtype(text: str) -> str:
    """Return NumPy's name of an ONNX type such as `tensor(float)`."""
    name = text.removeprefix("tensor(").removesuffix(")")
    return {"float": "float32", "double": "float64"}.get(name, name)


def _row(name: str, array: np.ndarray, ours: Any) -> dict[str, Any]:
    """Return the distance of an output from this library's, relative to the largest of this library's."""
    row = {"output": name, "shape": array.shape, "difference": float("nan"), "ok": False}
    if ours is None or tuple(ours.shape) != array.shape:
        return {**row, "verdict": "there is no such output" if ours is None else f"not {format_shape(ours.shape)}"}
    difference = distance(array, np.asarray(ours))
    ok = difference <= tolerance(array.dtype)
    return {**row, "difference": difference, "ok": ok, "verdict": "agrees" if ok else "DIFFERS"}
