"""Convert a model, of any MXNet or ONNX: to ONNX, StableHLO, JAX, safetensors with JSON, or MXNet 1.9.1's files.

OUT decides the format: `.onnx` is for inference elsewhere, its parameters inside; `.stablehlo` is what
jax.export.deserialize reads, `.mlir` is StableHLO as text; `.safetensors` comes with a `-symbol.json`; a name without a
suffix is the prefix of MXNet's two files; with `--to jax` OUT is a folder, for source code that needs only JAX, and
its weights. The folder of OUT is made where there is none. OUT may be MODEL's own name where it stays a model: its
files are replaced when the new ones are whole.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax

import lowering
from lowering.cli.model_inputs import InputError, signature
from lowering.cli.run_budget import add_max_memory, check_budget
from lowering.xla.platforms import exported_kind
from symjax_nnvm.cli.argument_types import EPOCH, file_path, whole
from symjax_nnvm.cli.console import note, print_json, show, working
from symjax_nnvm.cli.model_argument import add_model, add_shapes, all_shapes, make_folder, of_options
from symjax_nnvm.errors import plain_list
from symjax_nnvm.io.files import write_file
from symjax_nnvm.io.formats import FORMATS, FileFormat, array_suffixes, format_of_name
from symjax_nnvm.ir.types import format_shape, is_known
from symjax_nnvm.mxnet.array_formats import MXNET
from symjax_nnvm.mxnet.array_names import bare_name
from symjax_nnvm.mxnet.model_files import ModelFiles
from symjax_nnvm.network_model import Model
from symjax_nnvm.onnx import save_onnx, signature_of, to_onnx
from symjax_nnvm.surgery import dequantized, inference_symbol
from symjax_nnvm.surgery.dequantized import dequantized_arrays
from symjax_nnvm.symbol.symbol import Symbol

_PROGRAMS = (".stablehlo", ".mlir", ".onnx")
"""Suffixes of programs: they are never loaded, so they are not rows of the table of array files."""

_JAX = "jax"
"""The format of source code, in a folder."""

_NOT_WRITTEN = {
    ".params": "MXNet's two files must be named by their prefix",
    ".json": "MXNet's two files must be named by their prefix",
}
_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
_MXNET_NAME = re.compile(r"(?P<prefix>.+?)(-symbol\.json|-(?P<epoch>\d{4,})\.params)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: MODEL, the target files and the target format."""
    add_model(parser)
    parser.add_argument("out", type=file_path, metavar="OUT", help="file to write, or prefix of MXNet's files")
    parser.add_argument(
        "last", nargs="?", type=file_path, metavar="OUT", help="OUT, when an epoch comes before it: MODEL 12 OUT"
    )
    parser.add_argument("--to", choices=tuple(_writers()), help="format; default by OUT's suffix, else mxnet")
    add_shapes(parser, named=True)
    add_max_memory(parser)
    parser.add_argument(
        "--platforms",
        type=_platforms,
        metavar="NAMES",
        help="StableHLO: cpu, cuda, rocm, tpu, with commas; default here",
    )
    parser.add_argument(
        "--weights",
        choices=("inside", "beside"),
        help="StableHLO: parameters in the program, or in a .npz beside it; default neither, they are arguments. The "
        "program is then call(NAME=array), and --shape may leave sizes open: data=N,3,224,224",
    )
    parser.add_argument(
        "--this-machine",
        action="store_true",
        help="StableHLO with --weights: call oneDNN, as fast as a Predictor, but right only on machines like this one",
    )
    parser.add_argument(
        "--float", action="store_true", help="a model of 8-bit integers, or fused for oneDNN, as the one of floats"
    )
    onnx = parser.add_argument_group("ONNX")
    onnx.add_argument("--opset", type=whole(1, 1000), metavar="N", help="version of its operators; default 18 or later")
    onnx.add_argument("--float16", action="store_true", help="half precision throughout, inputs included")
    onnx.add_argument(
        "--fold-batch-norm", action="store_true", help="batch normalisation as part of the weights around it"
    )
    parser.add_argument(
        "--train", action="store_true", help="StableHLO and JAX: the network in training, with its labels"
    )


def run(options: argparse.Namespace) -> int:
    """Write the files of the converted model."""
    if options.last is not None:
        options.epoch, options.out = _epoch(options), options.last
    model = of_options(options)
    if options.float:
        model = _Floats(model.symbol_path, model.params_path)
    format = options.to or _format_of(options.out)
    if format != _JAX and (options.out.is_dir() or not options.out.name):
        raise InputError(f"{str(options.out)!r} is a folder: name a file in it, or the prefix of MXNet's files.")
    all_shapes(options, model.symbol())  # which refuses names that the network lacks, in every format
    named = any(isinstance(size, str) for _, shape in options.shape for size in shape)
    if named and format not in ("onnx", _JAX) and not options.weights:
        where = "in ONNX files, in JAX, and in StableHLO with --weights inside or beside"
        raise InputError(f"--shape: sizes have names {where}; else write numbers, as in data=1,3,224,224.")
    files, remarks = _writers()[format](options, model)
    if options.json:
        print_json({"format": format, "files": [str(path) for path in files], "remarks": remarks})
        return 0
    for line in remarks:
        show(line)
    for path in files:
        note(f"written: {path}")
    return 0


