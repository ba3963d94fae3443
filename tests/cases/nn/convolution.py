"""Cases of convolution: ranks, strides, dilation, padding, groups, layouts."""

from typing import Any

from tests.cases import NO_HALF, Case, T

_NO_LAYOUT = "MXNet convolves channels-last arrays on a GPU only"
_CHANNELS_LAST = {3: "NHWC", 4: "NDHWC"}


def _conv(
    data: tuple[int, ...],
    kernel: tuple[int, ...],
    num_filter: int,
    *,
    dtype: str = "float32",
    bias: bool = True,
    last: bool = False,
    no_mxnet: str = "",
    **params: Any,
) -> Case:
    """A case of data (n, c, …), or (n, …, c) with channels last; the weight and the bias have what shapes they need."""
    channels = (data[-1] if last else data[1]) // params.get("num_group", 1)
    weight = (num_filter, *kernel, channels) if last else (num_filter, channels, *kernel)
    shapes = [data, weight, (num_filter,)] if bias else [data, weight]
    given = {"kernel": kernel, "num_filter": num_filter} | params | ({} if bias else {"no_bias": True})
    if last:
        given["layout"] = _CHANNELS_LAST[len(data) - 1]
        no_mxnet = _NO_LAYOUT
    return Case("Convolution", tuple(T(*shape, dtype=dtype) for shape in shapes), given, no_mxnet=no_mxnet)


CASES = [
    # one axis
    _conv((2, 3, 6), (3,), 4),
    _conv((2, 3, 6), (3,), 4, bias=False),
    _conv((2, 3, 7), (3,), 2, stride=(2,), pad=(1,)),
    _conv((2, 3, 8), (3,), 2, dilate=(2,), pad=(2,)),
    _conv((2, 4, 6), (2,), 6, num_group=2, layout="NCW"),
    _conv((1, 2, 5), (1,), 3, stride=(3,)),
    # two axes
    _conv((2, 3, 5, 6), (3, 2), 4),
    _conv((2, 3, 5, 6), (3, 2), 4, bias=False, layout="NCHW"),
    _conv((2, 3, 6, 5), (3, 3), 4, pad=(1, 1)),
    _conv((2, 3, 6, 7), (3, 3), 2, stride=(2, 2), pad=(1, 1)),
    _conv((1, 2, 7, 8), (3, 2), 3, stride=(2, 3), pad=(1, 2)),
    _conv((1, 2, 8, 7), (3, 3), 2, dilate=(2, 1), pad=(2, 0)),
    _conv((1, 2, 9, 8), (3, 2), 2, stride=(2, 3), dilate=(2, 3), pad=(1, 2)),
    _conv((2, 3, 4, 4), (1, 1), 5),
    _conv((2, 3, 5, 4), (1, 1), 2, stride=(2, 2), bias=False),
    _conv((2, 3, 3, 4), (3, 4), 2),
    _conv((1, 1, 3, 3), (2, 2), 1, pad=(3, 0)),
    # groups
    _conv((2, 4, 5, 5), (3, 3), 6, num_group=2, pad=(1, 1)),
    _conv((2, 4, 5, 6), (3, 2), 4, num_group=4),
    _conv((1, 3, 6, 6), (3, 3), 6, num_group=3, stride=(2, 2), pad=(1, 1), bias=False),
    _conv((1, 4, 7, 7), (2, 3), 4, num_group=2, dilate=(2, 2), stride=(2, 1)),
    # depth-wise, which a CPU runs as shifted products
    _conv((2, 3, 7, 6), (3, 2), 3, num_group=3, stride=(2, 1), dilate=(1, 2), pad=(1, 2)),
    _conv((1, 6, 7, 3), (2, 3), 3, last=True, num_group=3, stride=(1, 2), pad=(1, 0)),
    # three axes
    _conv((1, 2, 4, 4, 3), (2, 2, 2), 3),
    _conv((1, 2, 4, 5, 4), (2, 3, 2), 2, stride=(2, 1, 2), pad=(1, 1, 0), layout="NCDHW"),
    _conv((1, 4, 3, 4, 4), (2, 2, 2), 4, num_group=2, dilate=(1, 2, 1), bias=False),
    # channels last
    _conv((2, 5, 6, 3), (3, 2), 4, last=True),
    _conv((1, 7, 8, 4), (3, 2), 6, last=True, num_group=2, stride=(2, 3), pad=(1, 2)),
    _conv((1, 6, 6, 3), (3, 3), 3, last=True, num_group=3, dilate=(2, 1), bias=False),
    _conv((1, 3, 4, 4, 2), (2, 2, 3), 3, last=True, stride=(1, 2, 1), pad=(0, 1, 1)),
    # what cuDNN would be told
    _conv((1, 2, 4, 4), (2, 2), 2, workspace=512, cudnn_tune="off", cudnn_off=True),
    # other dtypes
    _conv((1, 2, 5, 4), (3, 2), 2, dtype="float64", pad=(1, 1)),
    _conv((1, 2, 5, 4), (3, 2), 2, dtype="float16", pad=(1, 1), no_mxnet=NO_HALF),
]
