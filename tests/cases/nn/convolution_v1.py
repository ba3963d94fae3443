"""Cases of Convolution_v1."""

from typing import Any

from tests.cases import NO_HALF, Case, T

_NO_LAYOUT = "MXNet's takes channels first alone"
_NO_VOLUME = "MXNet's takes two spatial axes alone"


def _conv(data: tuple[int, ...], weight: tuple[int, ...], *, dtype: str = "float32", **given: Any) -> Case:
    """A case of data (n, c, …) and weight (f, c / groups, …)."""
    no_mxnet = given.pop("no_mxnet", "")
    shapes = [data, weight] if given.get("no_bias") else [data, weight, (weight[0],)]
    kernel = weight[1:-1] if given.get("layout") == "NHWC" else weight[2:]
    params = {"kernel": kernel, "num_filter": weight[0]} | given
    return Case("Convolution_v1", tuple(T(*shape, dtype=dtype) for shape in shapes), params, no_mxnet=no_mxnet)


CASES = [
    _conv((2, 2, 4, 5), (3, 2, 3, 2)),
    _conv((1, 2, 5, 5), (2, 2, 3, 3), no_bias=True, stride=(2, 2), pad=(1, 1), layout="NCHW"),
    _conv((1, 4, 5, 5), (4, 2, 2, 2), num_group=2, dilate=(2, 1), workspace=9000),
    _conv((1, 2, 3, 3, 3), (2, 2, 2, 2, 2), no_mxnet=_NO_VOLUME),
    _conv((1, 4, 4, 2), (2, 3, 2, 2), layout="NHWC", no_mxnet=_NO_LAYOUT),
    _conv((1, 2, 3, 3), (2, 2, 2, 2), dtype="float64"),
    _conv((1, 2, 3, 3), (2, 2, 2, 2), dtype="float16", no_mxnet=NO_HALF),
]
