"""Inputs of a model: arrays from files, images, random numbers; and parameters, when none are given.

`NAME=SOURCE`: a `.npy` or `.npz` file, an image, `random`, or `zeros`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from lowering.cli.run_budget import add_max_memory, check_budget
from symjax_nnvm.cli.argument_types import SEED, finite
from symjax_nnvm.cli.console import note
from symjax_nnvm.cli.model_argument import add_model, add_shapes, all_shapes
from symjax_nnvm.errors import InferenceError, NNVMError, ParamsFormatError, did_you_mean, missing_extra, plain_list
from symjax_nnvm.inspect.roles import data_inputs
from symjax_nnvm.io.files import read_bounded
from symjax_nnvm.io.formats import array_suffixes
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.types import format_shape, is_float, is_known
from symjax_nnvm.mxnet.array_names import bare_name
from symjax_nnvm.mxnet.model_files import ModelFiles
from symjax_nnvm.mxnet.params_files import load_arrays
from symjax_nnvm.passes.infer import infer_shape, infer_type
from symjax_nnvm.symbol.call_arguments import known_shapes
from symjax_nnvm.symbol.symbol import Symbol

Arrays = dict[str, Any]
Given = tuple[Arrays, Arrays]
"""(arguments, auxiliary states)"""

_IMAGES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
_MAX_IMAGE = 1 << 28


class InputError(NNVMError, ValueError):
    """Reports an input that is missing, unknown, or cannot be made."""


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: MODEL, its inputs, and the options for images."""
    add_model(parser)
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="NAME=SOURCE",
        help="what to feed in: x.npy, x.npz, an image, random or zeros; the name may be left out when there is one "
        "input. Labels are zeros unless given",
    )
    add_shapes(parser)
    add_max_memory(parser)
    parser.add_argument(
        "--seed", type=SEED, default=0, help="seed of random inputs and of the network's random numbers"
    )
    parser.add_argument("--random-params", action="store_true", help="make parameters up when there are none")
    images = parser.add_argument_group("images", "RGB, 0 to 255, times --scale, minus --mean, divided by --std")
    images.add_argument("--scale", type=finite, default=1.0, help="factor, such as 0.00392157 for 0 to 1")
    images.add_argument("--mean", type=_numbers, default=(0.0,), metavar="R,G,B", help="subtracted, after --scale")
    images.add_argument("--std", type=_divisors, default=(1.0,), metavar="R,G,B", help="divided by")
    images.add_argument("--bgr", action="store_true", help="channels as blue, green, red; --mean and --std too")
    images.add_argument("--stretch", action="store_true", help="change the aspect ratio instead of cropping the centre")


def gather(options: argparse.Namespace, model: ModelFiles, symbol: Symbol, *, proof: bool = False) -> Given:
    """Gather all arrays that the network takes: the model's parameters, and the inputs of the command line.

    proof: they are for a proof of gradients, which takes more memory. Nothing is made before the run is known to fit.
    Raises LoweringError where it does not, InputError, ParamsFormatError, InferenceError, OSError.
    """
    args, aux = model.params(symbol, complete=True)
    named = _named(options.inputs, _inputs(symbol, options, args))
    rng = np.random.default_rng(options.seed)
    arrays = {name: _array(name, Path(source)) for name, source in named.items() if _is_array_file(source)}
    shapes, dtypes = signature(symbol, all_shapes(options, symbol, args, aux, arrays), args | aux)
    check_budget(options, symbol, shapes, dtypes, proof=proof)
    arguments, states = symbol.list_arguments(), symbol.list_auxiliary_states()
    if not args and not options.random_params and set(arguments) - _inputs(symbol, options, args):
        raise InputError(f"{model.symbol_path} has no parameters beside it: give --params, or --random-params.")
    gathered: Arrays = {}
    for name in (*arguments, *states):
        source = named.get(name)
        if name in arrays:
            gathered[name] = _as_inferred(arrays[name], dtypes.get(name))
        elif name in args or name in aux:
            gathered[name] = args[name] if name in args else aux[name]
        elif source is not None or name.endswith("label") or options.random_params:
            gathered[name] = _make_array(name, source, _fixed_shape(name, shapes), dtypes.get(name), rng, options)
        else:
            raise InputError(f"Input {name!r} is missing: give {name}=FILE, or {name}=random with --shape {name}=….")
    zeros = [n for n in arguments if n.endswith("label") and n not in named and n not in args]
    if zeros:
        note(f"not given, zeros: {', '.join(zeros)}")
    return {n: gathered[n] for n in arguments}, {n: gathered[n] for n in states}


def signature(symbol: Symbol, shapes: Mapping[str, Sequence[int]], arrays: Mapping[str, Any]) -> tuple[dict, dict]:
    """Return (shapes, dtypes) of all variables by name, as far as they can be inferred. Raises InferenceError."""
    graph = infer_shape(Graph(symbol.outputs), shapes=known_shapes(shapes))
    names = set(symbol.list_inputs())
    graph = infer_type(graph, dtypes={name: str(a.dtype) for name, a in arrays.items() if name in names})
    index = graph.indexed_graph()
    entries = {index.nodes[nid].source.name: index.entry_rptr[nid] for nid in index.input_nodes}
    facts = ({name: graph.attrs[what][entry] for name, entry in entries.items()} for what in ("shape", "dtype"))
    return next(facts), next(facts)


def _inputs(symbol: Symbol, options: argparse.Namespace, args: Arrays) -> set[str]:
    """Return names of the arguments that are not parameters."""
    return data_inputs(symbol, dict(options.shape), args or None)