def _epoch(options: argparse.Namespace) -> int:
    """Return the epoch of `MODEL EPOCH OUT`. Raises InputError."""
    text = str(options.out)
    try:
        epoch = EPOCH(text)
    except argparse.ArgumentTypeError as error:
        raise InputError(f"{text[:80]!r} between MODEL and OUT is not an epoch: {error}") from None
    if options.epoch not in (None, epoch):
        raise InputError(f"The epoch is {epoch} before OUT and {options.epoch} behind --epoch.")
    return epoch


class _Floats(ModelFiles):
    """A model of 8-bit integers, read as the one of floats."""

    def symbol(self) -> Symbol:
        """Return the network of floats."""
        return dequantized(super().symbol())

    def arrays(self) -> dict[str, Any]:
        """Return the arrays by bare names, those of integers as floats, too."""
        arrays = {bare_name(name): array for name, array in super().arrays().items()}
        return dequantized_arrays(self.symbol(), arrays)

    def load(self) -> tuple[Symbol, dict[str, Any], dict[str, Any]]:
        """Return (symbol, arguments, auxiliary states)."""
        return self.symbol(), *self.params(self.symbol(), complete=True)


def _format_of(out: Path) -> str:
    """Return the format of OUT's suffix; MXNet's for a prefix, which may hold a version, as `mobilenet1.0_int8` does.

    Raises InputError for a suffix of no format.
    """
    suffix = out.suffix.lower()
    if suffix in _PROGRAMS:
        return suffix.removeprefix(".")
    if suffix[1:2].isdecimal() or not suffix.strip(".") or _MXNET_NAME.fullmatch(out.name):
        return MXNET.name
    row = format_of_name(out)
    if row is not None and row.write is not None and row is not MXNET:
        return row.name
    suffixes = [
        *_PROGRAMS,
        *(array_suffix for array_suffix in array_suffixes(written=True) if array_suffix not in MXNET.suffixes),
    ]
    why = _NOT_WRITTEN.get(suffix, f"{suffix} is not a format that convert writes")
    raise InputError(
        f"{out}: {why}. Suffixes are {', '.join(suffixes)}; without one, OUT is the prefix of MXNet's files, "
        f"{out.stem}-symbol.json and {out.stem}-0000.params. With --to OUT may have any name."
    )


