"""Generators of a distribution pass, others fail."""

import numpy as np
import pytest
from scipy.special import chdtrc, ndtri

from lowering.mx import test_utils as tu

RNG = np.random.default_rng(3)


def test_moments():
    assert tu.mean_check(lambda n: RNG.normal(2, 3, n), 2, 3, 10000)
    assert not tu.mean_check(lambda n: RNG.normal(2.3, 3, n), 2, 3, 10000)
    assert tu.var_check(lambda n: RNG.normal(2, 3, n), 3, 10000)
    assert not tu.var_check(lambda n: RNG.normal(2, 3.2, n), 3, 10000)


@pytest.mark.slow("computes much")
def test_intervals():
    buckets, probs = tu.gen_buckets_probs_with_ppf(lambda p: 1 + 2 * float(ndtri(p)), 5)
    assert (len(buckets), probs) == (5, [0.2] * 5)
    p, observed, expected = tu.chi_square_check(lambda n: np.linspace(-9, 9, n), buckets, probs, 1000)
    assert p == pytest.approx(chdtrc(4, ((observed - expected) ** 2 / expected).sum()), abs=1e-6)
    assert observed.sum() == expected.sum() == 1000
    assert len(tu.verify_generator(lambda n: RNG.normal(1, 2, n), buckets, probs, 20000)) == 5
    with pytest.raises(AssertionError, match="Generator test fails, Chi-square p="):
        tu.verify_generator(lambda n: RNG.normal(1.3, 2, n), buckets, probs, 20000)
    with pytest.raises(AssertionError, match="overlap"):
        tu.chi_square_check(lambda n: RNG.normal(size=n), [(0, 2), (1, 3)], [0.5, 0.5], 10)


@pytest.mark.slow("compiles")
def test_values():
    p, observed, _ = tu.chi_square_check(lambda n: np.arange(n) % 3, [0, 1, 2], [1 / 3, 1 / 3, 1 / 3], 300)
    assert (p, observed.tolist()) == (1.0, [100, 100, 100])
    skewed, *_ = tu.chi_square_check(lambda n: np.arange(n) % 2, [0, 1, 2], [1 / 3, 1 / 3, 1 / 3], 300)
    assert skewed < 1e-6
