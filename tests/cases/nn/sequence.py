"""Cases of the operators on batches of sequences of different lengths."""

from tests.cases import Case, T

_BATCH_FIRST = "MXNet reverses along axis 0 only"


def _lengths(n: int, steps: int, dtype: str = "float32", low: int = 1):
    return T(n, low=low, high=steps + 1, kind="integers", dtype=dtype)


CASES = [
    Case("SequenceMask", (T(4, 3, 2),)),
    Case("SequenceMask", (T(4, 3, 2), _lengths(3, 4, low=0)), {"use_sequence_length": True}, wrt=(0,)),
    Case("SequenceMask", (T(3, 4), _lengths(3, 4)), {"use_sequence_length": True, "axis": 1, "value": -2.5}, wrt=(0,)),
    Case(
        "SequenceMask",
        (T(4, 2, 2, dtype="float64"), _lengths(2, 4, "int32")),
        {"use_sequence_length": True, "value": 0.1},
        wrt=(0,),
    ),
    Case("SequenceMask", (T(4, 3, dtype="float16"), _lengths(3, 4, "int64")), {"use_sequence_length": True}, wrt=(0,)),
    Case(
        "SequenceMask",
        (T(4, 3, low=-9, high=9, kind="integers", dtype="int32"), _lengths(3, 4, "int32")),
        {"use_sequence_length": True, "value": 7.0},
        wrt=(),
    ),
    Case("SequenceLast", (T(4, 3, 2),)),
    Case("SequenceLast", (T(4, 3),), {"axis": 1}),
    Case("SequenceLast", (T(4, 3, 2), _lengths(3, 4)), {"use_sequence_length": True}, wrt=(0,)),
    Case("SequenceLast", (T(3, 4, 2), _lengths(3, 4, "int32")), {"use_sequence_length": True, "axis": 1}, wrt=(0,)),
    Case("SequenceLast", (T(5, 4, dtype="float64"), _lengths(4, 5)), {"use_sequence_length": True}, wrt=(0,)),
    Case("SequenceReverse", (T(4, 3, 2),)),
    Case("SequenceReverse", (T(4, 3, 2), _lengths(3, 4)), {"use_sequence_length": True}, wrt=(0,)),
    Case(
        "SequenceReverse", (T(5, 4, dtype="float16"), _lengths(4, 5, "int32")), {"use_sequence_length": True}, wrt=(0,)
    ),
    Case(
        "SequenceReverse",
        (T(3, 5, 2), _lengths(3, 5)),
        {"use_sequence_length": True, "axis": 1},
        wrt=(0,),
        no_mxnet=_BATCH_FIRST,
    ),
]
