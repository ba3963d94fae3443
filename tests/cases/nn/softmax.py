"""Cases of softmax and its kin."""

from tests.cases import Case, T

_NARROW = "the result is rounded to the parameter's dtype, which float64 differences see"
_ONLY_FLOAT32 = "MXNet has only a float32 kernel for it"
_LOG_OF_1 = "MXNet's vectorised logarithm of 1 is 1.4e-6"
_SATURATED = "in saturated rows the gradient is a difference of nearly equal float32 numbers"
_HALF = "float16 keeps 11 bits; MXNet also adds up in float16"


def _length(high: int, *shape: int, dtype: str = "int32"):
    return T(*shape, low=0, high=high, kind="integers", dtype=dtype)


def _large(*shape: int, **kwargs):
    return T(*shape, low=-40, high=40, **kwargs)


CASES = [
    *[
        case
        for op in ("softmax", "log_softmax", "softmin")
        for case in (
            Case(op, (T(3, 4),)),
            Case(op, (T(5),)),
            Case(op, (T(3, 1),), no_mxnet=_LOG_OF_1 if op == "log_softmax" else ""),
            *(Case(op, (T(2, 3, 4),), {"axis": axis}) for axis in (1, 0)),
            Case(op, (T(2, 3, 2, 2),), {"axis": -3}),
            Case(op, (T(3, 4),), {"temperature": 0.5}),
            Case(op, (T(2, 3, 4),), {"temperature": 10.0, "axis": 1}),
            Case(op, (T(3, 4),), {"temperature": -2.0}),
            Case(op, (_large(3, 4),), tag="large", rtol=3e-4, rtol_reason=_SATURATED),
            Case(op, (T(3, 4),), {"dtype": "float64"}),
            Case(op, (T(3, 4),), {"dtype": "float64", "temperature": 3.0, "axis": 0}),
            Case(op, (T(3, 4, dtype="float64"),)),
            Case(op, (T(3, 4, dtype="float64"),), {"dtype": "float32"}, not_derivative=_NARROW),
            Case(
                op,
                (T(3, 4, dtype="float16"),),
                {"dtype": "float32"},
                not_derivative=_NARROW,
                rtol=1e-3,
                rtol_reason=_HALF,
            ),
            Case(op, (T(3, 4, dtype="float16"),), rtol=2e-3, rtol_reason=_HALF),
            Case(
                op,
                (T(3, 4, low=0, high=4, kind="integers", dtype="int32"),),
                {"dtype": "float32"},
                wrt=(),
                no_mxnet="MXNet infers shapes and dtypes of it but has no kernel",
            ),
        )
    ],
    Case("softmax", (T(2, 3, 4), _length(5, 2, 3)), {"use_length": True}, wrt=(0,)),
    Case("softmax", (T(2, 3, 4), _length(4, 2, 4, dtype="int64")), {"use_length": True, "axis": 1}, wrt=(0,)),
    Case("softmax", (T(4, 3), _length(5, 3)), {"use_length": True, "axis": 0, "temperature": 2.0}, wrt=(0,)),
    Case("softmax", (T(2, 5, low=-8, high=8), _length(6, 2)), {"use_length": True}, wrt=(0,)),
    Case("softmax", (T(2, 5, low=2, high=9), _length(5, 2)), {"use_length": True, "dtype": "float64"}, wrt=(0,)),
    Case("SoftmaxActivation", (T(3, 4),)),
    Case("SoftmaxActivation", (T(4),), no_mxnet="MXNet reads axis 1 of its shape"),
    Case("SoftmaxActivation", (T(2, 3, 4),), wrt=()),
    Case("SoftmaxActivation", (T(2, 3, 4),), tag="gradient", no_mxnet="MXNet's gradient adds up over axis 1, not -1"),
    Case("SoftmaxActivation", (T(2, 3, 4),), {"mode": "channel"}),
    Case("SoftmaxActivation", (T(2, 3, 2, 2),), {"mode": "channel"}),
    Case("SoftmaxActivation", (_large(2, 3),), {"mode": "instance"}),
    *(Case("SoftmaxActivation", (T(2, 3, dtype=dtype),), no_mxnet=_ONLY_FLOAT32) for dtype in ("float64", "float16")),
]
