"""Cases of dense layers with what follows them, which FuseConvolution and TransformWeights make."""

from typing import Any

from tests.cases import Case, T


def _dense(data: tuple[int, ...], hidden: int, depth: int, block: int = 0, length: int = 0, **given: Any) -> Case:
    """A case without bias unless given. block: how many rows are in a block of the weight, which then has `length`
    numbers; 0: the weight has no blocks."""
    params = {"num_hidden": hidden, "no_bias": True, "flatten": True, **given}
    out = (data[0], hidden) if params["flatten"] else (*data[:-1], hidden)
    inputs = [T(*data), T(length) if block else T(hidden, depth)]
    inputs += [] if params["no_bias"] else [T(hidden)]
    inputs += [T(*out)] if given.get("with_addend") else []
    params |= {"layout": f"b{block}c{depth}"} if block else {}
    return Case("_fused_fully_connected", tuple(inputs), params, wrt=(), no_mxnet="an operator of this library")


CASES = [
    _dense((3, 2, 4), 5, 8, no_bias=False, with_addend=True, act_type="relu"),
    _dense((3, 2, 4), 5, 4, flatten=False, with_addend=True, act_type="gelu"),
    _dense((2, 6), 5, 6, 4, 48, no_bias=False, act_type="relu6"),
    _dense((2, 3, 4), 7, 4, 16, 64, flatten=False, with_addend=True, no_bias=False, act_type="gelu"),
]
