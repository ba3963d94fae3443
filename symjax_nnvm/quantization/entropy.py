"""The threshold that keeps most of a distribution when it is rounded to few levels: MXNet's calibration by entropy.

The idea is that of TensorRT's calibration: among thresholds, the one whose rounded histogram has the least
Kullback-Leibler divergence from the histogram.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

_SMOOTHING = np.float32(0.0001)

_NEAR = 1e-6
"""How far a divergence may be off by the last bits of the logarithms in it."""


def entropy_threshold(counts: np.ndarray, edges: np.ndarray, levels: int) -> tuple[float, float]:
    """Return the threshold and its divergence, as `_contrib_calibrate_entropy` does.

    Args:
        counts: the histogram, of an odd number of bins around 0.
        edges: their edges, one more than there are bins.
        levels: the number of levels that values are rounded to, odd.
    """
    counts = np.asarray(counts, np.float32)
    middle = counts.size // 2
    estimates, errors = _estimates(counts.astype(np.float64), middle, levels)
    close = np.flatnonzero(estimates - errors <= (estimates + errors).min()) + levels // 2
    divergences = np.array([_divergence(counts, middle, int(half), levels, np.log) for half in close])
    near = np.flatnonzero(divergences <= divergences.min() + _NEAR)
    if near.size > 1:
        divergences[near] = [_divergence(counts, middle, int(half), levels, _c_log()) for half in close[near]]
    best = int(np.argmin(divergences))
    return float(np.float32(edges[middle + close[best] + 1])), float(divergences[best])


def _estimates(counts: np.ndarray, middle: int, levels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the divergences of all thresholds by sums over levels in place of bins, and how far off they may be."""
    filled = counts > 0
    logs = np.log(counts, out=np.zeros_like(counts), where=filled)
    inverse = np.divide(1, counts, out=np.zeros_like(counts), where=filled)
    number, total, entropy, log_sum, inverse_sum = (
        np.append(0, np.cumsum(terms)) for terms in (filled, counts, counts * logs, logs, inverse)
    )
    halves = np.arange(levels // 2, middle + 1)
    estimates, errors = np.full((2, halves.size), np.inf)
    for merged in range(1, (2 * middle + 1) // levels + 1):
        of = np.flatnonzero((2 * halves + 1) // levels == merged)
        start, stop = middle - halves[of], middle + halves[of] + 1
        bounds = start[:, None] + merged * np.arange(levels + 1)
        bounds[:, 0], bounds[:, -1] = start + 1, stop
        sums, bins = np.diff(total[bounds]), np.diff(number[bounds])
        means = np.divide(sums, bins, out=np.zeros_like(sums), where=bins > 0)
        first, last, inner_last = total[start + 1], total[-1] - total[stop - 1], counts[stop - 1]
        # What is outside the threshold is added to the first and the last bin, which may be empty within it.
        p_filled = number[stop - 1] - number[start + 1] + (first > 0) + (last > 0)
        p_taken = _SMOOTHING * (2 * halves[of] + 1 - p_filled) / p_filled
        mass, count = sums - p_taken[:, None] * bins, bins.copy()
        mass[:, -1] += np.where(inner_last > 0, last - inner_last, 0)
        lost = _SMOOTHING * (2 * halves[of] + 1 - p_filled)
        for level, bin_mass, is_extra in ((0, first, first > 0), (-1, last, (last > 0) & (inner_last == 0))):
            is_counted = is_extra & (bins[:, level] > 0)
            mass[:, level] += np.where(is_counted, bin_mass - p_taken, 0)
            count[:, level] += is_counted
            lost = lost + np.where(is_extra & ~is_counted, bin_mass - p_taken, 0)
        q_filled, q_total = count.sum(1), (count * means).sum(1)
        q_taken = _SMOOTHING * (2 * halves[of] + 1 - q_filled) / np.maximum(q_filled, 1)
        possible = (q_filled > 0) & (q_taken < 1)
        own = _of_ends(first, p_taken) + _of_ends(last, p_taken)
        own += entropy[stop - 1] - entropy[start + 1]
        own -= p_taken * (log_sum[stop - 1] - log_sum[start + 1] + number[stop - 1] - number[start + 1])
        own += p_taken**2 / 2 * (inverse_sum[stop - 1] - inverse_sum[start + 1])
        own += _SMOOTHING * (2 * halves[of] + 1 - p_filled) * np.log(_SMOOTHING)
        level_logs = np.log(means - q_taken[:, None], out=np.zeros_like(means), where=(means > 0) & possible[:, None])
        other = (mass * level_logs).sum(1) + lost * np.log(_SMOOTHING)
        scale = np.log(total[-1]) - np.log(np.maximum(q_total, 1e-30))
        estimates[of] = np.where(possible, (own - other) / total[-1] - scale, np.inf)
        errors[of] = 1e-5 + 1e-3 * np.abs(estimates[of]) + p_taken**3
    return estimates, np.where(np.isfinite(estimates), errors, 0)


def _of_ends(mass: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """p log p of a bin that something is taken from; 0 of an empty one."""
    remaining = mass - taken
    return remaining * np.log(remaining, out=np.zeros_like(remaining), where=mass > 0) * (mass > 0)


@cache
def _c_log() -> Callable[[np.ndarray], Any]:
    """The C library's logarithm of float32, which MXNet takes: its last bits choose one of two thresholds that are
    alike. NumPy's where there is none."""
    try:
        log = ctypes.CDLL(None).logf
    except (AttributeError, OSError, TypeError):  # no C library with this name: on Windows
        return np.log
    log.argtypes, log.restype = [ctypes.c_float], ctypes.c_float
    of_each = np.frompyfunc(log, 1, 1)
    return lambda values: of_each(values).astype(np.float32)


def _divergence(counts: np.ndarray, middle: int, half: int, levels: int, log: Callable[[np.ndarray], Any]) -> Any:
    """Of the bins within the threshold, with what is outside at both ends, from the same rounded to levels."""
    start, stop = middle - half, middle + half + 1
    within = counts[start:stop].copy()
    within[0] = 0
    clipped = within.copy()
    clipped[0] = _sum(counts[: start + 1])
    clipped[-1] += _sum(counts[stop:])
    merged = within.size // levels
    starts = np.arange(levels) * merged
    sums = np.add.reduceat(within, starts, dtype=np.float64).astype(np.float32)
    filled = np.add.reduceat((within != 0).astype(np.float32), starts)
    means = np.divide(sums, filled, out=np.zeros_like(sums), where=filled > 0)
    means = np.append(np.repeat(means, merged), np.repeat(means[-1:], within.size - levels * merged))
    rounded = np.where(clipped != 0, means, np.float32(0))
    p, q = _smoothed(clipped), _smoothed(rounded)
    if p is None or q is None:
        return np.float32(np.inf)
    p, q = p / _sum(p), q / _sum(q)
    return _sum(p * log(p / q))


def _smoothed(histogram: np.ndarray) -> np.ndarray | None:
    """Give empty bins a little of the others; None where these have too little."""
    empty = histogram == 0
    filled = histogram.size - int(empty.sum())
    if not filled:
        return None
    taken = _SMOOTHING * np.float32(empty.sum()) / np.float32(filled)
    return None if taken >= 1 else histogram + np.where(empty, _SMOOTHING, -taken)


def _sum(values: np.ndarray) -> np.float32:
    """One after the other in float32, as MXNet does: another order chooses another of two thresholds that are alike."""
    return np.add.accumulate(values, dtype=np.float32)[-1] if values.size else np.float32(0)
