"""JAX rules of convolution and of its two gradients: one XLA convolution each, or the algorithm that was chosen
(`lowering/convolutions/ops/algorithms.py`).

The three differ in what plays the window. With the output's step s, dilation d and padding p of an axis: the data
gradient moves the turned weight over the head gradient spread s apart; the weight gradient moves the head gradient,
its elements s apart, over the data in steps of d.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.convolutions import directions, pointwise
from lowering.convolutions.applicable import XLA, geometry_of
from lowering.convolutions.depthwise_rows import by_rows
from lowering.convolutions.geometry import Geometry
from lowering.convolutions.grouped import Shifts
from lowering.convolutions.products import contract
from lowering.core.rules import ByPart, lowers
from symjax_nnvm.ops.nn import convolution as ops

Pairs = list[tuple[int, int]]


def _specs(p: ops.ConvolutionGeometry) -> tuple[int, ...]:
    """Return the axes of data as (batch, channels, spatial axes…); the weight has filters for the batch."""
    return (0, p.channel_axis, *p.spatial_axes)


def _strides(p: ops.ConvolutionGeometry) -> list[int]:
    return [stride for _, stride, _, _ in p.steps]


def _dilations(p: ops.ConvolutionGeometry) -> list[int]:
    return [dilation for _, _, dilation, _ in p.steps]


def _swapped(spec: tuple[int, ...]) -> tuple[int, ...]:
    """Return a specification with its first two roles exchanged."""
    return (spec[1], spec[0], *spec[2:])


def _spread(size: int, stride: int) -> int:
    """Return the extent of `size` elements a stride apart."""
    return (size - 1) * stride + 1


def with_bias(p: ops.ConvolutionGeometry, out: Array, bias: Array | None) -> Array:
    """An output with the bias of its channels, if there is one."""
    return out if bias is None else out + lax.broadcast_in_dim(bias, out.shape, (p.channel_axis,))


def _shifts(p: ops.ConvolutionGeometry) -> Shifts:
    """Return the convolution as shifted products."""
    pads = tuple(pad for *_, pad in p.steps)
    strides, dilations = tuple(_strides(p)), tuple(_dilations(p))
    return Shifts(p.num_group, p.channel_axis, p.spatial_axes, p.kernel, strides, dilations, before=pads, after=pads)


def _geometry(p: ops.ConvolutionGeometry, shape: Sequence[int], dtype: np.dtype) -> Geometry:
    """Return the geometry of the convolution of data of this shape, for algorithms that take channels last."""
    return geometry_of(p, [shape[axis] for axis in (0, *p.spatial_axes, p.channel_axis)], dtype.name)


def _last(p: ops.ConvolutionGeometry, array: Array) -> Array:
    """Return data, or what has its order, with channels last."""
    return jnp.moveaxis(array, p.channel_axis, -1)


def _weight_last(p: ops.ConvolutionGeometry, weight: Array) -> Array:
    """Return a weight as (window…, c / g, f)."""
    return jnp.moveaxis(weight, (p.channel_axis, 0), (-2, -1))


def _flat(array: Array) -> Array:
    """Return samples, or filters, as rows."""
    return array.reshape(array.shape[0], -1)


def _one_place(p: ops.ConvolutionGeometry, rows: Array) -> Array:
    """Return rows (n, f) as an output of one place."""
    return jnp.expand_dims(rows, p.spatial_axes)


def _matrix(weight: Array) -> Array:
    """Return a weight (f, c, 1, …) as (f, c)."""
    return weight.reshape(weight.shape[:2])


@lowers("Convolution", needs=("algorithm",), by_part=ByPart((0,)))
def convolution(
    p: ops.ConvolutionParams, data: Array, weight: Array, bias: Array | None = None, *, algorithm: str
) -> Array:
    return with_bias(p, convolve(p, data, weight, algorithm), bias)


def convolve(p: ops.ConvolutionGeometry, data: Array, weight: Array, algorithm: str) -> Array:
    """The convolution without bias."""
    if algorithm == "product":
        return pointwise.forward(data, _matrix(weight))
    if algorithm == "whole":
        return _one_place(p, contract(_flat(data), _flat(weight), 1, 1))
    if algorithm == "shifts":
        sizes = [
            (data.shape[axis] + 2 * pad - kernel) // stride + 1
            for axis, (kernel, stride, _, pad) in zip(p.spatial_axes, p.steps, strict=True)
        ]
        return _shifts(p).convolve(data, weight, sizes)
    if algorithm != XLA:
        geometry = _geometry(p, data.shape, data.dtype)
        out = directions.forward(_last(p, data), _weight_last(p, weight), geometry, algorithm)
        return jnp.moveaxis(out, -1, p.channel_axis)
    spec = _specs(p)
    return lax.conv_general_dilated(
        data,
        weight,
        window_strides=_strides(p),
        padding=[(pad, pad) for *_, pad in p.steps],
        rhs_dilation=_dilations(p),
        dimension_numbers=lax.ConvDimensionNumbers(spec, spec, spec),
        feature_group_count=p.num_group,
    )


@lowers("_backward_Convolution_data", needs=("algorithm",), by_part=ByPart((0, 2)))
def _data_gradient(p: ops.ConvolutionGeometry, ograd: Array, weight: Array, data: Array, *, algorithm: str) -> Array:
    return data_gradient(p, ograd, weight, data.shape, algorithm)


def data_gradient(
    p: ops.ConvolutionGeometry, ograd: Array, weight: Array, shape: Sequence[int], algorithm: str
) -> Array:
    """The gradient of data of a shape, whose convolution has the head gradient ograd."""
    if algorithm == "product":
        return pointwise.data_gradient(ograd, _matrix(weight))
    if algorithm == "whole":
        return contract(_flat(ograd), _flat(weight), 1, 0).reshape(shape)
    if algorithm not in (XLA, "shifts"):
        geometry = _geometry(p, shape, ograd.dtype)
        out = directions.data_gradient(_last(p, ograd), _weight_last(p, weight), geometry, algorithm)
        return jnp.moveaxis(out, -1, p.channel_axis)
    spec = _specs(p)
    padding: Pairs = []
    for axis, (kernel, stride, _, pad) in zip(p.spatial_axes, p.steps, strict=True):
        before = kernel - 1 - pad
        padding.append((before, shape[axis] + pad - _spread(ograd.shape[axis], stride)))
    if algorithm == "shifts":
        shifts = _shifts(p)
        config = [(0, 0, 0)] * ograd.ndim
        for axis, (low, high), stride in zip(p.spatial_axes, padding, _strides(p), strict=True):
            config[axis] = (low, high, stride - 1)
        spread = lax.pad(ograd, np.zeros((), ograd.dtype), config)
        sizes = [shape[axis] for axis in p.spatial_axes]
        return shifts.over_padded().convolve(spread, shifts.transposed(weight), sizes)
    return lax.conv_general_dilated(
        ograd,
        _filters_to_channels(lax.rev(weight, p.spatial_axes), p),
        window_strides=[1] * len(p.kernel),
        padding=padding,
        lhs_dilation=_strides(p),
        rhs_dilation=_dilations(p),
        dimension_numbers=lax.ConvDimensionNumbers(spec, _swapped(spec), spec),
        feature_group_count=p.num_group,
    )


def _filters_to_channels(weight: Array, p: ops.ConvolutionGeometry) -> Array:
    """Map (g f, c, …) → (f, g c, …): the groups, which share out the filters, share out the channels instead."""
    if p.num_group == 1:
        return weight
    groups, axis = p.num_group, p.channel_axis
    shape = weight.shape
    split = weight.reshape(groups, shape[0] // groups, *shape[1:])
    # The group axis moves right before the channels, which it then merges with.
    order = [*range(1, axis + 1), 0, *range(axis + 1, len(shape) + 1)]
    merged = (shape[0] // groups, *shape[1:axis], groups * shape[axis], *shape[axis + 1 :])
    return split.transpose(order).reshape(merged)


@lowers("_backward_Convolution_weight", needs=("algorithm",), by_part=ByPart((0, 1), summed=True))
def weight_gradient(p: ops.ConvolutionGeometry, ograd: Array, data: Array, *, algorithm: str) -> Array:
    """The gradient of the weight with which the convolution of data has the head gradient ograd."""
    if algorithm == "product":
        gradient = pointwise.weight_gradient(ograd, data)
        return gradient.reshape(*gradient.shape, *p.kernel)
    if algorithm == "whole":
        return contract(_flat(ograd), _flat(data), 0, 0).reshape(-1, *data.shape[1:])
    if algorithm == "rows":
        return jnp.expand_dims(jnp.moveaxis(by_rows(ograd, data, _shifts(p)), -1, 0), p.channel_axis)
    if algorithm == "shifts":
        return _shifts(p).weight_gradient(data, ograd)
    if algorithm != XLA:
        geometry = _geometry(p, data.shape, data.dtype)
        gradient = directions.weight_gradient(_last(p, ograd), _last(p, data), geometry, algorithm)
        return jnp.moveaxis(gradient, (-2, -1), (p.channel_axis, 0))
    spec = _swapped(_specs(p))
    padding: Pairs = []
    for axis, (kernel, stride, _, pad) in zip(p.spatial_axes, p.steps, strict=True):
        padding.append((pad, _spread(ograd.shape[axis], stride) + kernel - 1 - data.shape[axis] - pad))
    return lax.conv_general_dilated(
        data,
        ograd,
        window_strides=_dilations(p),
        padding=padding,
        rhs_dilation=_strides(p),
        dimension_numbers=lax.ConvDimensionNumbers(spec, spec, spec),
        batch_group_count=p.num_group,
    )
