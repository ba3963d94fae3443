"""Cases of Pooling_v1."""

from typing import Any

from tests.cases import Case, T

_NO_VOLUME = "MXNet's takes two spatial axes alone"
_TYPES = ("max", "sum", "avg")


def _pool(shape: tuple[int, ...], pool_type: str, kernel: tuple[int, ...], **given: Any) -> Case:
    """A case; data are distinct for maxima, and none is 0, which padding is."""
    fields = {name: given.pop(name) for name in ("no_mxnet", "rtol", "rtol_reason") if name in given}
    dtype = given.pop("dtype", "float32")
    data = T(*shape, kind="spread" if pool_type == "max" and "pad" not in given else "uniform", dtype=dtype)
    return Case("Pooling_v1", (data,), {"kernel": kernel, "pool_type": pool_type} | given, **fields)


CASES = [
    *[_pool((1, 2, 5, 6), kind, (2, 3), stride=(2, 1)) for kind in _TYPES],
    *[_pool((1, 1, 6, 6), kind, (3, 3), stride=(2, 2), pad=(1, 1), pooling_convention="full") for kind in _TYPES],
    *[_pool((2, 2, 3, 4), kind, (2, 2), global_pool=True, pad=(1, 1)) for kind in _TYPES],
    _pool((1, 1, 4, 5), "max", (2, 2), pad=(1, 1)),
    _pool((1, 1, 3, 4, 3), "max", (2, 2, 2), no_mxnet=_NO_VOLUME),
    _pool((1, 1, 3, 4, 3), "avg", (2, 2, 2), pad=(1, 0, 1), no_mxnet=_NO_VOLUME),
    _pool((1, 1, 4, 4), "avg", (2, 2), dtype="float64"),
    _pool((1, 1, 4, 4), "max", (2, 2), stride=(2, 2), dtype="float16"),
    _pool((1, 1, 4, 4), "avg", (2, 2), dtype="float16", rtol=1e-3, rtol_reason="MXNet adds up in float16"),
]
