"""Spatial transformers: grids of sampling positions, and bilinear sampling at them (Jaderberg et al., 2015)."""

from __future__ import annotations

from math import prod
from typing import Literal

import numpy as np

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Params, Tuple, param
from symjax_nnvm.ir.register import Entries, Shapes, float_type, register_op
from symjax_nnvm.ir.rules.costs import Flops, as_much_as
from symjax_nnvm.ir.rules.linear import gradient_as, linear
from symjax_nnvm.ir.rules.named_dims import read_dims, shapes_of
from symjax_nnvm.ir.rules.size_symbols import is_at_most

# -- GridGenerator ---------------------------------------------------------------------------------------------------


def _bad_target(shape: Tuple) -> str | None:
    """Why an affine grid cannot have this shape: -1 and 1 are the centres of the first and last row and column."""
    if len(shape) == 2 and min(shape) >= 2:
        return None
    return f"Parameter target_shape={shape}: expected two sizes (h, w), each at least 2"


class GridGeneratorParams(Params):
    transform_type: Literal["affine", "warp"] = param(
        doc="affine: data are matrices, one for each sample; warp: data are the optical flow in pixels"
    )
    target_shape: Tuple = param((0, 0), doc="affine only: height and width of the grid")

    def check(self) -> str | None:
        return _bad_target(self.target_shape) if self.transform_type == "affine" else None


def target_points(shape: Tuple) -> np.ndarray:
    """(3, h·w): x, y and 1 of every element of a target of shape (h, w); x and y run from -1 to 1."""
    y, x = np.meshgrid(*(np.linspace(-1, 1, size) for size in shape), indexing="ij")
    return np.stack([x.ravel(), y.ravel(), np.ones(x.size)])


def _grid_patterns(p: GridGeneratorParams) -> tuple[list[str], list[str]]:
    if p.transform_type == "affine":
        return ["n 6"], ["n 2 h w", "3 points"]
    return ["n 2 h w"], ["n 2 h w", "2 h w"]


def _grid_dims(p: GridGeneratorParams, patterns: list[str], shapes: Shapes):
    if p.transform_type == "affine":
        h, w = p.target_shape
        return read_dims(patterns, shapes, h=h, w=w, points=h * w)
    dims = read_dims(patterns, shapes)
    if not all(is_at_most(2, size) for size in (dims.get("h"), dims.get("w")) if size):
        problem = "A flow of one row or column has no scale: -1 and 1 are the centres of the first and last one"
        raise InferenceError(problem, input="data", expected="height and width of at least 2", got=1)
    return dims


def _grid_shapes(p: GridGeneratorParams, ins: Shapes, outs: Shapes):
    """Affine: data (n, 6) → (n, 2, h, w), grid_dst (3, h·w). Warp: data (n, 2, h, w) → as data, grid_dst (2, h, w)."""
    data, outputs = _grid_patterns(p)
    dims = _grid_dims(p, data + outputs, [*ins, *outs])
    return shapes_of(data, dims), shapes_of(outputs, dims)


def _grid_gradient_gradient(node: Node, ograds: Entries):
    """The gradient of `_backward_GridGenerator` by its head gradient: the transpose of a linear function.

    For affine grids, a matrix product, that is GridGenerator itself, which has no constant part; for flows, which are
    only scaled, it is the same operator again.
    """
    p: GridGeneratorParams = node.attrs.parsed
    op = "GridGenerator" if p.transform_type == "affine" else "_backward_GridGenerator"
    return [apply(op, ograds[0], **vars(p))]


register_op(
    "GridGenerator",
    params=GridGeneratorParams,
    inputs=("data",),
    outputs=("output", "grid_dst"),
    visible_outputs=1,
    infer_shape=_grid_shapes,
    infer_type=float_type,
    flops="the samples of a grid of any form",
    drawing="pooling",
    doc="Positions for BilinearSampler: x and y of every element of the target, -1 and 1 being the centres of the "
    "first and last column and row. Affine: the target's own positions (x, y, 1) times a 2 × 3 matrix; warp: moved by "
    "a flow. Works in every floating-point dtype, MXNet's in float32 only; a target of one row or column, which is NaN "
    "there, is an error.",
)
linear(
    "GridGenerator",
    of="data",
    adjoint="_backward_GridGenerator",
    inputs=("ograd",),
    gradient=_grid_gradient_gradient,
    doc="Gradient of GridGenerator: the head gradient summed up against the target's positions, or scaled.",
)

# -- BilinearSampler -------------------------------------------------------------------------------------------------


class BilinearSamplerParams(Params):
    cudnn_off: bool | None = param(None, doc="accepted and without effect")


class SlopeParams(Params):
    dx: bool = param(False, doc="differentiate the samples with respect to x")
    dy: bool = param(False, doc="differentiate the samples with respect to y")


