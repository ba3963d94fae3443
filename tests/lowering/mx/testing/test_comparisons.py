"""Arrays are compared with MXNet's tolerances."""

import numpy as np
import pytest

from lowering import mx
from lowering.mx import test_utils as tu

ONES = np.ones((2, 2), np.float32)


def test_tolerances_of_dtypes():
    single, double, half = (np.ones(1, kind) for kind in ("float32", "float64", "float16"))
    assert tu.get_tols(single, double, None, None) == (1e-4, 1e-3)
    assert tu.get_tols(half, single, None, None) == (1e-2, 1e-1)
    assert tu.get_tols(np.ones(1, np.int32), np.ones(1, np.int32), None, None) == (0, 0)
    assert tu.get_tols(1.0, double, None, None) == (1e-5, 1e-20)
    assert tu.get_tols(single, single, {np.float32: 3}, {np.dtype("float16"): 4}) == (3, 1e-3)
    assert tu.get_tols(single, half, 7, 8) == (7, 8)
    assert tu.get_tolerance(mx.nd.ones(1), None, tu.default_numeric_eps()) == 2.0**-9
    assert (tu.get_rtol(), tu.get_atol(), tu.get_etol()) == (1e-5, 1e-20, 0)
    assert (tu.get_rtol(2), tu.get_atol(3), tu.get_etol(0.5), tu.get_rtol(dtype="float16")) == (2, 3, 0.5, 1e-2)
    assert tu.effective_dtype(single) == np.float32
    assert tu.default_rtols()[np.dtype("int8")] == tu.default_atols()[np.dtype("uint64")] == 0


def test_nearly_equal():
    assert tu.almost_equal(ONES, ONES + 1e-6)
    assert not tu.almost_equal(ONES, ONES + 1e-4)
    assert tu.almost_equal(ONES, ONES * 3, rtol=1)
    assert tu.almost_equal(np.nan, np.nan, equal_nan=True)
    assert not tu.almost_equal(np.nan, np.nan)
    with pytest.raises(AssertionError, match="shapes"):
        tu.almost_equal(ONES, np.ones(2), use_broadcast=False)
    tu.assert_almost_equal(mx.nd.array(ONES), ONES + 1e-3)
    tu.assert_almost_equal(ONES, np.ones(1))
    tu.assert_almost_equal(np.array([True]), np.array([True]))
    for wrong in (ONES * 1.01, np.ones((1,)) * 2, mx.nd.array(ONES) * np.nan):
        with pytest.raises(AssertionError, match="first and second differ"):
            tu.assert_almost_equal(ONES, wrong, names=("first", "second"))
    with pytest.raises(AssertionError, match="first and second have shapes"):
        tu.assert_almost_equal(ONES, np.ones(1), names=("first", "second"), use_broadcast=False)
    tu.assert_allclose(np.array([1, np.nan]), np.array([1, np.nan]))
    with pytest.raises(AssertionError):
        tu.assert_allclose(np.ones(1), np.ones(1) + 1e-6)


def test_some_may_differ():
    right, wrong = np.array([1, 1, 1, 1.0]), np.array([1, 2, np.nan, 1])
    tu.assert_almost_equal_ignore_nan(right[[0, 2]], wrong[[0, 2]])
    with pytest.raises(AssertionError, match="left and right"):
        tu.assert_almost_equal_ignore_nan(right, wrong, names=("left", "right"))
    assert np.isnan(wrong[2])
    tu.assert_almost_equal_with_err(right, wrong, etol=0.5)
    with pytest.raises(AssertionError):
        tu.assert_almost_equal_with_err(right, wrong, etol=0.4)
    with pytest.raises(AssertionError):
        tu.assert_almost_equal_with_err(right, wrong)


def test_the_same_memory():
    x = mx.nd.arange(6)
    assert tu.same_array(x, x[:])
    assert tu.same_array(x[2:4], x[2:4])
    assert not tu.same_array(x, x.copy())
    assert x.asnumpy().tolist() == [0, 1, 2, 3, 4, 5]
    assert tu.same(x, np.arange(6))
