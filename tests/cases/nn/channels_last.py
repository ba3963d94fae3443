"""Cases of convolution with channels last, which AlterOpLayout makes of Convolution."""

from typing import Any

from tests.cases import Case, T

_OURS = "an operator of this library"


def _convolution(data: tuple[int, ...], weight: tuple[int, ...], *, bias: bool = False, **given: Any) -> Case:
    """A case: data (n, …d, c), weight (…k, c / groups, f)."""
    params = {"kernel": weight[:-2], "num_filter": weight[-1], "no_bias": not bias} | given
    return Case("_channels_last_convolution", (T(*data), T(*weight), *[T(weight[-1])] * bias), params, no_mxnet=_OURS)


CASES = [
    _convolution((2, 5, 3), (3, 3, 4), pad=(1,)),
    _convolution((2, 5, 4, 3), (3, 2, 3, 4), bias=True),
    _convolution((1, 6, 5, 2), (3, 3, 2, 3), bias=True, pad=(1, 2), stride=(2, 1)),
    _convolution((1, 7, 7, 2), (2, 2, 2, 3), dilate=(2, 3)),
    _convolution((2, 5, 5, 4), (3, 3, 1, 4), num_group=4, pad=(1, 1), stride=(2, 2)),
    _convolution((2, 4, 4, 4), (3, 3, 2, 6), num_group=2),
    _convolution((2, 3, 3, 4), (1, 1, 4, 3), stride=(2, 2)),
    _convolution((1, 3, 4, 3, 2), (2, 2, 2, 2, 3), bias=True, pad=(1, 0, 1)),
]
