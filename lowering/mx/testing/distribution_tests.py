"""Tests whether a generator of random numbers has the expected distribution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Generator = Callable[[int], Any]
"""n → n independent samples."""


def gen_buckets_probs_with_ppf(ppf: Callable[[float], float], nbuckets: int) -> tuple[list[Any], list[float]]:
    """(intervals of equal probability, their probabilities). ppf: the inverse of the distribution's function."""
    assert nbuckets > 0
    buckets = [(ppf(i / nbuckets), ppf((i + 1) / nbuckets)) for i in range(nbuckets)]
    return buckets, [1.0 / nbuckets] * nbuckets


def mean_check(generator: Generator, mu: float, sigma: float, nsamples: int = 1000000) -> bool:
    """Whether the mean of samples is less than three standard deviations of it away from mu."""
    mean = np.array(generator(nsamples)).mean()
    return bool(abs(mean - mu) < 3 * sigma / np.sqrt(nsamples))


def var_check(generator: Generator, sigma: float, nsamples: int = 1000000) -> bool:
    """Whether the variance of samples is less than three standard deviations of it away from sigma²."""
    variance = np.array(generator(nsamples)).var(ddof=1)
    return bool(abs(variance - sigma**2) < 3 * np.sqrt(2 * sigma**4 / (nsamples - 1)))


def chi_square_check(
    generator: Generator, buckets: list[Any], probs: Sequence[float], nsamples: int = 1000000
) -> tuple[float, np.ndarray, np.ndarray]:
    """(p value of Pearson's test, how many samples are in each bucket, how many are expected).

    buckets: intervals (low, high) in ascending order, or values. probs: the probability of each.
    """
    assert isinstance(buckets, list)
    assert len(probs) == len(buckets)
    samples = np.asarray(generator(nsamples))
    if isinstance(buckets[0], list | tuple):
        ends = np.array(buckets, np.float32).ravel()
        assert np.all(ends[1:] >= ends[:-1]), "the buckets overlap or are not in ascending order"
        numbers = np.searchsorted(ends, samples, side="right") // 2
        observed = np.array([np.sum(numbers == i) for i in range(len(buckets))])
    else:
        observed = np.array([np.sum(samples == value) for value in buckets])
    expected = (nsamples * np.array(probs, np.float32)).astype(np.int32)
    distance = np.sum((observed - expected) ** 2 / expected)
    from jax.scipy.stats import chi2  # 25 ms, which importing MXNet's namespace would take

    return float(chi2.sf(distance, len(buckets) - 1)), observed, expected


def verify_generator(
    generator: Generator,
    buckets: list[Any],
    probs: Sequence[float],
    nsamples: int = 1000000,
    nrepeat: int = 5,
    success_rate: float = 0.2,
    alpha: float = 0.05,
) -> list[float]:
    """The p values of as many chi-square tests. Raises AssertionError where fewer than a part success_rate of them are
    above alpha."""
    rounds = [chi_square_check(generator, buckets, probs, nsamples) for _ in range(nrepeat)]
    values = [p for p, _, _ in rounds]
    if sum(p > alpha for p in values) < nrepeat * success_rate:
        frequencies = [observed.tolist() for _, observed, _ in rounds]
        expected = rounds[0][2].tolist()
        problem = f"Generator test fails, Chi-square p={values}, obs_freq={frequencies}, expected_freq={expected}."
        raise AssertionError(f"{problem}\nbuckets={buckets}, probs={probs}")
    return values
