"""ONNX forms of delete and insert, of indices that are known when the file is written."""

from __future__ import annotations

import numpy as np

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form, refuses
from symjax_nnvm.onnx.ops.shape.arranged import arranged
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.indexing import insert as ops


def _numbered(g: Builder, p: ops.PlaceParams, arr: Tensor) -> np.ndarray:
    """Return the numbers of an array's elements from 1 on, in the shape that is edited."""
    flat, _ = ops.flat(p, g.static(arr))
    return np.arange(1, int(np.prod(g.static(arr))) + 1).reshape([dim or 0 for dim in flat])


@onnx_form("_npi_delete")
def _delete(g: Builder, p: ops.DeleteParams, arr: Tensor, *obj: Tensor) -> Tensor:
    if obj:
        g.refuse("the length of its result depends on values", "Give the indices as a number or a slice.")
    numbers = _numbered(g, p, arr)
    _, axis = ops.flat(p, numbers.shape)
    places = p.places(numbers.shape[axis], numbers.shape[axis] - 1)
    return arranged(g, g.reshape(arr, -1), np.delete(numbers, places, axis))


@onnx_form("_npi_insert_scalar", "_npi_insert_slice")
def _insert(g: Builder, p: ops.InsertParams, arr: Tensor, *values: Tensor) -> Tensor:
    old = _numbered(g, p, arr)
    new = g.cast(values[0], arr.dtype) if values else g.constant(p.val, arr.dtype)
    _, axis = ops.flat(p, old.shape)
    places = p.places(old.shape[axis], old.shape[axis])
    shape = g.static(new)
    numbers = np.arange(1, int(np.prod(shape)) + 1).reshape(shape) + old.size
    both = g.concat([g.reshape(arr, -1), g.reshape(new, -1)], 0)
    return arranged(g, both, np.insert(old, int(places) if not places.ndim else places, numbers, axis))


refuses(
    "_npi_insert_tensor",
    reason="the places of the new slices depend on values",
    fix="Give the indices as a number or a slice.",
)
