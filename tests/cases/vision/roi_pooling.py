"""Cases of pooling in regions.

All columns of regions are drawn from one range: there are as many images as coordinates reach. Corners come in any
order, so that some regions are malformed.
"""

from typing import Any

from tests.cases import Case, T

_ORDER = "MXNet has no gradient where the last corner comes before the first"


def _rois(data: tuple[int, ...], regions: int, dtype: str = "float32") -> Any:
    return T(regions, 5, low=0, high=data[0], dtype=dtype)


def _pool(
    data: tuple[int, ...],
    regions: int,
    pooled: tuple[int, int],
    scale: float = 1.0,
    wrt: tuple[int, ...] = (0,),
    dtype: str = "float32",
    **fields: Any,
) -> Case:
    inputs = (T(*data, kind="spread", dtype=dtype), _rois(data, regions, dtype))
    return Case("ROIPooling", inputs, {"pooled_size": pooled, "spatial_scale": scale}, wrt=wrt, **fields)


def _sensitive(data: tuple[int, ...], regions: int, dtype: str = "float32", **params: Any) -> Case:
    given = {"spatial_scale": 1.0} | params
    return Case("_contrib_PSROIPooling", (T(*data, dtype=dtype), _rois(data, regions, dtype)), given, wrt=(0,))


CASES = [
    _pool((6, 2, 5, 6), 5, (2, 3), wrt=()),
    _pool((8, 1, 7, 6), 1, (3, 2), tag="corners in order, 44"),
    _pool((6, 1, 5, 6), 4, (2, 2), tag="gradient", no_mxnet=_ORDER),
    _pool((8, 1, 5, 4), 5, (4, 7), 0.5, wrt=(), dtype="float16"),
    _pool((6, 1, 4, 4), 2, (2, 2), 0.5, wrt=(), dtype="float64"),
    _sensitive((6, 8, 5, 6), 5, output_dim=2, pooled_size=2),
    _sensitive((6, 9, 5, 4), 4, output_dim=2, pooled_size=3, group_size=2, spatial_scale=0.5),
    _sensitive((6, 4, 4, 4), 2, output_dim=1, pooled_size=2, dtype="float64"),
    Case(
        "_contrib_PSROIPooling",
        (T(4, 4, 4, 4, kind="integers", low=-8, high=8, dtype="float16"), _rois((4,), 3, "float16")),
        {"spatial_scale": 0.5, "output_dim": 1, "pooled_size": 2},
        wrt=(),
    ),
]
