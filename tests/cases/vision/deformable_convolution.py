"""Cases of deformable convolution: groups, deformable groups, strides, dilation, padding; far offsets."""

from typing import Any

from tests.cases import NO_HALF, Case, T

_GPU = "MXNet has the modulated form on a GPU only"


def _conv(
    data: tuple[int, int, int, int],
    kernel: tuple[int, int],
    out: tuple[int, int],
    num_filter: int,
    *,
    modulated: bool = False,
    reach: float = 1.5,
    dtype: str = "float32",
    no_mxnet: str = "",
    **params: Any,
) -> Case:
    """A case of data (n, c, h, w) with results (h', w'), and offsets up to `reach`."""
    n, c, _, _ = data
    places = kernel[0] * kernel[1] * params.get("num_deformable_group", 1)
    weight = (num_filter, c // params.get("num_group", 1), *kernel)
    inputs = [T(*data, dtype=dtype), T(n, 2 * places, *out, low=-reach, high=reach, dtype=dtype)]
    if modulated:
        inputs.append(T(n, places, *out, low=0.2, high=1, dtype=dtype))
        no_mxnet = _GPU
    inputs.append(T(*weight, dtype=dtype))
    if not params.get("no_bias"):
        inputs.append(T(num_filter, dtype=dtype))
    op = "_contrib_ModulatedDeformableConvolution" if modulated else "_contrib_DeformableConvolution"
    return Case(op, tuple(inputs), {"kernel": kernel, "num_filter": num_filter} | params, no_mxnet=no_mxnet)


CASES = [
    *[
        case
        for modulated in (False, True)
        for case in (
            _conv((1, 2, 5, 4), (3, 2), (3, 3), 2, modulated=modulated),
            _conv((2, 4, 4, 4), (2, 2), (3, 3), 4, modulated=modulated, num_group=2, no_bias=True),
            _conv(
                (1, 4, 4, 5), (3, 3), (2, 5), 2, modulated=modulated, num_deformable_group=2, stride=(2, 1), pad=(1, 1)
            ),
            _conv(
                (1, 2, 4, 4),
                (2, 2),
                (2, 5),
                1,
                modulated=modulated,
                dilate=(2, 1),
                pad=(0, 1),
                stride=(1, 1),
                reach=6,
                no_bias=True,
            ),
        )
    ],
    _conv((1, 2, 3, 4), (2, 1), (2, 4), 2, dtype="float64", layout="NCHW"),
    _conv((1, 2, 3, 4), (2, 1), (2, 4), 2, dtype="float16", no_mxnet=NO_HALF),
    _conv((3, 2, 3, 3), (2, 2), (2, 2), 2, modulated=True, im2col_step=2),
]
