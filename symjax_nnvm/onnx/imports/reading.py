"""From an ONNX file, which a stranger may have made, to its message with all weights in it, checked by ONNX itself."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from symjax_nnvm.errors import OnnxError, SymbolTypeError, printable
from symjax_nnvm.files import PositionedFile, read_bounded
from symjax_nnvm.ir.types import DTYPE_CODES
from symjax_nnvm.onnx.imports.constants import FAILURES
from symjax_nnvm.onnx.proto import LARGEST, import_onnx
from symjax_nnvm.recognise import require_file

if TYPE_CHECKING:
    import onnx

FIRST = 7
"""The first opset whose operators broadcast as they still do."""


def read_model(model: onnx.ModelProto | str | os.PathLike[str]) -> onnx.ModelProto:
    """The message of a file, or a message given, with weights that lie beside it, functions put in their places.

    Raises OnnxError for what is no ONNX model, ModelNotFoundError, FileError, MissingExtraError, OSError.
    """
    onnx = import_onnx()
    if isinstance(model, onnx.ModelProto):
        made, path = onnx.ModelProto(), None
        made.CopyFrom(model)
    elif isinstance(model, str | os.PathLike):
        path = Path(os.fsdecode(model))
        require_file(path)
        made = _parsed(onnx, read_bounded(path, LARGEST, "an ONNX model", OnnxError), path)
    else:
        raise SymbolTypeError("No ONNX model", expected="an onnx.ModelProto or a path", got=type(model).__name__)
    try:
        _load_beside(made, path)
        for info in made.graph.output:  # its shape, which nobody reads here, runtimes do without
            info.type.tensor_type.shape.SetInParent()
        if sum(len(each.raw_data) for each in made.graph.initializer) < LARGEST:
            onnx.checker.check_model(made)
        if made.functions:
            made = onnx.inliner.inline_local_functions(made)
    except (*FAILURES, onnx.checker.ValidationError) as error:
        raise OnnxError(f"{_what(path)} is malformed: {_told(error)}") from error
    return made


def opset_of(model: onnx.ModelProto) -> int:
    """The version of ONNX' operators that a model says. Raises OnnxError for one that is not read."""
    latest = import_onnx().defs.onnx_opset_version()
    opset = next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), 0)
    if FIRST <= opset <= latest:
        return opset
    if opset > latest:
        fix = f"The installed package onnx knows opsets up to {latest}: pip install --upgrade onnx."
    else:
        fix = f"Convert the model first: onnx.version_converter.convert_version(model, {FIRST + 6})."
    raise OnnxError(f"Opset {opset} cannot be read: from {FIRST} to {latest} can. {fix}")


def array_of(tensor: onnx.TensorProto) -> np.ndarray:
    """The array of a tensor. Raises OnnxError for one that is malformed, and for a dtype that MXNet has not."""
    onnx = import_onnx()
    try:
        array = onnx.numpy_helper.to_array(tensor)
    except FAILURES as error:
        raise OnnxError(f"The tensor {printable(tensor.name)} is malformed: {_told(error)}") from error
    if array.dtype.name not in DTYPE_CODES:
        raise OnnxError(f"The tensor {printable(tensor.name)} has the dtype {array.dtype.name}, which MXNet has not.")
    return array


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes of a node: numbers, text, lists, arrays, graphs. Raises OnnxError."""
    onnx = import_onnx()
    found: dict[str, Any] = {}
    for each in node.attribute:
        try:
            value = onnx.helper.get_attribute_value(each)
            found[each.name] = value.decode() if isinstance(value, bytes) else value
        except FAILURES as error:
            raise OnnxError(f"The attribute {printable(each.name)} is malformed: {_told(error)}") from error
        if isinstance(value, list) and value and isinstance(value[0], bytes):
            found[each.name] = [text.decode(errors="replace") for text in value]
        elif isinstance(value, onnx.TensorProto):
            found[each.name] = array_of(each.t)
    return found


def defaults(node: onnx.NodeProto, opset: int) -> set[str]:
    """The attributes of a node that have the values which ONNX gives them where they are left out."""
    defs = import_onnx().defs
    try:
        schema = defs.get_schema(node.op_type, opset)
    except defs.SchemaError:
        return set()
    usual = {name: each.default_value for name, each in schema.attributes.items()}
    return {each.name for each in node.attribute if each == usual.get(each.name)}


def _parsed(onnx: Any, data: bytes, path: Path) -> onnx.ModelProto:
    from google.protobuf.message import DecodeError

    made = onnx.ModelProto()
    try:
        made.ParseFromString(data)
    except (DecodeError, *FAILURES) as error:
        raise OnnxError(f"{printable(str(path))} is no ONNX model, or a part of one: {_told(error)}") from error
    if not made.HasField("graph") or not made.opset_import:
        raise OnnxError(f"{printable(str(path))} is no ONNX model: it has no graph.")
    return made


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """The constants of a graph, those in its nodes, too."""
    yield from graph.initializer
    for node in graph.node:
        for each in node.attribute:
            yield from (each.t, *each.tensors)
            for inner in (each.g, *each.graphs):
                if inner.node:
                    yield from _tensors(inner)


def _load_beside(model: onnx.ModelProto, path: Path | None) -> None:
    """Bring in the weights that lie in files beside the model's. Raises OnnxError, FileError, OSError."""
    external = import_onnx().TensorProto.EXTERNAL
    for tensor in _tensors(model.graph):
        if tensor.data_location != external:
            continue
        if path is None:
            raise OnnxError(
                f"The weights of {printable(tensor.name)} lie in a file beside the model. Give the path of the model."
            )
        tensor.raw_data = _external(tensor, path)
        del tensor.external_data[:]
        tensor.ClearField("data_location")


def _external(tensor: onnx.TensorProto, path: Path) -> bytes:
    """The bytes of a tensor, from a file in the model's own folder, or below it."""
    onnx = import_onnx()
    where: Mapping[str, str] = {each.key: each.value for each in tensor.external_data}
    folder, name = Path(os.path.realpath(path)).parent, where.get("location", "")
    target = Path(os.path.realpath(folder / name))
    if not name or "\0" in name or folder not in target.parents:
        raise OnnxError(
            f"The weights of {printable(tensor.name)} lie in {printable(name)!r}, outside of the model's folder. "
            "Only files beside the model are read."
        )
    file = PositionedFile(target)
    size = file.size
    width = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    count = width
    for dim in tensor.dims:
        count *= max(int(dim), 0)
    offset, length = int(where.get("offset") or 0), int(where.get("length") or count)
    if length != count or offset < 0 or offset + length > size:
        raise OnnxError(
            f"The weights of {printable(tensor.name)} are malformed: {count} bytes are wanted, {length} from {offset} "
            f"of {printable(name)} are given, which has {size}."
        )
    data = file.read(offset, length)
    file.close()
    return data


def _what(path: Path | None) -> str:
    return "The model" if path is None else printable(str(path))


def _told(error: BaseException) -> str:
    """The first line of what the package onnx says."""
    return printable(next(iter(str(error).strip().splitlines()), type(error).__name__)[:300])
