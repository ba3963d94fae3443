"""`symjax_nnvm/ir/casts.py`: floats as integers, as MXNet 1.9.1 has them on x86 (its `nd.cast` wrote the table)."""

import numpy as np
import pytest

from symjax_nnvm.ir.casts import cast, integers_in_between

LEAST, LEAST_LONG = -(2**31), -(2**63)

MXNET = {
    # a float32: uint8, int8, int32, int64
    256.0: (0, 0, 256, 256),
    -1.0: (255, -1, -1, -1),
    300.7: (44, 44, 300, 300),
    -300.7: (212, -44, -300, -300),
    128.0: (128, -128, 128, 128),
    -129.0: (127, 127, -129, -129),
    70000.0: (112, 112, 70000, 70000),
    -70000.0: (144, -112, -70000, -70000),
    2.0**31: (0, 0, LEAST, 2**31),
    -(2.0**31): (0, 0, LEAST, LEAST),
    2.0**32: (0, 0, LEAST, 2**32),
    3e9: (0, 0, LEAST, 3 * 10**9),
    -3e9: (0, 0, LEAST, -3 * 10**9),
    2.0**53: (0, 0, LEAST, 2**53),
    2.0**63: (0, 0, LEAST, LEAST_LONG),
    -(2.0**63): (0, 0, LEAST, LEAST_LONG),
    1e30: (0, 0, LEAST, LEAST_LONG),
    np.inf: (0, 0, LEAST, LEAST_LONG),
    -np.inf: (0, 0, LEAST, LEAST_LONG),
    np.nan: (0, 0, LEAST, LEAST_LONG),
    0.9: (0, 0, 0, 0),
    -0.9: (0, 0, 0, 0),
}
INTEGERS = ("uint8", "int8", "int32", "int64")
NUMBERS = np.array(list(MXNET), np.float32)


@pytest.mark.parametrize("given", ["float32", "float64"])
@pytest.mark.parametrize("wanted", INTEGERS)
def test_floats_as_integers_are_mxnets(given: str, wanted: str):
    expected = [row[INTEGERS.index(wanted)] for row in MXNET.values()]
    assert cast(NUMBERS.astype(given), np.dtype(wanted)).tolist() == expected


def test_half_precision_and_what_is_no_float():
    assert cast(np.array([300.7, -1, np.inf, np.nan], np.float16), np.dtype("uint8")).tolist() == [44, 255, 0, 0]
    assert cast(np.array([300, -1]), np.dtype("uint8")).tolist() == [44, 255]
    assert cast(np.array([0.5, 0, np.nan]), np.dtype("bool")).tolist() == [True, False, True]
    assert cast(np.array([1e39]), np.dtype("float32")).tolist() == [np.inf]
    assert integers_in_between(np.dtype("float32"), np.dtype("uint64")) is None
