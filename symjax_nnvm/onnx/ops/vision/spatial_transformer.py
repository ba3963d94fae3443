"""ONNX forms of spatial transformers: sampling grids and bilinear sampling."""

from __future__ import annotations

import numpy as np

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.numbers import wide
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.vision import spatial_transformer as ops


def _affine(g: Builder, matrices: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return matrices (n, 6) times the target's positions: (n, 2, h, w)."""
    points = g.constant(ops.target_points(shape), matrices.dtype)
    return g.reshape(g.op("MatMul", g.reshape(matrices, -1, 2, 3), points), -1, 2, *shape)


@onnx_form("GridGenerator")
def _grid_generator(g: Builder, p: ops.GridGeneratorParams, data: Tensor) -> Tensor:
    if p.transform_type == "affine":
        return wide(g, lambda x: _affine(g, x, p.target_shape), data)
    h, w = g.static(data, [2, 3])[2:]
    pixels = np.stack(np.meshgrid(np.arange(w), np.arange(h)))
    half = np.asarray([(w - 1) / 2, (h - 1) / 2]).reshape(2, 1, 1)

    def function(x: Tensor) -> Tensor:
        moved = g.op("Div", g.op("Add", x, g.constant(pixels, x.dtype)), g.constant(half, x.dtype))
        return g.op("Sub", moved, 1.0)

    return wide(g, function, data)


def _sample(g: Builder, data: Tensor, grid: Tensor) -> Tensor:
    """Map data (n, c, h, w), grid (n, 2, y, x) → (n, c, y, x), with zeros around the data."""
    mode = "linear" if g.opset >= 20 else "bilinear"
    return g.op("GridSample", data, g.transpose(grid, (0, 2, 3, 1)), mode=mode, align_corners=1)


@onnx_form("BilinearSampler")
def _bilinear_sampler(g: Builder, p: ops.BilinearSamplerParams, data: Tensor, grid: Tensor) -> Tensor:
    return wide(g, lambda x, y: _sample(g, x, y), data, grid)


@onnx_form("SpatialTransformer")
def _spatial_transformer(g: Builder, p: ops.SpatialTransformerParams, data: Tensor, loc: Tensor) -> Tensor:
    return wide(g, lambda x, m: _sample(g, x, _affine(g, m, p.target_shape)), data, loc)
