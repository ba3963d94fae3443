"""ONNX forms of the operators that rearrange axes."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.shape import transpose as ops


@onnx_form("transpose", "_np_transpose", "_np_moveaxis")
def _transpose(
    g: Builder, p: ops.TransposeParams | ops.NumpyTransposeParams | ops.MoveaxisParams, data: Tensor
) -> Tensor:
    return g.transpose(data, ops.permutation(p, data.ndim))


@onnx_form("SwapAxis")
def _swap_axis(g: Builder, p: ops.SwapAxisParams, data: Tensor) -> Tensor:
    order = list(range(data.ndim))
    order[p.dim1], order[p.dim2] = order[p.dim2], order[p.dim1]
    return g.transpose(data, order)


@onnx_form("depth_to_space")
def _depth_to_space(g: Builder, p: ops.BlockParams, data: Tensor) -> Tensor:
    return g.op("DepthToSpace", data, blocksize=p.block_size, mode="DCR")


@onnx_form("space_to_depth")
def _space_to_depth(g: Builder, p: ops.BlockParams, data: Tensor) -> Tensor:
    return g.op("SpaceToDepth", data, blocksize=p.block_size)
