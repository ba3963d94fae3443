"""Cases of batch normalisation."""

from typing import Any

from tests.cases import Case, T

_IGNORED = "head gradients of the outputs mean and var are ignored"


def _batch_norm(shape: tuple[int, ...], axis: int | None = None, *, dtype: str = "float32", **given: Any) -> Case:
    """A case: gamma and beta around 1 and 0, moving statistics that are not those of the batch."""
    fields = {name: given.pop(name) for name in ("is_train", "not_derivative", "rtol", "rtol_reason") if name in given}
    c = shape[1 if axis is None else axis]
    vectors = "float32" if dtype in ("float16", "bfloat16") else dtype
    inputs = (
        T(*shape, dtype=dtype, low=-1, high=2),
        T(c, dtype=vectors, low=0.5, high=1.5),
        T(c, dtype=vectors),
        T(c, dtype=vectors),
        T(c, dtype=vectors, low=0.5, high=2.0),
    )
    return Case("BatchNorm", inputs, ({} if axis is None else {"axis": axis}) | given, **fields)


_MODES = [
    {},
    {"fix_gamma": False},
    {"use_global_stats": True},
    {"fix_gamma": False, "use_global_stats": True},
    {"use_global_stats": True, "output_mean_var": True},
]

CASES = [
    *[_batch_norm((3, 2, 4, 2), **mode, is_train=is_train) for mode in _MODES for is_train in (True, False)],
    _batch_norm((3, 2, 4, 2), fix_gamma=False, output_mean_var=True, not_derivative=_IGNORED),
    _batch_norm((3, 2, 4, 2), fix_gamma=False, output_mean_var=True, is_train=False),
    *[_batch_norm((4, 3), fix_gamma=False, is_train=is_train) for is_train in (True, False)],
    _batch_norm((3, 2, 4), fix_gamma=False),
    _batch_norm((2, 2, 2, 2, 3), fix_gamma=False),
    *[_batch_norm((3, 4, 2), axis, fix_gamma=False) for axis in (0, 2, -1, -2)],
    *[_batch_norm((2, 3, 3, 2), -1, fix_gamma=False, is_train=is_train) for is_train in (True, False)],
    _batch_norm((5,), 0, fix_gamma=False),
    _batch_norm((4, 3), momentum=0.5, eps=1e-05, fix_gamma=False),
    _batch_norm((4, 3), eps=0.1, cudnn_off=True, min_calib_range=-1.0, max_calib_range=1.0),
    _batch_norm((3, 2, 4), dtype="float64", fix_gamma=False),
    *[
        _batch_norm(
            (3, 2, 4),
            dtype="float16",
            fix_gamma=False,
            is_train=is_train,
            rtol=1e-3,
            rtol_reason="one unit in the last place of float16",
        )
        for is_train in (True, False)
    ],
    *[
        Case("_channels_like", (T(c), T(*shape)), {"axis": axis}, wrt=(0,), no_mxnet="an operator of this library")
        for c, shape, axis in [(3, (2, 3, 4), 1), (1, (2, 3), 1), (4, (4,), 1), (2, (3, 2), -1), (2, (2, 3), 0)]
    ],
    *[
        Case(
            "_backward_BatchNorm",
            (T(3, 2, 4), T(3, 2, 4), T(2, low=0.5, high=1.5), T(2), T(2, low=0.5, high=1.5), T(2)),
            {"use_global_stats": True, "fix_gamma": fix_gamma, "relu": relu},
            no_mxnet="an operator of this library",
        )
        for fix_gamma, relu in [(True, "sign"), (False, "sign"), (False, "greater")]
    ],
]
