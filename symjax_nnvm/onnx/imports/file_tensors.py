"""The tensors of an ONNX file: one walk that finds them wherever the file has one, and their arrays.

Checking and reading share the walk. It takes every large tensor, and every one whose numbers are in another file, out
of the message: what is left is small and refers to no file. Another file is mapped: tensors that share it share memory.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from symjax_nnvm.errors import FileError, ModelNotFoundError, OnnxError, printable
from symjax_nnvm.io.files import map_file, open_regular
from symjax_nnvm.ir.types import DTYPE_CODES, MAX_RANK
from symjax_nnvm.onnx.imports.failures import OF_ONNX, first_line
from symjax_nnvm.onnx.proto import import_onnx

if TYPE_CHECKING:
    import onnx

_KEPT = 256
"""Elements of a tensor, fewer than which it stays in the message."""

_PLACE = "array"
"""The key under which a tensor that was taken out has the number of its array."""


class Weights:
    """The arrays of a model's tensors, which the model has no more.

    model: is changed. path: of its file; None for a message, which no other file belongs to. Raises OnnxError for a
    tensor that is stored elsewhere than in the model's folder and for one that is malformed; FileError, OSError.
    """

    def __init__(self, model: onnx.ModelProto, path: Path | None):
        self._onnx = import_onnx()
        self._path = path
        self._arrays: list[np.ndarray] = []
        self._files: dict[tuple[int, int], np.ndarray] = {}  # by device and number: a file may have many names
        self._numbers: dict[str, tuple[int, int]] = {}
        self._read: dict[tuple[int, int], int] = {}
        self._inside = 0
        for tensor, sparse in tensors_of(model):
            self._take(tensor, sparse)

    @property
    def size(self) -> int:
        """Bytes of all arrays; those of another file are counted once, however many tensors name them."""
        return self._inside + sum(min(count, self._files[file].size) for file, count in self._read.items())

    def array_of(self, tensor: onnx.TensorProto) -> np.ndarray:
        """The array of a tensor. Raises OnnxError for one that is malformed, and for a dtype that MXNet lacks."""
        for entry in tensor.external_data:
            if entry.key == _PLACE:
                return self._arrays[int(entry.value)]
        return self._decoded(tensor)

    def attributes(self, node: onnx.NodeProto) -> dict[str, Any]:
        """The attributes of a node: numbers, text, lists, arrays, graphs. Raises OnnxError."""
        attributes: dict[str, Any] = {}
        for attribute in node.attribute:
            try:
                value = self._onnx.helper.get_attribute_value(attribute)
                attributes[attribute.name] = value.decode() if isinstance(value, bytes) else value
            except OF_ONNX as error:
                raise OnnxError(
                    f"The attribute {printable(attribute.name)} is malformed: {first_line(error)}"
                ) from error
            if isinstance(value, list) and value and isinstance(value[0], bytes):
                attributes[attribute.name] = [text.decode(errors="replace") for text in value]
            elif isinstance(value, self._onnx.TensorProto):
                attributes[attribute.name] = self.array_of(attribute.t)
        return attributes

    def _take(self, tensor: onnx.TensorProto, sparse: bool) -> None:
        """Take a tensor out of the message, unless it is small, or malformed, which the message's check reports."""
        if tensor.data_location == self._onnx.TensorProto.EXTERNAL:
            if sparse:
                raise OnnxError("The model has sparse weights, which are not read.")
            array = self._beside(tensor)
        else:
            del tensor.external_data[:]
            dims = list(tensor.dims)
            if sparse or len(dims) > MAX_RANK or min(dims, default=1) < 1 or math.prod(dims) < _KEPT:
                return
            try:
                array = self._decoded(tensor)
            except OnnxError:
                return
            self._inside += array.nbytes
        reference = self._onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=[0])
        reference.external_data.add(key=_PLACE, value=str(len(self._arrays)))
        tensor.CopyFrom(reference)
        self._arrays.append(array)

    def _decoded(self, tensor: onnx.TensorProto) -> np.ndarray:
        if tensor.data_location == self._onnx.TensorProto.EXTERNAL:  # onnx would read it from the current folder
            raise OnnxError(f"The tensor {printable(tensor.name)} is stored in another file.")
        if min(tensor.dims, default=0) < 0:  # which NumPy and old versions of onnx take for what is left
            raise OnnxError(f"The tensor {printable(tensor.name)} is malformed: its shape is {list(tensor.dims)[:65]}.")
        try:
            array = self._onnx.numpy_helper.to_array(tensor)
        except OF_ONNX as error:
            raise OnnxError(f"The tensor {printable(tensor.name)} is malformed: {first_line(error)}") from error
        return _of_mxnets_dtype(tensor, array.dtype, array)

    def _beside(self, tensor: onnx.TensorProto) -> np.ndarray:
        """Return the array of a tensor whose numbers are in a file in the model's own folder, or below it: a view of
        the file."""
        shown = printable(tensor.name)
        if self._path is None:
            raise OnnxError(f"The weights of {shown} are in a file beside the model. Give the path of the model.")
        where: Mapping[str, str] = {entry.key: entry.value for entry in tensor.external_data}
        _refuse_bytes(*where, *where.values())
        name, dims = where.get("location", ""), tuple(tensor.dims)
        dtype = dtype_of(tensor.data_type)
        if dtype is None:
            raise OnnxError(f"The weights of {shown} are malformed: there is no dtype {tensor.data_type}.")
        _of_mxnets_dtype(tensor, dtype)
        if len(dims) > MAX_RANK or min(dims, default=0) < 0:
            raise OnnxError(f"The weights of {shown} are malformed: no array has the shape {dims[: MAX_RANK + 1]}.")
        count = math.prod(dims) * dtype.itemsize
        offset = _number(where.get("offset") or "0", shown)
        length = _number(where.get("length") or str(count), shown)
        file = self._opened(name, shown)
        data = self._files[file]
        if length != count or offset + length > data.size:
            raise OnnxError(
                f"The weights of {shown} are malformed: {count} bytes are wanted, {length} from {offset} of "
                f"{printable(name)} are given, which has {data.size}."
            )
        self._read[file] = self._read.get(file, 0) + count
        return data[offset : offset + count].view(dtype).reshape(dims)

    def _opened(self, name: str, shown: str) -> tuple[int, int]:
        """Map a file in the model's folder."""
        if name not in self._numbers:
            assert self._path is not None
            folder = Path(os.path.realpath(self._path)).parent
            target = folder if "\0" in name or not name else Path(os.path.realpath(folder / name))
            if folder not in target.parents:
                raise OnnxError(
                    f"The weights of {shown} are in {printable(name)!r}, outside of the model's folder. "
                    "Only files beside the model are read."
                )
            try:
                with open_regular(target) as file:
                    status = os.fstat(file.fileno())
                    number = status.st_dev, status.st_ino
                    if number not in self._files:
                        self._files[number] = np.frombuffer(map_file(file) if status.st_size else b"", np.uint8)
            except FileNotFoundError as error:
                raise ModelNotFoundError(f"The weights of {shown} are in {target}, which does not exist.") from error
            except OSError as error:
                if isinstance(error, FileError):
                    raise
                raise FileError(f"{target} cannot be read: {error}") from error
            self._numbers[name] = number
        return self._numbers[name]


