"""`lowering/jax_casts.py`: casts of JAX's arrays are MXNet's, and no number of 64 bits becomes another one in 32."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowering.jax_casts import TooWideError, cast, held, is_narrowed, number_as, require_held, written
from symjax_nnvm.ir.casts import cast as numpy_cast
from tests.ir.test_casts import INTEGERS, NUMBERS

BIG = 2**40 + 3


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("given", ["bfloat16", "float16", "float32", "float64"])
def test_xla_casts_floats_as_mxnet_does(given: str, wide: bool):
    with jax.enable_x64(wide), np.errstate(over="ignore"):
        numbers = jnp.asarray(NUMBERS.astype(jax.dtypes.canonicalize_dtype(given)))
        results = jax.jit(lambda x: [cast(x, wanted) for wanted in INTEGERS])(numbers)
        for result, wanted in zip(results, INTEGERS, strict=True):
            held_in = jax.dtypes.canonicalize_dtype(wanted)
            assert result.dtype == held_in
            assert result.tolist() == numpy_cast(np.asarray(numbers), held_in).tolist()


def test_other_casts_are_jaxs():
    assert cast(jnp.asarray([300, -1]), "uint8").tolist() == [44, 255]
    assert cast(jnp.asarray([0.5, 0, jnp.nan]), "bool").tolist() == [True, False, True]
    assert cast(jnp.asarray([1.5]), "float16").dtype == np.float16


@pytest.mark.parametrize(
    ("number", "dtype"), [(BIG, "int64"), (-(2**31) - 1, "int64"), (2**32 + 5, "uint64"), (1e300, "float64")]
)
def test_a_number_that_32_bits_do_not_hold_is_an_error_that_says_how_to_have_64(number: float, dtype: str):
    array = np.array([1, number], dtype)
    for function in (held, require_held):
        with pytest.raises(TooWideError, match=r"does not hold .* and JAX's 64-bit mode is off.*JAX_ENABLE_X64=1"):
            function(array)
    with pytest.raises(TooWideError, match="in input 'ids'"):
        held(array, name="ids")
    with jax.enable_x64(True):
        assert held(array) is array
        assert not is_narrowed(array.dtype)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [([2**31 - 1, -(2**31)], "int64"), ([2**32 - 1], "uint64"), ([3e38, np.inf, -np.inf, np.nan, 0.1], "float64")],
)
def test_numbers_that_fit_are_narrowed(values: list[Any], dtype: str):
    result = held(np.array(values, dtype))
    assert result.dtype == np.dtype(dtype[:-2] + "32")
    np.testing.assert_allclose(result, values, rtol=1e-7)


def test_what_is_written_is_a_copy_and_wraps_in_narrow_integers_alone():
    assert written(np.array([300, -1]), np.dtype("uint8")).tolist() == [44, 255]
    same = np.array([1, 2], np.int32)
    assert not np.shares_memory(written(same, np.dtype("int32")), same)
    with pytest.raises(TooWideError, match=f"int32 does not hold {BIG}"):
        written(np.array([1, BIG]), np.dtype("int32"))
    with jax.enable_x64(True):
        assert written(np.array([1, BIG]), np.dtype("int32")).tolist() == [1, 3]
    assert written(np.array([3e9]), np.dtype("int32")).tolist() == [-(2**31)]
    assert written(jnp.asarray([300.7, -1]), np.dtype("uint8")).tolist() == [44, 255]


def test_numbers_meet_arrays_as_in_mxnet():
    assert [int(number_as(number, "uint8")) for number in (300, 300.7, -1, -2.7, 3e9)] == [44, 44, 255, 254, 0]
    assert number_as(BIG, "float32") == np.float32(BIG)
    with pytest.raises(TooWideError):
        number_as(3e9, "int32")
    with jax.enable_x64(True):
        assert number_as(3e9, "int32") == -(2**31)
        assert number_as(2**62 + 1, "int64") == 2**62 + 1
