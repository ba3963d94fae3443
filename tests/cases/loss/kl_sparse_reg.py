"""Cases of IdentityAttachKLSparseReg."""

from typing import Any

from tests.cases import Case, T

_PENALTY = "the gradient is that of the identity plus the penalty's"
_MATRICES = "MXNet trains on float32 matrices"


def _reg(shape: tuple[int, ...], *, dtype: str = "float32", **given: Any) -> Case:
    """A case: activations and their average between 0 and 1."""
    fields = {name: given.pop(name) for name in ("is_train", "no_mxnet") if name in given}
    average = "float32" if dtype == "float16" else dtype
    inputs = (T(*shape, dtype=dtype, low=0.1, high=0.9), T(shape[1], dtype=average, low=0.1, high=0.9))
    return Case("IdentityAttachKLSparseReg", inputs, given, wrt=(0,), not_derivative=_PENALTY, **fields)


CASES = [
    _reg((4, 3)),
    _reg((4, 3), sparseness_target=0.3, penalty=0.5, momentum=0.6),
    _reg((4, 3), is_train=False),
    _reg((2, 3, 2, 2), is_train=False),
    _reg((2, 3, 2), penalty=0.5, no_mxnet=_MATRICES),
    *(_reg((4, 3), penalty=0.5, dtype=dtype, no_mxnet=_MATRICES) for dtype in ("float64", "float16")),
]
