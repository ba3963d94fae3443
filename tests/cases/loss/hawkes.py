"""Cases of hawkesll, whose gradient in MXNet knows neither state, lags and max_time nor the second output."""

from tests.cases import Case, T, Tensor

_GRADIENT = "MXNet's gradient leaves state out and ignores the second output"
_HALF = "float16 keeps 11 bits; MXNet also adds up in float16"


def _inputs(dtype: str = "float32", *, n: int = 2, k: int = 3, t: int = 4) -> tuple[Tensor, ...]:
    return (
        T(n, k, low=0.5, high=1.5, dtype=dtype),
        T(k, low=0.1, high=0.6, dtype=dtype),
        T(k, low=0.5, high=1.5, dtype=dtype),
        T(n, k, low=0, high=1, dtype=dtype),
        T(n, t, low=0.1, high=1, dtype=dtype),
        T(n, t, low=0, high=k, kind="integers", dtype="int32"),
        T(n, low=2, high=t + 1, kind="integers", dtype=dtype),
        T(n, low=4, high=6, dtype=dtype),
    )


_SMOOTH = (0, 1, 2, 3, 4, 7)

CASES = [
    Case("_contrib_hawkesll", _inputs(), wrt=(), is_train=False),
    Case("_contrib_hawkesll", _inputs("float64"), wrt=(), is_train=False),
    Case("_contrib_hawkesll", _inputs("float16"), wrt=(), is_train=False, rtol=5e-3, rtol_reason=_HALF),
    Case("_contrib_hawkesll", _inputs(n=3, k=2, t=5), wrt=_SMOOTH, no_mxnet=_GRADIENT),
    Case("_contrib_hawkesll", _inputs("float16"), wrt=_SMOOTH, no_mxnet=_GRADIENT),
]
