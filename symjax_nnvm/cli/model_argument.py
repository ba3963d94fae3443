"""MODEL on the command line: which model is meant, and the shapes of its inputs."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from symjax_nnvm.cli.argument_types import EPOCH, file_path, text_of
from symjax_nnvm.errors import SymbolValueError, close_or_all
from symjax_nnvm.inspect.roles import data_inputs
from symjax_nnvm.mxnet.model_files import ModelFiles
from symjax_nnvm.onnx import find_any_model
from symjax_nnvm.symbol.symbol import Symbol


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that choose a model."""
    parser.add_argument(
        "model",
        type=text_of("model"),
        metavar="MODEL",
        help="symbol file, file of parameters, their common prefix, or ONNX file",
    )
    parser.add_argument(
        "--params", type=file_path, metavar="FILE", help="the file of parameters, where it is not beside"
    )
    parser.add_argument("--epoch", type=EPOCH, metavar="N", help="parameters of this epoch; default the highest")


def add_shapes(parser: argparse.ArgumentParser, *, named: bool = False) -> None:
    """Add `--shape`, repeatable. named: sizes may be names, for what is written with sizes that run time decides."""
    parser.add_argument(
        "--shape",
        type=named_shape_of if named else shape_of,
        action="append",
        default=[],
        metavar="NAME=N,C,H,W",
        help="shape of an input; repeat for several" + (". ONNX: a size may be a name, for any size" if named else ""),
    )


def named_shape_of(text: str) -> tuple[str, tuple[int | str, ...]]:
    """Return (`data`, ("batch", 3, 224, 224)) of `data=batch,3,224,224`; without names as `shape_of`."""
    name, equals, sizes = text.partition("=")
    parts = [part.strip() for part in sizes.strip().strip("()[]").split(",")]
    if not equals or not any(part.isidentifier() for part in parts) or "x" in parts:
        return shape_of(text)
    numbers = [part if part.isidentifier() else shape_of(f"{name}={part}")[1][0] for part in parts if part]
    return name, tuple(numbers)


def shape_of(text: str) -> tuple[str, tuple[int, ...]]:
    """Return (`data`, (1, 3, 224, 224)) of `data=1,3,224,224`, `data=1x3x224x224` or `data=(1, 3, 224, 224)`."""
    name, equals, sizes = text.partition("=")
    numbers = re.split(r"[,x]", sizes.strip().strip("()[]").replace(" ", "").rstrip(","))
    if not name or not equals or not all(re.fullmatch(r"-1|[0-9]{1,18}", number) for number in numbers):
        raise argparse.ArgumentTypeError(
            f"{text[:80]!r} is not a shape; write for example data=1,3,224,224 (0 is an unknown size)"
        )
    return name, tuple(int(number) for number in numbers)


def of_options(options: argparse.Namespace) -> ModelFiles:
    """Return the model of `add_model`'s arguments. Raises ModelNotFoundError."""
    return find_any_model(options.model, options.params, options.epoch)


def all_shapes(options: argparse.Namespace, symbol: Symbol, *arrays: Mapping[str, Any]) -> dict[str, Sequence[int]]:
    """Return the shapes of `--shape`, and those of the arrays that the network has. Raises SymbolValueError."""
    names = set(symbol.list_inputs())
    for name, _ in options.shape:
        if name not in names:
            fix = close_or_all(name, names, "Its inputs are", sorted(data_inputs(symbol)))
            raise SymbolValueError(f"--shape: the network has no input {name!r}. {fix}")
    shapes = {name: array.shape for named in arrays for name, array in named.items() if name in names}
    return shapes | dict(options.shape)


def make_folder(out: Path) -> None:
    """Make the folder that a file is written into, where there is none. Raises OSError."""
    out.parent.mkdir(parents=True, exist_ok=True)
