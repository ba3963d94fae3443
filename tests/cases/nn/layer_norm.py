"""Cases of LayerNorm, GroupNorm and InstanceNorm."""

from typing import Any

from tests.cases import Case, T

_IGNORED = "head gradients of the outputs mean and std are ignored"
_FLOAT32 = "MXNet's InstanceNorm takes float32 alone"
_HALF = {"rtol": 1e-3, "rtol_reason": "one unit in the last place of float16"}


def _norm(op: str, shape: tuple[int, ...], size: int, *, dtype: str = "float32", **given: Any) -> Case:
    """A case: gamma and beta, of `size` elements, around 1 and 0."""
    fields = {n: given.pop(n) for n in ("is_train", "not_derivative", "no_mxnet", "rtol", "rtol_reason") if n in given}
    inputs = (T(*shape, dtype=dtype, low=-1, high=2), T(size, dtype=dtype, low=0.5, high=1.5), T(size, dtype=dtype))
    return Case(op, inputs, given, **fields)


CASES = [
    _norm("LayerNorm", (3, 5), 5),
    _norm("LayerNorm", (2, 3, 4), 4, eps=0.1),
    _norm("LayerNorm", (2, 3, 4), 3, axis=1),
    _norm("LayerNorm", (4, 2, 3), 4, axis=0),
    _norm("LayerNorm", (2, 3, 4), 3, axis=-2, is_train=False),
    _norm("LayerNorm", (5,), 5),
    _norm("LayerNorm", (3, 5), 5, output_mean_var=True, not_derivative=_IGNORED),
    _norm("LayerNorm", (3, 5), 5, dtype="float64"),
    _norm("LayerNorm", (3, 5), 5, dtype="float16", **_HALF),
    _norm("GroupNorm", (2, 4, 3), 2, num_groups=2),
    _norm("GroupNorm", (2, 3, 2, 2), 1, eps=0.1),
    _norm("GroupNorm", (2, 4, 2, 1, 2), 4, num_groups=4, is_train=False),
    _norm("GroupNorm", (2, 4, 3), 2, num_groups=2, output_mean_var=True, not_derivative=_IGNORED),
    _norm("GroupNorm", (2, 4, 3), 2, num_groups=2, dtype="float64"),
    _norm("GroupNorm", (2, 4, 3), 2, num_groups=2, dtype="float16", **_HALF),
    _norm("InstanceNorm", (2, 3, 5), 3),
    _norm("InstanceNorm", (2, 3, 2, 3), 3, eps=0.1),
    _norm("InstanceNorm", (2, 2, 2, 2, 2), 2, is_train=False),
    *(_norm("InstanceNorm", (2, 3, 5), 3, dtype=dtype, no_mxnet=_FLOAT32) for dtype in ("float64", "float16")),
]
