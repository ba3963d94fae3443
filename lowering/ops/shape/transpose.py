"""JAX rules of the operators that rearrange axes."""

from __future__ import annotations

from jax import Array

from lowering.core.rules import lowers
from symjax_nnvm.ops.shape import transpose as ops


@lowers("transpose", "_np_transpose", "_np_moveaxis")
def _transpose(p: ops.TransposeParams | ops.NumpyTransposeParams | ops.MoveaxisParams, data: Array) -> Array:
    return data.transpose(ops.permutation(p, data.ndim))


@lowers("SwapAxis")
def _swap_axis(p: ops.SwapAxisParams, data: Array) -> Array:
    return data.swapaxes(p.dim1, p.dim2)


@lowers("depth_to_space")
def _depth_to_space(p: ops.BlockParams, data: Array) -> Array:
    b, (n, c, h, w) = p.block_size, data.shape
    blocks = data.reshape(n, b, b, c // (b * b), h, w)
    return blocks.transpose(0, 3, 4, 1, 5, 2).reshape(n, c // (b * b), h * b, w * b)


@lowers("space_to_depth")
def _space_to_depth(p: ops.BlockParams, data: Array) -> Array:
    b, (n, c, h, w) = p.block_size, data.shape
    blocks = data.reshape(n, c, h // b, b, w // b, b)
    return blocks.transpose(0, 3, 5, 1, 2, 4).reshape(n, c * b * b, h // b, w // b)