def tensors_of(message: Any) -> Iterator[tuple[onnx.TensorProto, bool]]:
    """Every tensor inside a message, in any field, and whether it is a part of a sparse one.

    Raises OnnxError for text on the way that is not UTF-8, which protobuf gives as bytes.
    """
    onnx = import_onnx()
    waiting = [(message, False)]
    while waiting:
        part, sparse = waiting.pop()
        if isinstance(part, onnx.TensorProto):
            _refuse_bytes(part.name, part.doc_string)
            yield part, sparse
            continue
        sparse = isinstance(part, onnx.SparseTensorProto)
        for field, value in part.ListFields():
            children = [value] if isinstance(value, str | bytes) or hasattr(value, "DESCRIPTOR") else value
            if field.message_type:
                waiting.extend((child, sparse) for child in children)
            elif field.type == field.TYPE_STRING:
                _refuse_bytes(*children)


def _refuse_bytes(*texts: Any) -> None:
    for text in texts:
        if isinstance(text, bytes):
            raise OnnxError(f"The model has a name or text that is not UTF-8: {text[:80]!r}.")


def dtype_of(number: int) -> np.dtype | None:
    """The dtype that ONNX gives a number; None where it gives none."""
    try:
        return import_onnx().helper.tensor_dtype_to_np_dtype(number)
    except KeyError:
        return None


def _of_mxnets_dtype(tensor: onnx.TensorProto, dtype: np.dtype, array: Any = None) -> Any:
    if dtype.name not in DTYPE_CODES:
        raise OnnxError(f"The tensor {printable(tensor.name)} has the dtype {dtype.name}, which MXNet lacks.")
    return array


def _number(text: str, shown: str) -> int:
    """Return a text as a number of bytes. Raises OnnxError if it is not a number of fewer than 20 digits."""
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise OnnxError(f"The weights of {shown} are malformed: {printable(text[:40])!r} is not a number of bytes.")
    return int(text)
