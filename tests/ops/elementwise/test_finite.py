"""Which numbers are finite, and what stands for those that are not."""

import jax
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from tests.support.traced import evaluated

SPECIAL = [np.nan, np.inf, -np.inf, 1.5]


def result(op: str, x: np.ndarray, **params: float) -> np.ndarray:
    (out,), _ = evaluated(lowering.to_jax(getattr(sym, op)(sym.Variable("x"), **params)), {"x": x})
    return np.asarray(out)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("isnan", [True, False, False, False]),
        ("isinf", [False, True, True, False]),
        ("isfinite", [False, False, False, True]),
        ("isposinf", [False, True, False, False]),
        ("isneginf", [False, False, True, False]),
    ],
)
def test_verdicts(op: str, expected: list[bool]):
    for dtype in (np.float32, np.float16):
        assert result(f"_npi_{op}", np.array(SPECIAL, dtype)).tolist() == expected


def test_numbers_for_what_is_not_finite():
    for dtype in (np.float32, np.float16):
        x, largest = np.array(SPECIAL, dtype), float(np.finfo(dtype).max)
        assert result("_npi_nan_to_num", x).tolist() == [0, largest, -largest, 1.5]
        assert result("_npi_nan_to_num", x, nan=2.5, posinf=7, neginf=-8.5).tolist() == [2.5, 7, -8.5, 1.5]


def test_the_gradient_passes_where_the_data_are_finite():
    net = sym._npi_nan_to_num(sym.Variable("x"))
    _, grads, _ = evaluated(
        lowering.grad_fn(net, ["x"]), {"x": np.array(SPECIAL, np.float32)}, {}, None, [np.ones(4, np.float32)]
    )
    assert np.asarray(grads["x"]).tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("x", "dtype", "decimals", "expected"),
    [
        ([-25.5, -2.5, -1.55, 0.5, 1.5, 2.45, 15, 25], "float32", 0, [-26, -2, -2, 0, 2, 2, 15, 25]),
        ([-25.5, -2.5, -1.55, 0.5, 1.5, 2.45, 15, 25], "float32", 1, [-25.5, -2.5, -1.6, 0.5, 1.5, 2.4, 15, 25]),
        ([-25.5, -2.5, 15, 25], "float32", -1, [-30, 0, 20, 20]),
        ([-25, -2, 15, 25], "int32", -1, [-20, 0, 10, 20]),
        ([231, 254, 255], "uint8", -1, [230, 250, 250]),
        ([100, -7], "int8", -3, [0, 0]),
    ],
)
def test_halves_go_to_the_even_digit_and_whole_numbers_are_cut(x, dtype, decimals, expected):
    with jax.enable_x64(True):
        found = result("_npi_around", np.array(x, dtype), decimals=decimals)
    np.testing.assert_array_equal(found, np.array(expected, dtype))