def _sampler_shapes(p: BilinearSamplerParams | SlopeParams, ins: Shapes, outs: Shapes):
    """data (n, c, h, w), grid (n, 2, y, x) → (n, c, y, x), tmp (n, y, x, 2)."""
    inputs, outputs = ["n c h w", "n 2 y x"], ["n c y x", "n y x 2"][: len(outs)]
    dims = read_dims(inputs + outputs, [*ins, *outs])
    return shapes_of(inputs, dims), shapes_of(outputs, dims)


def _along_grid(weight: NodeEntry, data: NodeEntry, grid: NodeEntry, dx: bool, dy: bool) -> NodeEntry | None:
    """The gradient of the grid: the samples' slope in x and y, times weight (n, c, y, x), summed over channels.

    Samples are linear in x and in y: a second derivative is 0, the mixed one is not.
    """
    parts = [
        None if done else apply("_backward_BilinearSampler_slope", data, grid, dx=dx or not i, dy=dy or bool(i))
        for i, done in enumerate((dx, dy))
    ]
    sums = [part and apply("sum", apply("elemwise_mul", weight, part), axis=1, keepdims=True) for part in parts]
    like = next((part for part in sums if part), None)
    if like is None:
        return None
    return apply("Concat", *(part or apply("zeros_like", like) for part in sums), num_args=2, dim=1)


def _sampler_gradient(node: Node, ograds: Entries):
    """Sampling is the slopes' operator that differentiates by neither x nor y."""
    return gradient_as("_backward_BilinearSampler_slope", node.inputs, ograds[0], dx=False, dy=False)


register_op(
    "BilinearSampler",
    params=BilinearSamplerParams,
    inputs=("data", "grid"),
    outputs=("output", "tmp"),
    visible_outputs=1,
    infer_shape=_sampler_shapes,
    infer_type=float_type,
    gradient=_sampler_gradient,
    flops=lambda p, ins, outs: Flops(4 * prod(outs[0])),
    workspace=as_much_as("output", 4),
    drawing="pooling",
    doc="Data between their elements: at the positions of the grid (x, y), interpolated from the four elements around "
    "each; -1 and 1 are the centres of the first and last column and row, and outside all is 0.",
)
register_op(
    "_backward_BilinearSampler_slope",
    params=SlopeParams,
    inputs=("data", "grid"),
    infer_shape=_sampler_shapes,
    infer_type=float_type,
    doc="Derivatives of the samples with respect to the positions' x, y, or both.",
)
linear(
    "_backward_BilinearSampler_slope",
    of="data",
    adjoint="_backward_BilinearSampler_data",
    inputs=("ograd", "grid", "data"),
    others={"grid": lambda node, dy, at: _along_grid(dy, at["data"], at["grid"], **vars(node.attrs.parsed))},
    doc="The transpose of sampling, or of its derivatives: each head gradient, added to the elements it was sampled "
    "from with their weights.",
)

# -- SpatialTransformer ----------------------------------------------------------------------------------------------


class SpatialTransformerParams(Params):
    target_shape: Tuple = param((0, 0), doc="height and width of the output")
    transform_type: Literal["affine"] = param(doc="the meaning of loc: matrices, one for each sample")
    sampler_type: Literal["bilinear"] = param(doc="how samples are taken")
    cudnn_off: bool | None = param(None, doc="accepted and without effect")

    def check(self) -> str | None:
        return _bad_target(self.target_shape)


def _transformer_shapes(p: SpatialTransformerParams, ins: Shapes, outs: Shapes):
    """data (n, c, h, w), loc (n, 6) → (n, c, y, x), grid_dst (3, y·x), grid_src (n, 2, y·x)."""
    y, x = p.target_shape
    inputs, outputs = ["n c h w", "n 6"], ["n c y x", "3 points", "n 2 points"]
    dims = read_dims(inputs + outputs, [*ins, *outs], y=y, x=x, points=y * x)
    return shapes_of(inputs, dims), shapes_of(outputs, dims)


def _transformer_gradient(node: Node, ograds: Entries):
    """The gradient of BilinearSampler on GridGenerator's grid."""
    data, loc = node.inputs
    generator = {"transform_type": "affine", "target_shape": node.attrs.parsed.target_shape}
    grid = apply("GridGenerator", loc, **generator)
    of_data, of_grid = gradient_as("BilinearSampler", [data, grid], ograds[0])
    return [of_data, apply("_backward_GridGenerator", of_grid, **generator)]


register_op(
    "SpatialTransformer",
    params=SpatialTransformerParams,
    inputs=("data", "loc"),
    outputs=("output", "grid_dst", "grid_src"),
    visible_outputs=1,
    infer_shape=_transformer_shapes,
    infer_type=float_type,
    gradient=_transformer_gradient,
    flops="the samples of a grid of any form",
    drawing="pooling",
    doc="BilinearSampler on the grid that GridGenerator makes of the affine matrices loc (Spatial Transformer "
    "Networks, Jaderberg et al., 2015). A target of one row or column, which is NaN in MXNet, is an error.",
)
