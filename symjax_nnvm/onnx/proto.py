"""Tensors and nodes become ONNX' own messages, and those become files: the only place that needs `onnx`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from symjax_nnvm.errors import missing_extra
from symjax_nnvm.io.files import path_text, write_file
from symjax_nnvm.ir.types import DType
from symjax_nnvm.onnx.dimensions import Dimensions
from symjax_nnvm.onnx.tensors import OnnxBody, OnnxNode, Tensor, unique

if TYPE_CHECKING:
    import onnx

PRODUCER = "symjax-nnvm"

LARGEST = 2_000_000_000
"""Bytes of weights that a file may hold itself: one message of Protocol Buffers has less than 2 GiB."""

_DTYPES = {"float32": "FLOAT", "float64": "DOUBLE"}
"""Dtypes that ONNX calls otherwise; of the others it has the names, in capitals."""

_OF_DTYPES = frozenset({"to", "dtype"})
"""Attributes that name a dtype."""


def import_onnx() -> Any:
    """Return the module `onnx`. Raises MissingExtraError with the command that installs it."""
    try:
        import onnx
    except ImportError as error:
        raise missing_extra("ONNX files are made by the package onnx", "onnx") from error
    return onnx


def model_proto(
    nodes: Sequence[OnnxNode],
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    dimensions: Dimensions,
    opset: int,
    name: str,
) -> onnx.ModelProto:
    """Return the message of a whole network, checked by ONNX itself. Raises MissingExtraError."""
    onnx = import_onnx()
    helper = onnx.helper
    constants = {id(tensor): tensor for tensor in _read(nodes) if tensor.value is not None}
    _name(nodes)
    graph = helper.make_graph(
        [_node(onnx, node) for node in nodes],
        name,
        [_value_info(onnx, tensor, dimensions) for tensor in inputs],
        [_value_info(onnx, tensor, dimensions) for tensor in outputs],
        [onnx.numpy_helper.from_array(np.asarray(constant.value), constant.name) for constant in constants.values()],
    )
    versions = [helper.make_opsetid("", opset)]
    ir_version = helper.find_min_ir_version_for(versions)
    model = helper.make_model(graph, opset_imports=versions, ir_version=ir_version, producer_name=PRODUCER)
    if weight_bytes(model) < LARGEST:
        onnx.checker.check_model(model)
    return model


def evaluate(model: onnx.ModelProto) -> list[np.ndarray]:
    """Return the outputs of a model without inputs, by ONNX' own reference implementation: NumPy, and not fast."""
    from onnx.reference import ReferenceEvaluator

    outputs: Any = ReferenceEvaluator(model).run(None, {})
    return list(outputs)


def weight_bytes(model: onnx.ModelProto) -> int:
    """Return how many bytes the model's constants take."""
    return sum(len(tensor.raw_data) for tensor in model.graph.initializer)


def save_onnx(path: str | os.PathLike[str], model: onnx.ModelProto, *, external: bool | None = None) -> list[Path]:
    """Write an ONNX model to a file; weights of 2 GB and more go to a second file, `<name>.data`.

    Args:
        path: the file's path.
        model: the model.
        external: True writes the weights to the second file at any size, False never; None decides by size.

    Returns:
        The paths of the files.

    Raises:
        MissingExtraError: the package onnx is not installed.
        OSError: a file cannot be written.
    """
    path = Path(path_text(path))
    if external or (external is None and weight_bytes(model) >= LARGEST):
        beside = f"{path.name}.data"
        path.with_name(beside).unlink(missing_ok=True)  # onnx appends to what is there
        import_onnx().save_model(model, path, save_as_external_data=True, location=beside)
        import_onnx().external_data_helper.load_external_data_for_model(model, str(path.parent))  # it was emptied
        return [path, path.with_name(beside)]
    write_file(path, model.SerializeToString())
    return [path]


def signature_of(info: onnx.ValueInfoProto) -> str:
    """Return the dtype and shape of an input or output: `float32 (batch, 3, 224, 224)`."""
    onnx = import_onnx()
    tensor = info.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    sizes = [
        size.dim_param or (str(size.dim_value) if size.HasField("dim_value") else "?") for size in tensor.shape.dim
    ]
    return f"{dtype} ({', '.join(sizes)}{',' * (len(sizes) == 1)})"


def _read(nodes: Iterable[OnnxNode]) -> Iterator[Tensor]:
    """Yield the tensors that nodes read, those of bodies, too."""
    return (tensor for node in _all(nodes) for tensor in node.inputs if tensor is not None)


def _all(nodes: Iterable[OnnxNode]) -> Iterator[OnnxNode]:
    """Yield nodes, and those of bodies."""
    for node in nodes:
        yield node
        for value in node.attrs.values():
            if isinstance(value, OnnxBody):
                yield from _all(value.nodes)


def _name(nodes: Sequence[OnnxNode]) -> None:
    """Name nodes without a name after their first output, or like it if the network has such a node."""
    taken = {node.name: 0 for node in _all(nodes) if node.name}
    for node in _all(nodes):
        if not node.name:
            node.name = unique(node.outputs[0].name, taken)


def _node(onnx: Any, node: OnnxNode) -> onnx.NodeProto:
    return onnx.helper.make_node(
        node.kind,
        ["" if tensor is None else tensor.name for tensor in node.inputs],
        [tensor.name for tensor in node.outputs],
        name=node.name,
        **{key: _attribute(onnx, key, value) for key, value in node.attrs.items()},
    )


def _attribute(onnx: Any, key: str, value: Any) -> Any:
    match value:
        case str() if key in _OF_DTYPES:
            return _dtype(onnx, value)
        case OnnxBody():
            graph = [_node(onnx, node) for node in value.nodes]
            infos = [[_body_info(onnx, tensor) for tensor in tensors] for tensors in (value.inputs, value.outputs)]
            return onnx.helper.make_graph(graph, value.name, *infos)
        case np.ndarray():
            return onnx.numpy_helper.from_array(value)
    return value


def _body_info(onnx: Any, tensor: Tensor) -> onnx.ValueInfoProto:
    """Return a tensor of a body: its dtype and, where they are numbers, its sizes."""
    shape = list(tensor.shape) if tensor.shapes is not None else None
    return onnx.helper.make_tensor_value_info(tensor.name, _dtype(onnx, tensor.dtype), shape)


def _value_info(onnx: Any, tensor: Tensor, dimensions: Dimensions) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(tensor.name, _dtype(onnx, tensor.dtype), dimensions.shown(tensor))


def _dtype(onnx: Any, dtype: DType) -> int:
    return getattr(onnx.TensorProto, _DTYPES.get(dtype, dtype.upper()))
