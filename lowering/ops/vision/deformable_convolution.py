"""JAX rules of deformable convolution: bilinear samples as columns, and one matrix product."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.ops.nn.convolution import with_bias
from lowering.ops.vision.sampling import Border, Taps, sample, spread, taps
from lowering.ops.wide import wide
from symjax_nnvm.ops.vision import deformable_convolution as ops

_BORDERS = {"last": Border(0, 0, closed=False), "zero": Border(-1, 0, closed=False, zeros=True)}


def _places(p: ops.ColumnsParams, offset: Array, data: tuple[int, ...]) -> tuple[Array, Taps, Taps]:
    """Return the places that windows read in data (n, c, h, w): numbers of maps, and taps in y and in x (n, groups,
    window, h', w')."""
    n, _, *counts = offset.shape
    groups = p.num_deformable_group
    offsets = wide(offset).reshape(n, groups, *p.kernel, 2, *counts)
    all_taps: list[Taps] = []
    for axis, (count, step) in enumerate(zip(counts, p.steps, strict=True)):
        _, stride, dilation, pad = step
        # Places of the window's elements without offsets, in the axes (kernel of y, of x, windows of y, of x).
        shape = [1, 1, 1, 1]
        shape[axis], shape[2 + axis] = p.kernel[axis], count
        windows = lax.iota(np.int32, count) * stride  # NumPy makes no range of an open size
        regular = np.arange(p.kernel[axis], dtype=np.int32)[:, None] * dilation + windows - pad
        coordinate = offsets[:, :, :, :, axis] + regular.reshape(shape).astype(offsets.dtype)
        coordinate = coordinate.reshape(n, groups, -1, *counts)
        all_taps.append(taps(coordinate, data[2 + axis], _BORDERS[p.border], p.order[axis]))
    maps = lax.iota(np.int32, n * groups).reshape(n, groups, 1, 1, 1)
    in_y, in_x = all_taps
    return maps, in_y, in_x


def _maps(p: ops.ColumnsParams, data: Array) -> Array:
    """Map (n, c, h, w) → one map for each image and group of channels (n · groups, h, w, c / groups)."""
    n, c, h, w = data.shape
    groups = p.num_deformable_group
    return data.reshape(n * groups, c // groups, h, w).transpose(0, 2, 3, 1)


@lowers("_backward_DeformableConvolution_columns")
def columns(p: ops.ColumnsParams, data: Array, offset: Array) -> Array:
    """The elements that the windows read: (n, c · window, h', w')."""
    n, c = data.shape[:2]
    read = sample(_maps(p, data), *_places(p, offset, data.shape))  # (n, groups, window, h', w', c / groups)
    return read.transpose(0, 1, 5, 2, 3, 4).reshape(n, c * p.window_size, *offset.shape[2:]).astype(data.dtype)


@lowers("_backward_DeformableConvolution_data")
def _data_gradient(p: ops.ColumnsParams, columns: Array, offset: Array, data: Array) -> Array:
    n, c, h, w = data.shape
    groups = p.num_deformable_group
    read = columns.reshape(n, groups, c // groups, p.window_size, *offset.shape[2:]).transpose(0, 1, 3, 4, 5, 2)
    zeros = jnp.zeros((n * groups, h, w, c // groups), wide(columns).dtype)
    maps = spread(read, zeros, *_places(p, offset, data.shape))
    return maps.transpose(0, 3, 1, 2).reshape(data.shape).astype(data.dtype)


def _multiply(p: ops.AnyParams, read: Array, weight: Array, bias: Array | None) -> Array:
    """Return columns (n, c · window, h', w') times the weight of each group, plus the bias."""
    n, rows, *counts = read.shape
    groups = p.num_group
    by_group = read.reshape(n, groups, rows // groups, -1)
    out = jnp.einsum("gfr,ngrp->ngfp", weight.reshape(groups, p.num_filter // groups, -1), by_group)
    return with_bias(p, out.reshape(n, p.num_filter, *counts), bias)


@lowers("_contrib_DeformableConvolution")
def _deformable_convolution(
    p: ops.DeformableConvolutionParams, data: Array, offset: Array, weight: Array, bias: Array | None = None
) -> Array:
    return _multiply(p, columns(ops.columns_params(p, "last"), data, offset), weight, bias)


@lowers("_contrib_ModulatedDeformableConvolution")
def _modulated_deformable_convolution(
    p: ops.ModulatedDeformableConvolutionParams,
    data: Array,
    offset: Array,
    mask: Array,
    weight: Array,
    bias: Array | None = None,
) -> Array:
    window = ops.columns_params(p, "zero")
    read = columns(window, data, offset)
    n, groups = data.shape[0], p.num_deformable_group
    apart = read.reshape(n, groups, -1, window.window_size, *mask.shape[2:])
    masked = apart * mask.reshape(n, groups, 1, window.window_size, *mask.shape[2:])
    return _multiply(p, masked.reshape(read.shape), weight, bias)
