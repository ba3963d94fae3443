"""Convolutions by windows: `windows` slices out the data under each place of the window, and products sum them up."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.convolutions.geometry import Geometry
from lowering.convolutions.products import contract, row_product

__all__ = ["im2col", "im2col_weight", "product", "product_data", "product_weight"]


def windows(data: Array, g: Geometry) -> Iterator[Array]:
    """Yield for each place of the window, row by row, the elements (n, *out_size, c) of data that all windows have
    there."""
    config = [(0, 0, 0), *((pad, pad, 0) for pad in g.pad), (0, 0, 0)]
    padded = lax.pad(data, np.zeros((), data.dtype), config)
    for place in itertools.product(*map(range, g.kernel)):
        starts = [i * d for i, d in zip(place, g.dilate, strict=True)]
        limits = [i + (size - 1) * s + 1 for i, size, s in zip(starts, g.out_size, g.stride, strict=True)]
        shape = (data.shape[0], *limits, data.shape[-1])
        yield lax.slice(padded, (0, *starts, 0), shape, (1, *g.stride, 1))


def _rows(array: Array) -> Array:
    """Map (n, *size, c) → (n · size, c)."""
    return array.reshape(-1, array.shape[-1])


def _patches(data: Array, g: Geometry) -> Array:
    """Give (n · out_size, kernel · c): a row for each window; of groups (groups, n · out_size, kernel · c / groups)."""
    if g.groups == 1:
        return _rows(lax.concatenate(list(windows(data, g)), data.ndim - 1))
    beside = jnp.stack([_grouped(part, g) for part in windows(data, g)], 2)
    return beside.reshape(g.groups, beside.shape[1], -1)


def _grouped(array: Array, g: Geometry) -> Array:
    """Map (n, *size, c) → (groups, n · size, c / groups)."""
    return jnp.moveaxis(array.reshape(-1, g.groups, array.shape[-1] // g.groups), 1, 0)


def _out(rows: Array, g: Geometry) -> Array:
    return rows.reshape(-1, *g.out_size, g.filters)


def im2col(data: Array, weight: Array, g: Geometry) -> Array:
    """Return one product of all windows, laid side by side, with the weight; of each group one."""
    if g.groups == 1:
        return _out(contract(_patches(data, g), weight.reshape(-1, g.filters), 1, 0), g)
    factors = _grouped(weight, g)
    return _out(jnp.moveaxis(contract(_patches(data, g), factors, 2, 1), 0, 1), g)


def im2col_weight(ograd: Array, data: Array, g: Geometry) -> Array:
    """Return one product of all windows with the head gradient; of each group one."""
    if g.groups == 1:
        gradient = row_product(_patches(data, g), _rows(ograd))
    else:
        gradient = jnp.moveaxis(contract(_patches(data, g), _grouped(ograd, g), 1, 1), 0, 1)
    return gradient.reshape(*g.kernel, -1, g.filters)


# -- windows of one element ------------------------------------------------------------------------------------------


def _filters_first(weight: Array, g: Geometry) -> Array:
    """Return (f, c), as files have it: the transposition that made the weight of such an array is undone, and XLA
    computes neither."""
    return weight.transpose(weight.ndim - 1, weight.ndim - 2, *range(weight.ndim - 2)).reshape(g.filters, g.channels)


def product(data: Array, weight: Array, g: Geometry) -> Array:
    """Return the convolution of a 1×1 window: the product of the data at multiples of the stride with the weight."""
    (strided,) = windows(data, g)
    return _out(contract(_rows(strided), _filters_first(weight, g), 1, 1), g)


def product_data(ograd: Array, weight: Array, g: Geometry) -> Array:
    """Return the product of the head gradient with the weight, spread to where the stride took data from."""
    rows = contract(_rows(ograd), _filters_first(weight, g), 1, 0)
    products = rows.reshape(-1, *g.out_size, g.channels)
    axes = zip(g.size, g.out_size, g.stride, strict=True)
    config = [(0, 0, 0), *((0, size - (out - 1) * s - 1, s - 1) for size, out, s in axes), (0, 0, 0)]
    return lax.pad(products, np.zeros((), products.dtype), config)


def product_weight(ograd: Array, data: Array, g: Geometry) -> Array:
    """Return the product of the head gradient with what the stride leaves of data. The one of fewer channels comes
    first, in which order it takes up to half the time.

    With the head gradient laid on its side before, a product by itself is up to a quarter faster, but a step is slower:
    XLA computes what the head gradient is made of once more on the way, against the order of memory."""
    (strided,) = windows(data, g)
    if g.filters > g.channels:
        return row_product(_rows(strided), _rows(ograd)).reshape(*g.kernel, g.channels, g.filters)
    gradient = row_product(_rows(ograd), _rows(strided))
    return gradient.reshape(*g.kernel, g.filters, g.channels).swapaxes(-1, -2)


def whole(data: Array, weight: Array, g: Geometry) -> Array:
    """Return the product of samples with the weight, whose one window is all of the data."""
    return contract(_flat(data), weight.reshape(-1, g.filters), 1, 0).reshape(-1, *g.out_size, g.filters)


def whole_data(ograd: Array, weight: Array, g: Geometry) -> Array:
    """Return the product of the head gradient with the same weight. XLA's convolution would multiply with the zeros
    around the head gradient: for a window of 7×7, 49 times as often."""
    return contract(_flat(ograd), weight.reshape(-1, g.filters), 1, 1).reshape(-1, *g.size, g.channels)


def whole_weight(ograd: Array, data: Array, g: Geometry) -> Array:
    """Return the product of samples with their head gradients."""
    return row_product(_flat(data), _flat(ograd)).reshape(*g.kernel, g.channels, g.filters)


def _flat(array: Array) -> Array:
    return array.reshape(array.shape[0], -1)
