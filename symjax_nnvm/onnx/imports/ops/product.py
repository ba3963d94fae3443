"""ONNX' matrix products: fully connected layers where a factor is a weight."""

from __future__ import annotations

from functools import partial, reduce

import numpy as np

from symjax_nnvm.ir.types import is_float
from symjax_nnvm.onnx.imports.composer import Composer
from symjax_nnvm.onnx.imports.file_values import Value
from symjax_nnvm.onnx.imports.import_registry import onnx_import
from symjax_nnvm.onnx.imports.ops.arithmetic import add, mul
from symjax_nnvm.onnx.imports.ops.casts_and_shapes import broadcast, need_float, reshape, scaled, transpose


@onnx_import("Gemm")
def _gemm(g: Composer, a: Value, b: Value, c: Value | None = None) -> Value:
    """Return α A B + β C."""
    need_float(g, a)
    alpha, beta = float(g.attr("alpha", 1.0)), float(g.attr("beta", 1.0))
    a = transpose(g, a, (1, 0)) if g.attr("transA", 0) else a
    if b.array is None:
        product = scaled(g, g.op("dot", a, b, transpose_b=bool(g.attr("transB", 0))), alpha)
        return product if c is None or beta == 0 else add(g, product, scaled(g, c, beta))
    weight = b.array if g.attr("transB", 0) else b.array.T
    hidden = weight.shape[0]
    bias = None if c is None or c.array is None or beta == 0 else _bias(g, c, c.array, hidden, beta)
    if alpha != 1:
        g.reserve(*weight.shape, dtype=b.dtype)
        weight = weight * np.asarray(alpha, weight.dtype)
    if weight is not b.array:
        b = g.weight(b, weight, f"fc{alpha:g}")
    operands = [a, b] if bias is None else [a, b, bias]
    product = g.op("FullyConnected", *operands, num_hidden=hidden, no_bias=bias is None)
    return product if bias is not None or c is None or beta == 0 else add(g, product, scaled(g, c, beta))


def _bias(g: Composer, c: Value, array: np.ndarray, hidden: int, beta: float) -> Value | None:
    """Return a summand as the vector of a bias; None where it is none."""
    if array.size not in (1, hidden) or (array.ndim == 2 and array.shape[0] != 1):
        return None
    if array.shape == (hidden,) and beta == 1:
        return c
    g.reserve(hidden, dtype=c.dtype)
    vector = np.broadcast_to(array.reshape(-1), (hidden,)) * np.asarray(beta, array.dtype)
    return g.weight(c, vector.astype(array.dtype), f"bias{beta:g}")


@onnx_import("MatMul")
def matmul(g: Composer, a: Value, b: Value) -> Value:
    """A product of floats; one with a constant matrix is a fully connected layer."""
    if not is_float(a.dtype):
        g.refuse(f"it computes with {a.dtype}, but MXNet's products only with floating-point numbers")
    if b.array is not None and b.ndim == 2 and a.ndim > 1:
        weight = g.weight(b, b.array.T, "fc1")
        return g.op("FullyConnected", a, weight, num_hidden=b.array.shape[1], no_bias=True, flatten=False)
    if a.ndim == 1 or b.ndim == 1:
        return _vectors(g, a, b)
    if b.ndim == 2:
        return g.op("dot", a, b)
    lead = [np.broadcast_shapes(x[:-2], y[:-2]) for x, y in zip(a.shapes, b.shapes, strict=True)]
    a, b = (broadcast(g, x, [(*s, *x_shape[-2:]) for s, x_shape in zip(lead, x.shapes, strict=True)]) for x in (a, b))
    return g.op("batch_dot" if a.ndim == 3 else "_linalg_gemm2", a, b)


def _vectors(g: Composer, a: Value, b: Value) -> Value:
    """A vector is a row before a matrix, a column after one; the axis is removed from the result."""
    rows = reshape(g, a, [(1, *shape) for shape in a.shapes]) if a.ndim == 1 else a
    columns = reshape(g, b, [(*shape, 1) for shape in b.shapes]) if b.ndim == 1 else b
    product = matmul(g, rows, columns)
    shapes = []
    for shape in product.shapes:
        sizes = shape[:-1] if b.ndim == 1 else shape
        shapes.append((*sizes[:-2], sizes[-1]) if a.ndim == 1 and b.ndim > 1 else sizes[:-1] if a.ndim == 1 else sizes)
    return reshape(g, product, shapes)


@onnx_import("Einsum")
def _einsum(g: Composer, *operands: Value) -> Value:
    """Numbers without axes, which are (1,) in the network, are factors of the rest."""
    inputs, arrow, output = "".join(str(g.attr("equation", "")).split()).partition("->")
    arrays = [(term, x) for term, x in zip(inputs.split(","), operands, strict=False) if x.ndim]
    numbers = [x for x in operands if not x.ndim]
    if not arrays:
        return reduce(partial(mul, g), numbers)
    subscripts = ",".join(term for term, _ in arrays) + arrow + output
    product = g.op("_npi_einsum", *(x for _, x in arrays), num_args=len(arrays), subscripts=subscripts)
    if not product.ndim:
        product = reshape(g, g.op("_np_reshape", product, newshape=(1,)), [() for _ in product.shapes])
    return reduce(partial(mul, g), numbers, product)
