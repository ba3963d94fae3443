"""`from_onnx`: an ONNX model as a network and its parameters."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from symjax_nnvm.errors import OnnxError, SymbolValueError, close_or_all, printable
from symjax_nnvm.ir.types import DTYPE_CODES, MAX_RANK
from symjax_nnvm.onnx.dimensions import TRIED, second_numbers
from symjax_nnvm.onnx.imports.file_tensors import dtype_of
from symjax_nnvm.onnx.imports.file_values import Numbers
from symjax_nnvm.onnx.imports.reader import Params, Reader, without_form
from symjax_nnvm.onnx.imports.reading import opset_of, read_model
from symjax_nnvm.symbol.symbol import Symbol

if TYPE_CHECKING:
    import onnx

Shapes = Mapping[str, Sequence[int | str]]

_MOST = 40
"""Nodes in the way that one message lists."""


def from_onnx(
    model: onnx.ModelProto | str | os.PathLike[str], *, shapes: Shapes | None = None
) -> tuple[Symbol, Params, Params]:
    """Return the network of an ONNX model, for inference, further training or saving.

    Nodes, weights and inputs keep the file's names. Convolutions, normalisations, products, poolings and recurrences
    become MXNet's own operators; moving statistics become auxiliary states. Constants in the graph's nodes have
    `__lr_mult__` 0, so that training leaves them alone.

    Args:
        model: the model or the path of its file, opset 7 or later; external weights are read from the file's folder
            alone.
        shapes: shapes of inputs by name, such as `{"data": (1, 3, 224, 224)}`, where the file leaves dimensions open
            and a node needs the number. A dimension that stays open has a name, as in the file.

    Returns:
        The symbol, its arguments by name, its auxiliary states by name.

    Raises:
        OnnxError: the file is malformed, or nodes cannot be read; the message lists every such node with a reason and a
            way out.
        ModelNotFoundError: there is no such file.
        FileError: the path is not a regular file.
        OSError: the file cannot be read.
        SymbolValueError: a shape has a wrong value, or a name that the model does not have.
        SymbolTypeError: an argument has the wrong type.
        MissingExtraError: the package onnx is not installed.
    """
    message, weights = read_model(model)
    opset = opset_of(message)
    inputs = _inputs(message.graph, dict(shapes or {}))
    missing = list(without_form(message.graph, opset))
    fewest: list[OnnxError] | None = None
    for assignments in _assignments(inputs):
        reader = Reader(message.graph, opset, assignments, weights)
        reader.read()
        if not reader.refused and not missing:
            return reader.network()
        if fewest is None or len(reader.refused) < len(fewest):  # errors keep what was read alive: not those of all
            fewest = reader.refused
        if missing:
            break
    refused = [*missing, *(fewest or ())]
    raise _refusal(refused) from next((error.__cause__ for error in refused if error.__cause__ is not None), None)


def _inputs(graph: onnx.GraphProto, shapes: Shapes) -> dict[str, tuple[str, list[int | str]]]:
    """Map input → (dtype, sizes: numbers, and names of what is open). Raises OnnxError, SymbolValueError."""
    weights = {weight.name for weight in graph.initializer}
    infos = [entry for entry in graph.input if entry.name not in weights]  # old files list weights there, too
    names = {info.name: None for info in infos}
    for name in shapes:
        if name not in names:
            raise SymbolValueError(f"The model has no input {name!r}. {close_or_all(name, names, 'It has')}")
    inputs: dict[str, tuple[str, list[int | str]]] = {}
    for info in infos:
        tensor = info.type.tensor_type
        if not info.type.HasField("tensor_type") or not tensor.HasField("shape"):
            raise OnnxError(f"The input {printable(info.name)} is not a tensor, or its number of axes is unknown.")
        row = dtype_of(tensor.elem_type)
        dtype = f"number {tensor.elem_type}" if row is None else row.name
        if dtype not in DTYPE_CODES:
            raise OnnxError(f"The input {printable(info.name)} has the dtype {dtype}, which MXNet lacks.")
        if len(tensor.shape.dim) > MAX_RANK:
            raise OnnxError(f"The input {printable(info.name)} has {len(tensor.shape.dim)} axes, more than {MAX_RANK}.")
        sizes: list[int | str] = [
            size.dim_value if size.HasField("dim_value") else size.dim_param or f"{info.name}:{axis}"
            for axis, size in enumerate(tensor.shape.dim)
        ]
        inputs[info.name] = dtype, _input_sizes(info.name, sizes, shapes.get(info.name))
    return inputs


def _input_sizes(name: str, sizes: list[int | str], user_sizes: Sequence[int | str] | None) -> list[int | str]:
    """Return the sizes of an input from the file and from the user, who may give them, too."""
    if user_sizes is not None:
        fits = len(user_sizes) == len(sizes) and all(
            isinstance(size, str) or size == number for size, number in zip(sizes, user_sizes, strict=True)
        )
        if not fits:
            raise SymbolValueError(f"shapes: {name!r} is {tuple(sizes)} in the file, got {tuple(user_sizes)}.")
        sizes = list(user_sizes)
    if any(isinstance(size, int) and size < 1 for size in sizes):
        raise OnnxError(
            f"The input {printable(name)} has a dimension of {min(s for s in sizes if isinstance(s, int))}."
        )
    return sizes


def _assignments(
    inputs: Mapping[str, tuple[str, Sequence[int | str]]],
) -> Iterator[dict[str, tuple[str, list[Numbers]]]]:
    """Yield input → (dtype, shapes) for several numbers in place of each name: one set after the other."""
    names: dict[str, bool] = {}
    for _, sizes in inputs.values():
        for axis, size in enumerate(sizes):
            if isinstance(size, str):
                names[size] = names.get(size, False) or axis == 0
    second = second_numbers(len(names))
    rows = max((max(places) for places in second), default=-1) + 2
    for of_batches, of_others in TRIED if names else TRIED[:1]:
        columns: dict[str, Numbers] = {}
        for (name, batch), places in zip(names.items(), second, strict=True):
            low, high = of_batches if batch else of_others
            columns[name] = tuple(high if row - 1 in places else low for row in range(rows))
        yield {
            name: (dtype, [tuple(columns[s][i] if isinstance(s, str) else s for s in sizes) for i in range(rows)])
            for name, (dtype, sizes) in inputs.items()
        }


def _refusal(problems: Sequence[OnnxError]) -> OnnxError:
    lines = [str(problem) for problem in problems]
    more = [f"… and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    listed = "\n".join(f"  {line}" for line in [*lines[:_MOST], *more])
    return OnnxError(
        f"The ONNX model cannot be read: {len(lines)} of its nodes are not supported.\n{listed}\n"
        "Cut the model before them (onnx.utils.Extractor), or write it with other operators."
    )
