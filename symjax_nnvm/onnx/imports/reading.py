"""An ONNX file, which a stranger may have made, is read to its message and its weights, and checked by ONNX itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from symjax_nnvm.errors import OnnxError, SymbolTypeError, printable
from symjax_nnvm.io.files import path_text, read_bounded
from symjax_nnvm.io.guess import require_file
from symjax_nnvm.onnx.imports.failures import OF_ONNX, first_line
from symjax_nnvm.onnx.imports.file_tensors import Weights
from symjax_nnvm.onnx.imports.local_functions import inlined, refuse_many
from symjax_nnvm.onnx.proto import LARGEST, import_onnx

if TYPE_CHECKING:
    import onnx

FIRST = 7
"""The first opset whose operators broadcast as they still do."""


def read_model(model: onnx.ModelProto | str | os.PathLike[str]) -> tuple[onnx.ModelProto, Weights]:
    """(message, its weights) of a file, or of a message given; functions are put in their places.

    Raises OnnxError for anything that is not an ONNX model, ModelNotFoundError, FileError, MissingExtraError, OSError.
    """
    onnx = import_onnx()
    if isinstance(model, onnx.ModelProto):
        message, path = onnx.ModelProto(), None
        message.CopyFrom(model)
    elif isinstance(model, str | os.PathLike):
        path = Path(path_text(model, "model"))
        require_file(path)
        message = _parsed(onnx, read_bounded(path, LARGEST, "an ONNX model", OnnxError), path)
    else:
        raise SymbolTypeError(
            "This is not an ONNX model", expected="an onnx.ModelProto or a path", got=type(model).__name__
        )
    weights = Weights(message, path)
    for info in message.graph.output:  # its shape is not read here, and runtimes do without
        info.type.tensor_type.shape.SetInParent()
    refuse_many(message)
    try:
        onnx.checker.check_model(message)
        if message.functions:
            message = inlined(message)
            onnx.checker.check_model(message)
    except (*OF_ONNX, onnx.checker.ValidationError, *_of_protobuf()) as error:
        raise OnnxError(f"{_what(path)} is malformed: {first_line(error)}") from error
    return message, weights


def opset_of(model: onnx.ModelProto) -> int:
    """The version of ONNX' operators in a model. Raises OnnxError for an unsupported one."""
    latest = import_onnx().defs.onnx_opset_version()
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
    if FIRST <= opset <= latest:
        return opset
    if opset > latest:
        fix = f"The installed package onnx knows opsets up to {latest}: pip install --upgrade onnx."
    else:
        fix = f"Convert the model first: onnx.version_converter.convert_version(model, {FIRST + 6})."
    raise OnnxError(f"Opset {opset} cannot be read: from {FIRST} to {latest} can. {fix}")


def defaults(node: onnx.NodeProto, opset: int) -> set[str]:
    """The attributes of a node that have the values which ONNX gives them where they are left out."""
    defs = import_onnx().defs
    try:
        schema = defs.get_schema(node.op_type, opset, node.domain)
    except defs.SchemaError:
        return set()
    usual = {name: attribute.default_value for name, attribute in schema.attributes.items()}
    return {attribute.name for attribute in node.attribute if attribute == usual.get(attribute.name)}


def _parsed(onnx: Any, data: bytes, path: Path) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (*OF_ONNX, *_of_protobuf()) as error:
        raise OnnxError(
            f"{printable(str(path))} is not an ONNX model, or only a part of one: {first_line(error)}"
        ) from error
    if not model.HasField("graph") or not model.opset_import:
        raise OnnxError(f"{printable(str(path))} is not an ONNX model: it has no graph.")
    return model


def _of_protobuf() -> tuple[type[Exception], ...]:
    """Return the errors of the package protobuf for messages that it cannot read or write."""
    from google.protobuf.message import Error

    return (Error,)


def _what(path: Path | None) -> str:
    return "The model" if path is None else printable(str(path))