def _platforms(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    unknown = [name for name in names if name not in _PLATFORMS]
    if unknown:
        raise argparse.ArgumentTypeError(f"expected {', '.join(_PLATFORMS)}, with commas, got {text[:80]!r}")
    return names


def _stablehlo(options: argparse.Namespace, model: ModelFiles) -> tuple[list[Path], list[str]]:
    """Write the network as a function of its arguments and states; parameters are never part of it. What is deployed
    needs no labels: at inference they are left out, with the training heads that read them."""
    model.keep(options.out)
    whole = _loaded(model)
    if options.weights:
        return _program(options, whole)
    if options.this_machine:
        raise InputError("--this-machine changes the layout of the parameters, so it needs --weights inside or beside.")
    symbol, args, aux = whole if options.train else whole.inference()
    shapes, dtypes = signature(symbol, all_shapes(options, symbol, args, aux), args | aux)
    unknown = [name for name, shape in shapes.items() if not is_known(shape)]
    if unknown:
        raise InputError(
            f"StableHLO has fixed shapes, but those of {plain_list(unknown)} are unknown: give --shape NAME=…"
        )

    check_budget(options, symbol, shapes, dtypes, proof=False)

    def described(names: list[str]) -> dict[str, Any]:
        return {name: jax.ShapeDtypeStruct(shapes[name], _dtype(dtypes[name])) for name in names}

    call = (described(symbol.list_arguments()), described(symbol.list_auxiliary_states()), jax.random.key(0))
    platform = None if options.platforms is None else exported_kind(options.platforms)
    compiled = lowering.compile(symbol, is_train=options.train, platform=platform)
    with working("exporting"):
        make_folder(options.out)
        if options.out.suffix == ".mlir" or options.to == "mlir":
            write_file(options.out, compiled.lower(*call).as_text(dialect="stablehlo"))
        else:
            compiled.export(options.out, *call, platforms=options.platforms)
    remarks = ["call(args, aux, key) -> (outputs, new_aux), with dicts by name:"]
    for label, arrays in zip(("args", "aux"), call[:2], strict=True):
        remarks += [f"  {label}[{name!r}]  {a.dtype.name} {format_shape(a.shape)}" for name, a in arrays.items()]
    return [options.out], remarks


def _onnx(options: argparse.Namespace, model: ModelFiles) -> tuple[list[Path], list[str]]:
    """Write the network at inference with its parameters; what has no array is an input."""
    model.keep(options.out)
    symbol = model.symbol()
    args, aux = model.params(symbol, complete=True)
    unknown = [n for n in inference_symbol(symbol).list_arguments() if n not in args and n not in dict(options.shape)]
    if unknown:
        raise InputError(
            f"The shape of the input {unknown[0]!r} is unknown: give --shape {unknown[0]}=batch,3,224,224."
        )
    onnx_model = to_onnx(
        *(symbol, args, aux),
        shapes=dict(options.shape),
        opset=options.opset,
        float16=options.float16,
        fold_batch_norm=options.fold_batch_norm,
    )
    with working("writing"):
        make_folder(options.out)
        files = save_onnx(options.out, onnx_model)
    sides = (("input", onnx_model.graph.input), ("output", onnx_model.graph.output))
    return files, [f"{side} {info.name}  {signature_of(info)}" for side, infos in sides for info in infos]


def _source(options: argparse.Namespace, model: ModelFiles) -> tuple[list[Path], list[str]]:
    """Write the network as plain JAX with its parameters, in a folder; in training with its labels."""
    whole = _loaded(model)
    unshaped = [name for name in whole.inputs if name not in dict(options.shape)]
    if options.train and unshaped:
        raise InputError(f"The shape of the input {unshaped[0]!r} is unknown: give --shape {unshaped[0]}=….")
    with working("writing"):
        return whole.to_jax_source(options.out, dict(options.shape)), []


def _program(options: argparse.Namespace, model: Model) -> tuple[list[Path], list[str]]:
    """Write the network with its parameters, as a function of its inputs."""
    if options.train or options.out.suffix == ".mlir" or options.to == "mlir":
        raise InputError("--weights is only for .stablehlo at inference: leave out --train or --weights.")
    make_folder(options.out)
    shapes, places = dict(options.shape), options.platforms
    with working("exporting"):
        exported = lowering.export_program(
            options.out,
            *model,
            shapes=shapes,
            weights=options.weights,
            platforms=places,
            this_machine=options.this_machine,
        )
    beside = options.weights == "beside"
    remarks = [f"call({'weights, ' if beside else ''}{', '.join(f'{name}=…' for name in shapes)}) -> outputs:"]
    remarks += [f"  {aval.dtype.name} {aval.shape}" for aval in exported.out_avals]
    return [options.out, *([options.out.with_suffix(".npz")] if beside else [])], remarks


def _arrays(row: FileFormat, options: argparse.Namespace, model: ModelFiles) -> tuple[list[Path], list[str]]:
    """Write an array file of a kind, and the network beside it."""
    path = options.out.with_suffix(row.suffixes[0])
    return _saved(model, path, 0, row.name), []


def _mxnet(options: argparse.Namespace, model: ModelFiles) -> tuple[list[Path], list[str]]:
    """Write MXNet 1.9.1's files, byte for byte as it would write them."""
    named = _MXNET_NAME.fullmatch(options.out.name)
    prefix = options.out.with_name(named["prefix"]) if named else options.out
    source = _MXNET_NAME.fullmatch(model.params_path.name) if model.params_path else None
    epoch = next((int(match["epoch"]) for match in (named, source) if match and match["epoch"]), 0)
    remarks = [] if model.params_path else ["there were no parameters to convert"]
    return _saved(model, prefix, epoch, MXNET.name), remarks


def _saved(model: ModelFiles, path: Path, epoch: int, format: str) -> list[Path]:
    make_folder(path)
    with working("writing"):
        return _loaded(model).save(path, epoch, format=format)


def _loaded(model: ModelFiles) -> Model:
    return Model(*model.load())


def _dtype(name: str | None) -> Any:
    return jax.numpy.dtype("float32" if name is None else name)


def _writers() -> dict[str, Callable[[argparse.Namespace, ModelFiles], tuple[list[Path], list[str]]]]:
    """Map format → the function that writes it, and returns the files and lines for the user."""
    programs = {suffix.removeprefix("."): _onnx if suffix == ".onnx" else _stablehlo for suffix in _PROGRAMS}
    files = {name: partial(_arrays, row) for name, row in FORMATS.items() if row.write is not None}
    return programs | files | {MXNET.name: _mxnet, _JAX: _source}