def _named(texts: Sequence[str], inputs: set[str]) -> dict[str, str]:
    """Return sources by the input's name, which may be left out where there is one input that is not a label."""
    main = [name for name in inputs if not name.endswith("label")]
    there = f"inputs are {plain_list(sorted(inputs))}"
    named: dict[str, str] = {}
    for text in texts:
        name, shape_text, source = text.partition("=")
        if not shape_text:
            if len(main) != 1:
                raise InputError(f"{text!r} needs the name of its input: write NAME={text}; {there}.")
            name, source = main[0], text
        if name not in inputs:
            fix = did_you_mean(name, inputs)
            raise InputError(f"The model has no input {name!r}; {there}. {fix}".rstrip())
        named[name] = source
    return named


def _fixed_shape(name: str, shapes: Mapping[str, Any]) -> tuple[int, ...]:
    shape = shapes[name]
    if not is_known(shape):
        raise InputError(f"The shape of {name!r} is not known, {format_shape(shape)}: give --shape {name}=….")
    return shape


def _is_array_file(source: str) -> bool:
    return source.lower().endswith(array_suffixes())


def _array(name: str, path: Path) -> np.ndarray:
    """Return the array of a file: the only one, or the one of the input's name."""
    arrays = load_arrays(path)
    pairs = [(f"arr_{i}", array) for i, array in enumerate(arrays)] if isinstance(arrays, list) else arrays.items()
    by_name = {bare_name(key): array for key, array in pairs}
    chosen = by_name.get(name) if len(by_name) != 1 else next(iter(by_name.values()))
    if chosen is None:
        raise ParamsFormatError(f"{path} holds no array {name!r}; it has {plain_list(by_name)}.")
    return np.asarray(chosen)


def _as_inferred(array: np.ndarray, dtype: str | None) -> np.ndarray:
    """Return the array in the dtype that the graph computes in, which NumPy's own float64 and uint8 seldom are."""
    return array if dtype in (None, "bfloat16") else array.astype(dtype, copy=False)


def _make_array(
    name: str,
    source: str | None,
    shape: tuple[int, ...],
    dtype: str | None,
    rng: np.random.Generator,
    options: argparse.Namespace,
) -> np.ndarray:
    """Return an array that no file of arrays has."""
    dtype = "float32" if dtype in (None, "bfloat16") else dtype
    if source is None and not name.endswith("label"):
        return _parameter(name, shape, rng).astype(dtype)
    match source:
        case None | "zeros":
            return np.zeros(shape, dtype)
        case "random":
            return rng.standard_normal(shape).astype(dtype) if is_float(dtype) else rng.integers(0, 2, shape, dtype)
    if not source.lower().endswith(_IMAGES):
        others = [suffix for suffix in array_suffixes() if suffix not in (".npy", ".npz")]
        raise InputError(
            f"{name}={source}: expected random, zeros, an array (.npy, .npz) or an image ({', '.join(_IMAGES)}), or "
            f"another file of arrays ({', '.join(others)})."
        )
    return _image(Path(source), shape, options).astype(dtype)


def _parameter(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Return a made-up parameter of any name and rank, where MXNet's initialisers would refuse some: by the ends of
    MXNet's names, else random with the variance that keeps values in bounds."""
    if name.endswith(("gamma", "var")):
        return np.ones(shape)
    if name.endswith(("beta", "bias", "mean")):
        return np.zeros(shape)
    return rng.standard_normal(shape) / np.sqrt(max(1, int(np.prod(shape[1:]))) if len(shape) > 1 else 10.0)


def _image(path: Path, shape: tuple[int, ...], options: argparse.Namespace) -> np.ndarray:
    """Return an image as (1, channels, height, width), or with channels last, whichever the shape is."""
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError:
        raise missing_extra("Images need Pillow", "image") from None
    if len(shape) != 4 or shape[0] != 1 or not {shape[1], shape[3]} & {1, 3}:
        raise InferenceError(f"{path}: an image fits a shape (1, 3, h, w) or (1, h, w, 3), not {format_shape(shape)}.")
    first = shape[1] in (1, 3)
    channels, height, width = shape[1:] if first else (shape[3], shape[1], shape[2])
    for option, numbers in (("--mean", options.mean), ("--std", options.std)):
        if len(numbers) not in (1, channels):
            expected = "one number" if channels == 1 else f"one number, or {channels}"
            raise InputError(f"{option} has {len(numbers)} numbers for {channels} channels: give {expected}.")
    try:
        with Image.open(BytesIO(read_bounded(path, _MAX_IMAGE, "an image"))) as opened:
            image = opened.convert("RGB" if channels == 3 else "L")
    except UnidentifiedImageError:
        raise InputError(f"{path} cannot be read as an image: Pillow does not support its format.") from None
    except Image.DecompressionBombError as error:
        raise InputError(f"{path} cannot be read as an image: {error}.") from None
    if options.stretch:
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    else:
        image = ImageOps.fit(image, (width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(image, np.float32).reshape(height, width, channels)
    if options.bgr:
        pixels = pixels[..., ::-1]
    pixels = (pixels * options.scale - np.asarray(options.mean)) / np.asarray(options.std)
    return (pixels.transpose(2, 0, 1) if first else pixels)[None]


def _numbers(text: str) -> tuple[float, ...]:
    """Return `1,2,3` as numbers: one for all channels, or one for each."""
    try:
        return tuple(finite(number) for number in text.split(","))
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text[:80]!r} is not a list of numbers; write for example 123.7,116.8,103.9"
        ) from None


def _divisors(text: str) -> tuple[float, ...]:
    """Return numbers that are not 0."""
    numbers = _numbers(text)
    if 0 in numbers:
        raise argparse.ArgumentTypeError(f"--std cannot be 0, got {text[:80]!r}")
    return numbers
