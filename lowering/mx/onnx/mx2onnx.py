"""`mx.onnx.mx2onnx`: symbols with their parameters are written as ONNX files, by `symjax_nnvm.to_onnx`."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lowering.messages.counts import check_count
from lowering.mx.accepted_types import DType
from lowering.mx.gluon.block import Block
from lowering.mx.symbol import load
from symjax_nnvm.errors import CallError, plain_list
from symjax_nnvm.io.files import StrPath, path_text
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.op import Op, list_all_names
from symjax_nnvm.ir.types import DTYPE_CODES, dtype_name
from symjax_nnvm.mxnet.array_names import bare_name
from symjax_nnvm.mxnet.params_files import named_arrays
from symjax_nnvm.onnx import save_onnx, to_onnx
from symjax_nnvm.onnx.proto import import_onnx
from symjax_nnvm.onnx.writer import form_of
from symjax_nnvm.passes.infer import infer_shape
from symjax_nnvm.surgery import inference_symbol
from symjax_nnvm.symbol.symbol import Symbol

Params = Mapping[str, Any]


class NotAModelError(CallError, ValueError):
    """Something that is neither a network with its arrays nor the files of one. MXNet raises a ValueError."""


OpenShape = Sequence[int | str | None]
"""A shape in which names, and None, stand for sizes that run time decides."""


def export_model(
    sym: Symbol | StrPath,
    params: Params | Sequence[Params] | StrPath,
    in_shapes: Sequence[Sequence[int]] | None = None,
    in_types: Any = np.float32,
    onnx_file_path: StrPath = "model.onnx",
    verbose: bool = False,
    dynamic: bool = False,
    dynamic_input_shapes: Sequence[OpenShape] | None = None,
    run_shape_inference: bool = False,
    input_type: Any = None,
    input_shape: Sequence[Sequence[int]] | None = None,
) -> StrPath:
    """Write what a network computes from its data as an ONNX file, and return the file's path.

    Raises what `symjax_nnvm.to_onnx` raises.

    Args:
        sym: the symbol, or the path of its file.
        params: arrays by name, arguments and states in one dict or in a list of two; or the path of their file.
        in_shapes: the shapes of the variables without an array, in the symbol's order.
        in_types: a dtype, or one for each.
        onnx_file_path: the path of the file.
        verbose: log the inputs.
        dynamic: leave sizes of inputs open.
        dynamic_input_shapes: shapes with a name or None for an open size; None: all sizes that the network does not
            decide.
        run_shape_inference: write ONNX' own shapes of intermediate values as well.
        input_type: an older name of `in_types`.
        input_shape: an older name of `in_shapes`.

    Raises:
        NotAModelError: `sym` or `params` is none of these.
        CallError: shapes or dtypes do not fit the inputs.
    """
    in_types = in_types if input_type is None else input_type
    in_shapes = in_shapes if input_shape is None else input_shape
    path_text(onnx_file_path, "onnx_file_path")
    symbol = _symbol(sym)
    arrays = {bare_name(name): _numbers(name, array) for name, array in _arrays(params).items()}
    net = inference_symbol(symbol)
    names = [name for name in net.list_inputs() if name not in arrays]
    shapes = _by_name("in_shapes", in_shapes, names)
    types = in_types if isinstance(in_types, list) else [in_types] * len(names)
    dtypes = {name: _dtype(name, dtype) for name, dtype in _by_name("in_types", types, names).items()}
    if verbose:
        logging.info("Inputs: %s", plain_list([f"{name} {shapes[name]} {dtypes[name]}" for name in names]))
    if dynamic_input_shapes is not None and not dynamic:
        raise CallError("dynamic_input_shapes is given without dynamic", fix="export_model(..., dynamic=True)")
    if dynamic:
        all_open = [[None] * len(shape) for shape in shapes.values()] if dynamic_input_shapes is None else None
        open_shapes = _by_name("dynamic_input_shapes", all_open or dynamic_input_shapes, names)
        shapes = _with_names(net, arrays, shapes, open_shapes)
    model = to_onnx(symbol, arrays, shapes=shapes, dtypes=dtypes)
    if run_shape_inference:
        model = import_onnx().shape_inference.infer_shapes(model)
    save_onnx(onnx_file_path, model)
    logging.info("Input shape of the model %s ", in_shapes)
    logging.info("Exported ONNX file %s saved to disk", onnx_file_path)
    return onnx_file_path


def get_operator_support(opset_version: int | None = None) -> list[str]:
    """Return the names of the operators that an ONNX file can hold.

    Args:
        opset_version: the version of ONNX' operators; None for the latest of the installed package.

    Raises:
        MissingExtraError: the package onnx is not installed.
        CountError: the version is not a whole number above 0.
    """
    latest = import_onnx().defs.onnx_opset_version()
    version = latest if opset_version is None else check_count(opset_version, "opset_version")
    forms = {name: form_of(Op.get(name)) for name in list_all_names()}
    return sorted(name for name, form in forms.items() if form.form is not None and form.opset <= version)


def _symbol(sym: Symbol | StrPath) -> Symbol:
    if isinstance(sym, Symbol):
        return sym
    if isinstance(sym, str | os.PathLike):
        return load(path_text(sym, "sym"))
    raise NotAModelError(
        "sym of export_model must be a symbol, or the path of its file",
        got=type(sym).__name__,
        fix="Hybridise the block, call it once, and write both files: net.export('net'); "
        "export_model('net-symbol.json', 'net-0000.params', ...)."
        if isinstance(sym, Block)
        else None,
    )


def _arrays(params: Params | Sequence[Params] | StrPath) -> Params:
    if isinstance(params, str | os.PathLike):
        return named_arrays(path_text(params, "params"))
    parts = [params] if isinstance(params, Mapping) else params
    if not isinstance(parts, Sequence) or not all(isinstance(part, Mapping) for part in parts):
        raise NotAModelError(
            "params of export_model must be arrays by name, or the path of their file",
            expected="a dict, or a list of two: arg_params and aux_params",
            got=type(params).__name__,
        )
    return {name: array for part in parts for name, array in part.items()}


def _numbers(name: str, array: Any) -> np.ndarray:
    numbers = np.asarray(array)
    if numbers.dtype.name not in DTYPE_CODES:
        raise NotAModelError(f"params[{name!r}] must be an array of numbers", got=type(array).__name__)
    return numbers


def _dtype(name: str, dtype: DType) -> np.dtype:
    try:
        return np.dtype(dtype_name(np.float32 if dtype is None else dtype))
    except (TypeError, ValueError) as error:
        expected = "a dtype, such as in_types=np.float32"
        raise NotAModelError(f"in_types has no valid dtype for {name!r}", expected=expected, got=repr(dtype)) from error


def _by_name(parameter: str, values: Sequence[Any] | None, names: Sequence[str]) -> dict[str, Any]:
    """Return values by the names of the inputs. Raises CallError for more and for fewer of them."""
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != len(names):
        raise CallError(
            f"export_model needs one value in {parameter} for each input",
            expected=f"{len(names)}, for {plain_list(names)}: variables without an array in params",
            got=f"{parameter}={values!r:.80}",
        )
    return dict(zip(names, values, strict=True))


def _with_names(
    net: Symbol, arrays: Params, shapes: Mapping[str, Sequence[int]], open_shapes: Mapping[str, OpenShape]
) -> dict[str, list[int | str]]:
    """Return shapes with a name for each None, but a number where the network decides the size. Batches of one size
    have one name."""
    for name, sizes in open_shapes.items():
        if len(sizes) != len(shapes[name]):
            raise CallError(
                f"dynamic_input_shapes has the wrong number of axes for {name}", expected=shapes[name], got=sizes
            )
    unnamed = {n: tuple(size if isinstance(size, int) else None for size in sizes) for n, sizes in open_shapes.items()}
    graph = infer_shape(Graph(net.outputs), shapes={**{n: a.shape for n, a in arrays.items()}, **unnamed})
    index = graph.indexed_graph()
    decided = {index.nodes[nid].source.name: graph.attrs["shape"][index.entry_rptr[nid]] for nid in index.input_nodes}
    named: dict[str, list[int | str]] = {}
    for name, sizes in open_shapes.items():
        batch = f"batch_{shapes[name][0]}" if len({shape[0] for shape in shapes.values() if shape}) > 1 else "batch"
        own = [batch, *(f"{name}_{axis}" for axis in range(1, len(sizes)))]
        named[name] = [
            (decided_size or own[axis]) if size is None else size
            for axis, (size, decided_size) in enumerate(zip(sizes, decided[name] or unnamed[name], strict=True))
        ]
    return named
