"""`lowering/norms.py`: norms are right at both ends of the range, and cost one pass over ordinary numbers."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowering.norms import _branching, _selecting, norm

ROWS = np.array([[3.0, 4.0, 0.0], [1.0, 2.0, 2.0], [0.0, 0.0, 0.0]])
LENGTHS = np.array([5.0, 3.0, 0.0])


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize(
    ("dtype", "scale"),
    [
        *(("float16", scale) for scale in (1e4, 1.0, 1e-6)),
        *(("bfloat16", scale) for scale in (1e37, 1e-36)),
        *(("float32", scale) for scale in (6e37, 1e20, 1.0, 1e-19, 1e-30, 2e-38)),
        *(("float64", scale) for scale in (3e307, 1e200, 1e-200, 4e-308)),
    ],
)
def test_norms_of_rows_are_right_wherever_they_are_in_range(dtype: str, scale: float):
    with jax.enable_x64(dtype == "float64"):
        rows = jnp.asarray(ROWS * scale, dtype)
        expected = np.linalg.norm(np.asarray(rows, np.float64) / scale, axis=1)
        lengths = np.asarray(norm(rows, axes=(1,)), np.float64) / scale
    np.testing.assert_allclose(lengths, expected, rtol=2e-2 if "16" in dtype else 1e-6)
    np.testing.assert_allclose(expected, LENGTHS, rtol=2e-1)


@pytest.mark.slow("compiles")
def test_rows_of_all_sizes_stand_side_by_side_in_vmap_too():
    scales = np.array([[1e20], [1.0], [1e-30], [0.0]], np.float32)
    rows = jnp.asarray(np.array([[3.0, 4.0]], np.float32) * scales)
    expected = 5 * scales[:, 0]
    np.testing.assert_allclose(norm(rows, axes=(1,)), expected, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(norm)(rows), expected, rtol=1e-6)
    np.testing.assert_allclose(norm(*rows), 5e20, rtol=1e-6)


@pytest.mark.slow("computes much")
def test_infinity_and_nan_stay():
    rows = jnp.asarray([[np.inf, 1], [-np.inf, 1e20], [np.nan, 1], [np.nan, np.inf]], jnp.float32)
    np.testing.assert_array_equal(norm(rows, axes=(1,)), [np.inf, np.inf, np.nan, np.nan])


@pytest.mark.slow("computes much")
def test_a_term_is_added_to_the_squares():
    rows = jnp.asarray([[3e20, 4e20], [3.0, 4.0], [0.0, 0.0]], jnp.float32)
    np.testing.assert_allclose(norm(rows, axes=(1,), plus=1e-10), [5e20, 5, 1e-5], rtol=1e-6)
    np.testing.assert_allclose(norm(rows * 1e-30, axes=(1,), plus=1e-30), [5e-10, 1e-15, 1e-15], rtol=1e-6)


@pytest.mark.slow("computes much")
def test_norms_of_ordinary_numbers_are_rounded_as_the_plain_formula():
    x = jnp.asarray(np.random.default_rng(3).standard_normal((40, 50)), jnp.float32)
    np.testing.assert_array_equal(norm(x, axes=(1,)), jnp.sqrt(jnp.sum(x * x, 1)))


def test_half_precision_takes_no_branch():
    branches = ["cond" in str(jax.make_jaxpr(norm)(jnp.ones(3, dtype))) for dtype in ("float16", "bfloat16", "float32")]
    assert branches == [False, True, True]


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("function", [_branching, _selecting])
def test_processors_and_accelerators_compute_the_same(function: Callable[..., jax.Array]):
    x = jnp.asarray(np.array([[3.0, 4.0]]) * [[1e20], [1.0], [1e-30], [0.0], [np.inf], [np.nan]], jnp.float32)
    expected = np.array([5e20, 5, 5e-30, 0, np.inf, np.nan])
    np.testing.assert_allclose(function(x, axes=(1,), plus=0.0)[:, 0], expected, rtol=1e-6)
    with_plus = np.sqrt(expected**2 + 1e-10)
    np.testing.assert_allclose(function(x, axes=(1,), plus=1e-10)[:, 0], with_plus, rtol=1e-6)
    np.testing.assert_allclose(function(x[0], x[1], axes=None, plus=0.0), 5e20, rtol=1e-6)


def test_a_processors_program_has_one_branch():
    """XLA takes away that between platforms, so that an accelerator's has none."""
    compiled = jax.jit(norm).lower(jnp.ones(5)).compile()
    assert (compiled.as_text() or "").count("conditional(") == 1
