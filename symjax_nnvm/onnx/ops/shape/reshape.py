"""ONNX forms of the operators that put the same elements in another shape, and of those that return shapes."""

from __future__ import annotations

from typing import Any

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import identity, onnx_form, onnx_table, refuses
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.shape import reshape
from symjax_nnvm.ops.shape import transpose as movement


@onnx_form("Reshape", "_np_reshape", "_npx_reshape", "reshape_like", "squeeze", "_np_squeeze")
def _reshape(g: Builder, p: Any, data: Tensor, like: Tensor | None = None) -> Tensor:
    return g.reshape_as(data, g.outs[0])


@onnx_form("expand_dims")
def _expand_dims(g: Builder, p: movement.ExpandDimsParams, data: Tensor) -> Tensor:
    return g.unsqueeze(data, p.axis % (data.ndim + 1))


onnx_table(
    {
        "Flatten": lambda g, data: g.op("Flatten", data, axis=1),
        "shape_array": lambda g, data: g.shape(data),
        "size_array": lambda g, data: g.reshape(g.op("Size", data, dtype="int64"), 1),
    }
)


@onnx_form(*reshape.AT_LEAST)
def _at_least(g: Builder, p: Any, *arrays: Tensor) -> list[Tensor]:
    return [g.reshape_as(array, out) for array, out in zip(arrays, g.outs, strict=True)]


onnx_form("_np_copy")(identity)
refuses(
    "_npi_share_memory",
    reason="the tensors of a file have no memory addresses",
    fix="Call it before the network is exported.",
)
