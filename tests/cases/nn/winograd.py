"""Cases of Winograd's convolution in two parts, which TransformWeights makes of convolutions with channels last."""

from typing import Any

from tests.cases import Case, T

_OURS = "an operator of this library"


def _convolution(data: tuple[int, ...], filters: int, algorithm: str, **given: Any) -> Case:
    """A case without bias unless given: data (n, h, w, c), weight ((tile + 2)², c, filters)."""
    factors = (int(algorithm[8]) + 2) ** 2
    params = {"kernel": (3, 3), "num_filter": filters, "algorithm": algorithm, "no_bias": True} | given
    bias = [] if params["no_bias"] else [T(filters)]
    inputs = (T(*data), T(factors, data[-1], filters), *bias)
    return Case("_winograd_convolution", inputs, params, wrt=(), no_mxnet=_OURS)


CASES = [
    Case("_winograd_weight", (T(3, 3, 2, 3),), {"tile": 2}, wrt=(), no_mxnet=_OURS),
    Case("_winograd_weight", (T(3, 3, 1, 2),), {"tile": 4}, wrt=(), no_mxnet=_OURS),
    _convolution((1, 5, 6, 2), 3, "winograd2", pad=(1, 1)),
    _convolution((2, 4, 7, 3), 2, "winograd4", no_bias=False),
    _convolution((2, 9, 4, 2), 2, "winograd4", pad=(2, 1)),
]
