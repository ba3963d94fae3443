"""Cases of the functions of two arrays of one shape, and of add_n."""

from tests.cases import Case, T

_HALF = "float16 has 11 bits, and MXNet rounds its intermediate results differently"
_TIES = "elements tie, where there is no derivative"

_SMOOTH = ("elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div", "_hypot", "_grad_add")
_TRUTH = (
    *("_equal", "_not_equal", "_greater", "_greater_equal", "_lesser", "_lesser_equal"),
    *("_logical_and", "_logical_or", "_logical_xor"),
)


def _apart(*shape: int, dtype: str = "float32"):
    """Two tensors whose elements differ: of both signs, the second smaller than the first."""
    return (
        T(*shape, low=1.0, high=2.0, kind="signs", dtype=dtype),
        T(*shape, low=0.3, high=0.9, kind="signs", dtype=dtype),
    )


def _powers(*shape: int, dtype: str = "float32"):
    return T(*shape, low=0.3, high=2.0, dtype=dtype), T(*shape, low=-2.0, high=2.0, dtype=dtype)


def _whole(*shape: int, low: int = -3, high: int = 4, dtype: str = "int32"):
    """Two tensors of small whole numbers, with ties and zeros."""
    return (T(*shape, low=low, high=high, kind="integers", dtype=dtype),) * 2


def _mxnet(op: str) -> str:
    return "MXNet's _grad_add has no gradient" if op == "_grad_add" else ""


CASES = [
    *[Case(op, _apart(3, 4), no_mxnet=_mxnet(op)) for op in _SMOOTH],
    *[Case(op, _apart(2, 1, 3, dtype="float64"), no_mxnet=_mxnet(op)) for op in _SMOOTH],
    *[
        Case(op, _apart(5, dtype="float16"), rtol=2e-3, rtol_reason=_HALF, no_mxnet=_mxnet(op))
        for op in (*_SMOOTH, "_maximum", "_minimum", "_equal", "_logical_and")
    ],
    Case("elemwise_mul", (T(1), T(1))),
    Case("_grad_add", (T(3, 2, dtype="int32", kind="integers", low=-3, high=4),) * 2),
    *[Case(op, _apart(*shape)) for op in ("_maximum", "_minimum", "_mod") for shape in ((4, 5), (7,))],
    *[Case(op, _apart(6, dtype="float64")) for op in ("_maximum", "_minimum", "_mod")],
    Case("_mod", (T(6, low=0.3, high=0.9), T(6, low=1.0, high=2.0, kind="signs"))),
    Case("_power", _powers(3, 4)),
    Case("_power", _powers(5, dtype="float64")),
    Case("_power", _powers(5, dtype="float16"), rtol=2e-3, rtol_reason=_HALF),
    *[Case(op, _apart(3, 4)) for op in _TRUTH],
    # ties and zeros
    *[Case(op, _whole(5, 5, dtype="float32"), not_derivative=_TIES) for op in ("_maximum", "_minimum", *_TRUTH)],
    Case("_mod", _whole(5, 5, dtype="float32"), wrt=(0,), not_derivative="x mod 0 = 0, with the gradient of x"),
    # integers
    *[
        Case(op, _whole(4, 5, dtype=dtype))
        for op in ("elemwise_add", "elemwise_sub", "elemwise_mul", "_maximum", "_minimum", "_mod", *_TRUTH)
        for dtype in ("int32", "int8")
    ],
    *[
        Case(
            op, (T(5, low=-9, high=9, kind="integers", dtype=dtype), T(5, low=1, high=4, kind="integers", dtype=dtype))
        )
        for op in ("elemwise_div", "_power", "_hypot")
        for dtype in ("int32", "int64")
    ],
    *[
        Case(op, _whole(3, 4, low=0, high=6, dtype="uint8"))
        for op in ("elemwise_sub", "_mod", "_power", "_lesser", "_logical_xor")
    ],
    Case(
        "_power",
        (T(20, low=1, high=4, kind="integers", dtype="int32"), T(20, low=-3, high=4, kind="integers", dtype="int32")),
    ),
    # sums
    Case("add_n", (T(3, 4),), {"num_args": 1}),
    Case("add_n", (T(3, 4),) * 2, {"num_args": 2}),
    Case("add_n", (T(2, 3),) * 9, {"num_args": 9}),
    Case("add_n", (T(2, 3, dtype="float64"),) * 3, {"num_args": 3}),
    Case("add_n", (T(2, 3, dtype="float16"),) * 3, {"num_args": 3}, rtol=2e-3, rtol_reason=_HALF),
    Case("add_n", (T(2, 3, low=-5, high=6, kind="integers", dtype="int32"),) * 3, {"num_args": 3}),
]
