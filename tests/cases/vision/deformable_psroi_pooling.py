"""Cases of deformable position-sensitive pooling: samples, groups, parts, classes, with and without offsets.

All columns of regions are drawn from one range: there are as many images as coordinates reach. Corners come in any
order, so that some regions are malformed.
"""

from typing import Any

from tests.cases import Case, T


def _pool(
    data: tuple[int, ...], regions: int, trans: tuple[int, int] | None, dtype: str = "float32", **params: Any
) -> Case:
    """A case of data (n, c, h, w); trans: numbers of classes and of parts."""
    inputs = [T(*data, dtype=dtype), T(regions, 5, low=0, high=data[0], dtype=dtype)]
    given = {"spatial_scale": 1.0} | params
    if trans is None:
        given["no_trans"] = True
        return Case("_contrib_DeformablePSROIPooling", tuple(inputs), given, wrt=(0,))
    classes, parts = trans
    inputs.append(T(regions, 2 * classes, parts, parts, dtype=dtype))
    return Case("_contrib_DeformablePSROIPooling", tuple(inputs), given, wrt=(0, 2))


CASES = [
    _pool((6, 4, 5, 6), 4, None, output_dim=1, group_size=2, pooled_size=2),
    _pool((6, 2, 5, 4), 4, None, output_dim=2, group_size=1, pooled_size=3, sample_per_part=2, spatial_scale=0.5),
    _pool((6, 4, 5, 6), 4, (1, 2), output_dim=1, group_size=2, pooled_size=2, trans_std=0.2, sample_per_part=2),
    _pool((6, 4, 5, 6), 3, (2, 2), output_dim=4, group_size=1, pooled_size=3, part_size=2, trans_std=0.5),
    _pool((6, 8, 4, 4), 3, (1, 3), output_dim=2, group_size=2, pooled_size=3, trans_std=0.9, spatial_scale=0.75),
    _pool((6, 1, 4, 4), 2, (1, 1), "float64", output_dim=1, group_size=1, pooled_size=1, trans_std=0.25),
    Case(
        "_contrib_DeformablePSROIPooling",
        (
            T(4, 1, 4, 4, kind="integers", low=-8, high=8, dtype="float16"),
            T(3, 5, kind="integers", low=0, high=4, dtype="float16"),
        ),
        {"spatial_scale": 0.5, "output_dim": 1, "group_size": 1, "pooled_size": 1, "no_trans": True},
        wrt=(),
    ),
]
