"""Cases of CTCLoss."""

from tests.cases import Case, T

_ONLY_FLOAT32 = "MXNet has only a float32 kernel for it on the CPU"

_THIRD_INPUT = "MXNet's function takes its third input for data_lengths, which the operator then does not know"


def _labels(n: int, count: int, low: int, high: int, dtype: str = "float32"):
    return T(n, count, low=low, high=high, kind="integers", dtype=dtype)


def _lengths(n: int, low: int, high: int):
    return T(n, low=low, high=high + 1, kind="integers")


CASES = [
    Case("CTCLoss", (T(6, 3, 4, low=-2, high=2), _labels(3, 2, 1, 4)), wrt=(0,)),
    Case("CTCLoss", (T(6, 4, 3, low=-2, high=2), _labels(4, 3, 0, 3, "int32")), wrt=(0,), tag="padded"),
    Case("CTCLoss", (T(5, 4, 3), _labels(4, 2, -1, 2)), {"blank_label": "last"}, wrt=(0,), tag="padded"),
    Case("CTCLoss", (T(7, 3, 4), _labels(3, 3, 1, 4), _lengths(3, 6, 7)), {"use_data_lengths": True}, wrt=(0,)),
    Case(
        "CTCLoss",
        (T(7, 4, 4), _labels(4, 3, 1, 4), _lengths(4, 0, 3)),
        {"use_label_lengths": True},
        wrt=(0,),
        no_mxnet=_THIRD_INPUT,
    ),
    Case(
        "CTCLoss",
        (T(6, 3, 4), _labels(3, 3, 0, 3), _lengths(3, 5, 6), _lengths(3, 0, 2)),
        {"use_data_lengths": True, "use_label_lengths": True, "blank_label": "last"},
        wrt=(0,),
    ),
    Case("CTCLoss", (T(4, 2, 3, dtype="float64"), _labels(2, 2, 1, 3)), wrt=(0,), no_mxnet=_ONLY_FLOAT32),
    Case("CTCLoss", (T(4, 2, 3, dtype="float16"), _labels(2, 2, 1, 3)), wrt=(0,), no_mxnet=_ONLY_FLOAT32),
]
