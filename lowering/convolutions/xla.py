"""XLA's own convolution, channels last: it computes every geometry."""

from __future__ import annotations

from jax import Array, lax

from lowering.convolutions.geometry import Geometry
from lowering.convolutions.phases import swapped

__all__ = ["data_gradient", "forward", "weight_gradient"]


def _last(rank: int) -> tuple[int, ...]:
    """Return axes of data as (batch, channels, spatial axes…)."""
    return (0, rank + 1, *range(1, rank + 1))


def _weight(rank: int) -> tuple[int, ...]:
    """Return axes of the weight (*kernel, c, f) as (f, c, spatial axes…)."""
    return (rank + 1, rank, *range(rank))


def forward(data: Array, weight: Array, g: Geometry) -> Array:
    """Map data (n, *size, c), weight (*kernel, c / g, f) → (n, *out_size, f)."""
    rank = len(g.kernel)
    return lax.conv_general_dilated(
        data,
        weight,
        window_strides=g.stride,
        padding=[(pad, pad) for pad in g.pad],
        rhs_dilation=g.dilate,
        dimension_numbers=lax.ConvDimensionNumbers(_last(rank), _weight(rank), _last(rank)),
        feature_group_count=g.groups,
    )


def data_gradient(ograd: Array, weight: Array, g: Geometry) -> Array:
    """Map head gradient (n, *out_size, f), weight → (n, *size, c): the turned weight over spread elements."""
    rank = len(g.kernel)
    padding = []
    for size, out, k, s, d, pad in zip(g.size, g.out_size, g.kernel, g.stride, g.dilate, g.pad, strict=True):
        padding.append((d * (k - 1) - pad, size + pad - ((out - 1) * s + 1)))
    return lax.conv_general_dilated(
        ograd,
        swapped(lax.rev(weight, range(rank)), g.groups),
        window_strides=[1] * rank,
        padding=padding,
        lhs_dilation=g.stride,
        rhs_dilation=g.dilate,
        dimension_numbers=lax.ConvDimensionNumbers(_last(rank), _weight(rank), _last(rank)),
        feature_group_count=g.groups,
    )


def weight_gradient(ograd: Array, data: Array, g: Geometry) -> Array:
    """Map head gradient (n, *out_size, f), data (n, *size, c) → (*kernel, c / g, f): samples play the channels."""
    rank = len(g.kernel)
    padding = []
    for size, out, k, s, d, pad in zip(g.size, g.out_size, g.kernel, g.stride, g.dilate, g.pad, strict=True):
        padding.append((pad, (out - 1) * s + 1 + d * (k - 1) - size - pad))
    spatial = tuple(range(1, rank + 1))
    return lax.conv_general_dilated(
        data,
        ograd,
        window_strides=g.dilate,
        padding=padding,
        rhs_dilation=g.stride,
        dimension_numbers=lax.ConvDimensionNumbers((rank + 1, 0, *spatial), (rank + 1, 0, *spatial), _out(rank)),
        batch_group_count=g.groups,
    )


def _out(rank: int) -> tuple[int, ...]:
    """Return axes of the weight's gradient as (c, f, spatial axes…)."""
    return (rank, rank + 1, *range(rank))
