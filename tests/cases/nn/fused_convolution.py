"""Cases of convolutions with what follows them, which FuseConvolution and TransformWeights make."""

from typing import Any

from tests.cases import Case, T

_OURS = "an operator of this library"


def _convolution(
    data: tuple[int, ...], weight: tuple[int, ...], block: int = 0, length: int = 0, groups: int = 1, **given: Any
) -> Case:
    """A case without bias unless given: data (n, …d, c), weight (…k, c / groups, f).

    block: how many filters are in a block of the weight, which then has `length` numbers; 0: the weight has no blocks.
    """
    *kernel, _, filters = weight
    steps = {name: given.pop(name, (value,) * len(kernel)) for name, value in (("stride", 1), ("pad", 0))}
    size = [
        (d + 2 * p - k) // s + 1 for d, k, s, p in zip(data[1:-1], kernel, steps["stride"], steps["pad"], strict=True)
    ]
    params = {"kernel": tuple(kernel), "num_filter": filters, "num_group": groups, "no_bias": True, **steps, **given}
    inputs = [T(*data), T(length) if block else T(*weight)]
    inputs += [] if params["no_bias"] else [T(filters)]
    inputs += [T(data[0], *size, filters)] if given.get("with_addend") else []
    params |= {"layout": f"b{block}c{data[-1]}"} if block else {}
    return Case("_fused_convolution", tuple(inputs), params, wrt=(), no_mxnet=_OURS)


CASES = [
    Case("_blocked_weight", (T(3, 2, 2, 5),), {"layout": "b4c2"}, wrt=(), no_mxnet=_OURS),
    Case("_blocked_weight", (T(2, 3, 4),), {"layout": "b2c6", "num_group": 2}, wrt=(), no_mxnet=_OURS),
    Case("_blocked_weight", (T(3, 3, 1, 5),), {"layout": "b4c5", "num_group": 5}, wrt=(), no_mxnet=_OURS),
    _convolution((1, 5, 6, 2), (3, 3, 2, 3), no_bias=False, with_addend=True, act_type="relu", pad=(1, 1)),
    _convolution((2, 5, 6, 2), (3, 2, 2, 5), 4, 96, no_bias=False, act_type="relu6", stride=(2, 1)),
    _convolution((2, 7, 4), (3, 2, 6), 2, 48, groups=2, with_addend=True, pad=(1,)),
    _convolution((1, 4, 5, 5), (3, 3, 1, 5), 16, 144, groups=5, act_type="relu", pad=(1, 1)),
]
