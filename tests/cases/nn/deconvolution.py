"""Cases of deconvolution: ranks, strides, dilation, padding, adjustment, targets, groups, layouts.

A target_shape comes in float64, which MXNet leaves to its own kernels: for float32 it uses oneDNN and then refuses
every target that needs padding. (With dilation its own kernels are wrong, and oneDNN is right.)
"""

from typing import Any

from tests.cases import NO_HALF, Case, T

_NO_LAYOUT = "MXNet deconvolves channels-last arrays on a GPU only"
_NO_THREE = "MXNet deconvolves over three axes on a GPU only, and never with dilation"
_CHANNELS_LAST = {4: "NHWC", 5: "NDHWC"}


def _deconv(
    data: tuple[int, ...],
    kernel: tuple[int, ...],
    num_filter: int,
    *,
    dtype: str = "float32",
    bias: bool = False,
    last: bool = False,
    no_mxnet: str = "",
    **params: Any,
) -> Case:
    """A case of data (n, c, …), or (n, …, c) with channels last; the weight and the bias have what shapes they need."""
    share = num_filter // params.get("num_group", 1)
    weight = (data[-1], *kernel, share) if last else (data[1], share, *kernel)
    shapes = [data, weight, (num_filter,)] if bias else [data, weight]
    given = {"kernel": kernel, "num_filter": num_filter} | params | ({"no_bias": False} if bias else {})
    if last:
        given["layout"] = _CHANNELS_LAST[len(data)]
        no_mxnet = _NO_LAYOUT
    elif len(kernel) == 3:
        no_mxnet = _NO_THREE
    return Case("Deconvolution", tuple(T(*shape, dtype=dtype) for shape in shapes), given, no_mxnet=no_mxnet)


CASES = [
    # one axis
    _deconv((2, 3, 4), (3,), 2),
    _deconv((2, 3, 4), (3,), 2, bias=True, stride=(2,), pad=(1,), adj=(1,), layout="NCW"),
    _deconv((1, 4, 3), (2,), 6, num_group=2, stride=(3,), dilate=(2,)),
    _deconv((1, 2, 4), (4,), 2, stride=(2,), target_shape=(7,), dtype="float64"),
    # two axes
    _deconv((2, 3, 3, 4), (3, 2), 2),
    _deconv((2, 3, 3, 4), (3, 2), 4, bias=True, layout="NCHW"),
    _deconv((1, 2, 3, 3), (4, 4), 3, stride=(2, 2), pad=(1, 1)),
    _deconv((1, 2, 3, 4), (3, 3), 2, stride=(2, 3), pad=(1, 0), adj=(1, 2), bias=True),
    _deconv((1, 2, 3, 3), (2, 2), 2, stride=(3, 2)),
    _deconv((1, 2, 4, 3), (3, 2), 3, dilate=(2, 3), stride=(1, 2), pad=(2, 1)),
    _deconv((1, 2, 4, 4), (3, 3), 2, pad=(2, 1)),
    _deconv((1, 3, 3, 4), (1, 1), 2, stride=(2, 2)),
    _deconv((1, 2, 3, 3), (3, 3), 2, stride=(2, 2), target_shape=(6, 7), pad=(1, 1), adj=(1, 1), dtype="float64"),
    _deconv((1, 2, 3, 3), (4, 3), 2, stride=(2, 2), target_shape=(5, 4), dtype="float64"),
    _deconv((1, 2, 3, 3), (2, 2), 2, target_shape=(0, 0), pad=(1, 0)),
    # groups
    _deconv((2, 4, 3, 3), (3, 3), 6, num_group=2, stride=(2, 2), pad=(1, 1), bias=True),
    _deconv((1, 3, 3, 4), (4, 4), 3, num_group=3, stride=(2, 2), pad=(1, 1)),
    # three axes
    _deconv((1, 2, 2, 3, 2), (2, 3, 2), 2, stride=(2, 1, 2), pad=(0, 1, 0), adj=(1, 0, 1), bias=True),
    _deconv((1, 2, 2, 2, 3), (2, 2, 2), 4, num_group=2, dilate=(2, 1, 1)),
    # channels last
    _deconv((1, 3, 4, 3), (3, 2), 2, last=True, bias=True, stride=(2, 2), adj=(1, 0)),
    _deconv((1, 3, 3, 4), (3, 3), 6, last=True, num_group=2, dilate=(1, 2), pad=(1, 1)),
    _deconv((1, 2, 2, 3, 2), (2, 2, 2), 2, last=True, stride=(1, 2, 1), target_shape=(3, 4, 2)),
    # what cuDNN would be told
    _deconv((1, 2, 3, 3), (2, 2), 2, workspace=1024, cudnn_tune="off", cudnn_off=True),
    # other dtypes
    _deconv((1, 2, 3, 4), (3, 2), 2, dtype="float64", stride=(2, 1), pad=(1, 0)),
    _deconv((1, 2, 3, 4), (3, 2), 2, dtype="float16", stride=(2, 1), pad=(1, 0), no_mxnet=NO_HALF),
]
