"""Cases of UpSampling."""

from typing import Any

from tests.cases import NO_HALF, Case, T


def _nearest(*shapes: tuple[int, ...], dtype: str = "float32", **params: Any) -> Case:
    given = {"scale": 2, "sample_type": "nearest", "num_args": len(shapes)} | params
    half = {"rtol": 1e-3, "rtol_reason": "MXNet adds up in float16"} if dtype == "float16" else {}
    return Case("UpSampling", tuple(T(*shape, dtype=dtype) for shape in shapes), given, **half)


def _bilinear(data: tuple[int, ...], scale: int, *, dtype: str = "float32", no_mxnet: str = "") -> Case:
    channels, kernel = data[1], 2 * scale - scale % 2
    inputs = (T(*data, dtype=dtype), T(channels, 1, kernel, kernel, dtype=dtype))
    params = {"scale": scale, "sample_type": "bilinear", "num_args": 2, "num_filter": channels}
    return Case("UpSampling", inputs, params, no_mxnet=no_mxnet)


CASES = [
    _nearest((2, 2, 2, 3)),
    _nearest((1, 1, 2, 2), scale=3),
    _nearest((1, 2, 2, 2), (1, 3, 1, 1), (1, 1, 4, 4)),
    _nearest((1, 2, 2, 4), (1, 2, 1, 2), multi_input_mode="sum"),
    *(_nearest((1, 1, 2, 2), dtype=dtype) for dtype in ("float64", "float16")),
    *[_bilinear((2, 2, 2, 3), scale) for scale in (1, 2, 3)],
    _bilinear((1, 1, 3, 2), 4),
    _bilinear((1, 2, 2, 2), 2, dtype="float64"),
    _bilinear((1, 2, 2, 2), 2, dtype="float16", no_mxnet=NO_HALF),
]
