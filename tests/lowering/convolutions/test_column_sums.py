"""`column_sums`: blocks of rows, and what is left of them, add up to the sums of NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest

from lowering.ops.nn.column_sums import BLOCK, SMALL, column_sums


@pytest.mark.nightly("every case", but_one_in=2)
@pytest.mark.slow("has many cases")
@pytest.mark.parametrize(
    "shape",
    [(7,), (3, 5, 4), (2, 8 * BLOCK, 1), (3, 2 * BLOCK + 1, 8), (2, 5, BLOCK), (1, SMALL + 1), (SMALL // 8, 9)],
    ids=["one", "few", "blocks", "rest", "row is a block", "row is more than a block", "no rows"],
)
def test_sums_of_two_terms(shape):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    center = rng.standard_normal(shape[-1]).astype(np.float32)
    terms = column_sums(lambda x, y, center: (x, x * (y - center)), [jnp.asarray(x), jnp.asarray(y)], [center])
    axes = tuple(range(len(shape) - 1))
    wanted = (np.sum(x, axes, np.float64), np.sum(x * (y - center), axes, np.float64))
    for got, expected in zip(terms, wanted, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 * np.sqrt(x.size / shape[-1]))
