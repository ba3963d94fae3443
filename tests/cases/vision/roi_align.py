"""Cases of ROIAlign, upright and rotated.

All columns of regions are drawn from one range: there are as many images as coordinates reach, and angles are small
unless the images are many and the scale is small. Corners come in any order, so that some regions are malformed.
"""

from typing import Any

from tests.cases import Case, T

_NO_GRADIENT = "MXNet has no gradient for it"


def _align(
    data: tuple[int, ...], regions: int, pooled: tuple[int, int], dtype: str = "float32", tag: str = "", **params: Any
) -> Case:
    rois = T(regions, 5, low=0, high=data[0], dtype=dtype)
    given = {"pooled_size": pooled, "spatial_scale": 1.0} | params
    return Case("_contrib_ROIAlign", (T(*data, dtype=dtype), rois), given, wrt=(0,), tag=tag)


def _rotated(
    data: tuple[int, ...],
    regions: int,
    pooled: tuple[int, int],
    dtype: str = "float32",
    wrt: tuple[int, ...] = (),
    no_mxnet: str = "",
    **params: Any,
) -> Case:
    rois = T(regions, 6, low=0, high=data[0], dtype=dtype)
    given = {"pooled_size": pooled, "spatial_scale": 4 / data[0]} | params
    return Case("_contrib_RROIAlign", (T(*data, dtype=dtype), rois), given, wrt=wrt, no_mxnet=no_mxnet)


CASES = [
    _align((6, 2, 5, 6), 4, (2, 3)),
    _align((9, 1, 9, 8), 4, (1, 1)),
    _align((6, 12, 4, 5), 3, (2, 3), position_sensitive=True, spatial_scale=0.5),
    _align((6, 2, 5, 6), 4, (2, 3), sample_ratio=2, spatial_scale=0.75),
    _align((6, 8, 4, 5), 3, (2, 2), sample_ratio=1, position_sensitive=True),
    _align((6, 2, 5, 6), 1, (2, 2), aligned=True, tag="corners in order, 1"),
    _align((6, 2, 5, 6), 1, (2, 2), aligned=True, sample_ratio=3, spatial_scale=0.5, tag="corners in order, 2"),
    _align((6, 1, 5, 6), 2, (2, 2), dtype="float64"),
    Case(
        "_contrib_ROIAlign",
        (
            T(4, 1, 4, 4, kind="integers", low=-8, high=8, dtype="float16"),
            T(3, 5, kind="integers", low=0, high=4, dtype="float16"),
        ),
        {"pooled_size": (1, 1), "spatial_scale": 1.0, "sample_ratio": 1},
        wrt=(),
    ),
    _rotated((40, 1, 4, 5), 4, (2, 3)),
    _rotated((40, 2, 4, 3), 3, (2, 2), sampling_ratio=2),
    _rotated((6, 1, 4, 5), 2, (2, 1), sampling_ratio=1, wrt=(0,), no_mxnet=_NO_GRADIENT),
    _rotated((6, 1, 5, 5), 2, (1, 1), dtype="float64"),
]
