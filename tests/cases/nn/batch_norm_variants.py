"""Cases of BatchNorm_v1, SyncBatchNorm and BatchNormWithReLU."""

from itertools import count
from typing import Any

from tests.cases import Case, T

_IGNORED = "head gradients of the outputs mean and var are ignored"
_FLOAT32 = "MXNet takes float32 alone"
_IMAGES = "MXNet takes float32 images"
_UNDEFINED = "MXNet leaves mean and var undefined where it uses moving statistics"
_numbers = count()


def _norm(op: str, shape: tuple[int, ...], *, dtype: str = "float32", **given: Any) -> Case:
    """A case: gamma and beta around 1 and 0, moving statistics that are not those of the batch."""
    fields = {name: given.pop(name) for name in ("is_train", "not_derivative", "no_mxnet") if name in given}
    c = shape[1]
    vectors = "float32" if dtype == "float16" else dtype
    inputs = (
        T(*shape, dtype=dtype, low=-1, high=2),
        T(c, dtype=vectors, low=0.5, high=1.5),
        T(c, dtype=vectors),
        T(c, dtype=vectors),
        T(c, dtype=vectors, low=0.5, high=2.0),
    )
    if op == "_contrib_SyncBatchNorm":
        given["key"] = f"norm{next(_numbers)}"  # MXNet's operators of one key wait for each other
    return Case(op, inputs, given, **fields)


def _both(op: str, *undefined: str) -> list[Case]:
    """What the variance as an output changes, in training and not; `undefined`: why MXNet has none of the latter."""
    shape = (3, 2, 2, 2)
    seen: dict[str, Any] = {"fix_gamma": False, "output_mean_var": True}
    moving: dict[str, Any] = {"no_mxnet": undefined[0]} if undefined else {}
    return [
        _norm(op, shape),
        _norm(op, shape, fix_gamma=False, eps=0.1, momentum=0.5),
        _norm(op, shape, fix_gamma=False, use_global_stats=True),
        _norm(op, shape, fix_gamma=False, is_train=False),
        _norm(op, shape, **seen, not_derivative=_IGNORED),
        _norm(op, shape, **seen, is_train=False, **moving),
        _norm(op, (4, 3), fix_gamma=False),
        *(_norm(op, (3, 2, 2), fix_gamma=False, dtype=dtype, no_mxnet=_FLOAT32) for dtype in ("float64", "float16")),
    ]


_MODES: list[dict[str, Any]] = [{}, {"fix_gamma": False}, {"fix_gamma": False, "use_global_stats": True}]

CASES = [
    *_both("BatchNorm_v1"),
    *_both("_contrib_SyncBatchNorm", _UNDEFINED),
    *[
        _norm("_contrib_BatchNormWithReLU", (3, 2, 2, 2), **mode, is_train=is_train)
        for mode in _MODES
        for is_train in (True, False)
    ],
    _norm("_contrib_BatchNormWithReLU", (3, 2, 2, 2), output_mean_var=True, not_derivative=_IGNORED),
    _norm("_contrib_BatchNormWithReLU", (4, 2, 2), axis=-2, fix_gamma=False, no_mxnet=_IMAGES),
    _norm("_contrib_BatchNormWithReLU", (3, 2, 4), fix_gamma=False, dtype="float16", no_mxnet=_IMAGES),
]
