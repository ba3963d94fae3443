"""ONNX files as symbols with their arrays, by `symjax_nnvm.from_onnx`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowering.mx.ndarray.array import NDArray
from lowering.mx.ndarray.saved_arrays import as_ndarray
from lowering.mx.symbol.runnable import Symbol, as_symbol
from symjax_nnvm.io.files import StrPath
from symjax_nnvm.onnx import from_onnx
from symjax_nnvm.onnx.imports.reading import read_model

Arrays = dict[str, NDArray]


def import_model(
    model_file: StrPath, *, shapes: Mapping[str, Sequence[int]] | None = None
) -> tuple[Symbol, Arrays, Arrays]:
    """(symbol, arguments, auxiliary states) of an ONNX file, all under the file's names.

    shapes: the shapes of the inputs by name, where the file leaves sizes open that a node needs; MXNet has no such
    argument. Raises what `symjax_nnvm.from_onnx` raises.
    """
    symbol, args, aux = from_onnx(model_file, shapes=shapes)
    arg_params, aux_params = ({name: as_ndarray(array) for name, array in part.items()} for part in (args, aux))
    return as_symbol(symbol), arg_params, aux_params


def get_model_metadata(model_file: StrPath) -> dict[str, list[tuple[Any, ...]]]:
    """Return the inputs and outputs of a network: `input_tensor_data`, (name, shape, ONNX' number of the dtype) of
    each input that has no weight, and `output_tensor_data`, (name, shape); 0 stands for a size that is open.

    Raises OnnxError for anything that is not an ONNX model, ModelNotFoundError, FileError, MissingExtraError.
    """
    graph = read_model(model_file)[0].graph
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [info for info in graph.input if info.name not in weights]
    return {
        "input_tensor_data": [(info.name, _shape(info), info.type.tensor_type.elem_type) for info in inputs],
        "output_tensor_data": [(info.name, _shape(info)) for info in graph.output],
    }


def _shape(info: Any) -> tuple[int, ...]:
    return tuple(size.dim_value for size in info.type.tensor_type.shape.dim)
