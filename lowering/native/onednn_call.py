"""The custom calls by which oneDNN computes a convolution and a product in XLA's CPU, in the words of XLA's
`OneDnnConvolutionConfig` and `OneDnnMatMulConfig`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import jax
from jax import Array

from lowering.convolutions.geometry import Epilogue, Geometry
from lowering.native import unpromised

Order = tuple[Literal["channels", "filters"], Literal["channels", "filters"]]
"""The order of the first two axes of a weight, before those of the kernel."""

FILTERS_FIRST: Order = ("filters", "channels")
CHANNELS_FIRST: Order = ("channels", "filters")

TARGET = "__onednn$convolution"
PRODUCT_TARGET = "__onednn$matmul"
_ACTIVATIONS = {"": (), "relu": ("RELU",), "relu6": ("RELU6",), "gelu": ("GELU_ERF",)}


def call(
    data: Array, weight: Array, geometry: Geometry, epilogue: Epilogue, operands: Sequence[Array], order: Order | None
) -> Array:
    """Map data (n, *size, c) → (n, *out_size, f). operands: the bias (f,) and the addend (n, *out_size, f), as the
    epilogue says; the result is written over the addend. order: the weight's; None: it is stored in blocks, flat.

    Nothing is checked: XLA ends the process where a size is impossible, and oneDNN reads beyond a weight that is too
    short. `lowering/native/ask.py` decides what may be called.
    """
    shape = (geometry.batch, *geometry.out_size, geometry.filters)
    result = jax.ShapeDtypeStruct(shape, data.dtype)
    config = {"onednn_conv_config": _config(geometry, epilogue, order)}
    written_over = 2 + epilogue.bias if epilogue.addend else None
    return unpromised.library_call(TARGET, result, config, written_over, data, weight, *operands)


def product(a: Array, b: Array, over_rows: bool) -> Array:
    """Map (k, m) or, unless it is over rows, (m, k), and (k, n) of float32 → their product (m, n); sequences of such
    matrices to a sequence."""
    *sequence, rows, columns = a.shape
    result = jax.ShapeDtypeStruct((*sequence, columns if over_rows else rows, b.shape[-1]), a.dtype)
    config = {"onednn_matmul_config": {"transpose_a": over_rows}}
    return unpromised.library_call(PRODUCT_TARGET, result, config, None, a, b)


def _config(g: Geometry, epilogue: Epilogue, order: Order | None) -> dict[str, Any]:
    """Return the call's configuration, which names axes by number."""
    rank = len(g.kernel) + 2
    data = {"dims": rank, "data": {"batch_dim": 0, "feature_dim": rank - 1, "spatial_dims": [*range(1, rank - 1)]}}
    if order is None:
        channels, filters, spatial = rank - 2, rank - 1, range(rank - 2)
    else:
        channels, filters, spatial = order.index("channels"), order.index("filters"), range(2, rank)
    weight = {"input_feature_dim": channels, "output_feature_dim": filters, "spatial_dims": [*spatial]}
    if order is None:
        weight["shape"] = [*g.kernel, g.channels // g.groups, g.filters]
    window = {
        "size": g.kernel,
        "pad_left": g.pad,
        "pad_right": g.pad,
        "strides": g.stride,
        "window_dilations": g.dilate,
    }
    operations = (*["BIAS"] * epilogue.bias, *["SUM"] * epilogue.addend, *_ACTIVATIONS[epilogue.act_type])
    return {
        "dims": rank,
        "input": data,
        "kernel": {"dims": rank, "filter": weight},
        "output": data,
        "window": window,
        "fusions": {"ops": operations},
        "feature_groups": g.groups,
        "optimization_config": {"weights_prepacked": order is None},
    }
