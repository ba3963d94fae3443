"""JAX rules of histogram."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lowering.core.rules import lowers
from symjax_nnvm.ops.reduce import histogram as ops


@lowers("_histogram")
def _histogram(p: ops.HistogramParams, data: Array, bins: Array | None = None) -> tuple[Array, Array]:
    data = data.reshape(-1)
    if bins is None:
        places, edges = _uniform(p, data)
    else:
        edges, last = bins, bins.shape[0] - 2
        places = jnp.minimum(jnp.searchsorted(bins, data, side="right") - 1, last)
        places = jnp.where((data >= bins[0]) & (data <= bins[-1]), places, last + 1)
    counts = jnp.zeros(edges.shape[0] - 1, jax.dtypes.canonicalize_dtype("int64"))
    return counts.at[places].add(1, mode="drop"), edges


def _uniform(p: ops.HistogramParams, data: Array) -> tuple[Array, Array]:
    """Return (each element's bin of one width, or the number of bins for one outside; the bins' edges)."""
    number, (low, high) = p.bin_cnt or 0, p.range or (0.0, 0.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    edges = jnp.asarray(ops.edges(number, low, high, data.dtype))
    # An element near an edge may be computed into the bin beside its own; the edges, as they are rounded, decide.
    wide = data.astype(jax.dtypes.canonicalize_dtype("float64"))
    places = jnp.floor((wide - low) * (number / (high - low))).astype(np.int32)
    places = jnp.clip(places, 0, number - 1)
    places = places - (data < edges[places])
    places = places + ((data >= edges[places + 1]) & (places != number - 1))
    inside = (data >= _bound(low, data.dtype, math.inf)) & (data <= _bound(high, data.dtype, -math.inf))
    return jnp.where(inside, places, number), edges


def _bound(bound: float, dtype: np.dtype, inwards: float) -> np.ndarray:
    """Return the outermost number of the dtype within a bound that it may not be able to hold."""
    if not jnp.issubdtype(dtype, jnp.floating):
        info = np.iinfo(dtype)  # Python's integers: the bound may be beyond any of NumPy's
        whole = math.ceil(bound) if inwards > 0 else math.floor(bound)
        return np.asarray(min(max(whole, int(info.min)), int(info.max)), dtype)
    rounded = np.asarray(bound, dtype)
    outside = float(rounded) < bound if inwards > 0 else float(rounded) > bound
    return np.nextafter(rounded, np.asarray(inwards, dtype)) if outside else rounded
