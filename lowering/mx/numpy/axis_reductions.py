"""Functions that reduce axes: sums, means, extremes and where they are, quantiles, counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lowering.mx.accepted_types import AxisLike, DType
from lowering.mx.numpy.operators import DialectValueError, Operators, UnsupportedError, is_number
from symjax_nnvm.errors import SymbolTypeError


def sum(
    op: Operators,
    a: Any,
    axis: AxisLike = None,
    dtype: DType = None,
    keepdims: bool = False,
    initial: float | None = None,
    out: Any = None,
) -> Any:
    """The sum over axes."""
    return op("_np_sum", a, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, out=out)


def prod(
    op: Operators,
    a: Any,
    axis: AxisLike = None,
    dtype: DType = None,
    out: Any = None,
    keepdims: bool = False,
) -> Any:
    """The product over axes."""
    return op("_np_prod", a, axis=axis, dtype=dtype, keepdims=keepdims, out=out)


def _reduction(name: str, doc: str) -> Callable[..., Any]:

    def function(op: Operators, a: Any, axis: AxisLike = None, keepdims: bool = False, out: Any = None) -> Any:
        return op(f"_np_{name}", a, axis=axis, keepdims=keepdims, out=out)

    function.__name__, function.__doc__ = name, doc
    return function


max = _reduction("max", "The largest element over axes.")
min = _reduction("min", "The smallest element over axes.")
all = _reduction("all", "Whether all elements over axes are not zero.")
any = _reduction("any", "Whether some element over axes is not zero.")


def mean(
    op: Operators, a: Any, axis: AxisLike = None, dtype: DType = None, out: Any = None, keepdims: bool = False
) -> Any:
    """The mean over axes, of whole numbers in float32."""
    return op("_npi_mean", a, axis=axis, dtype=dtype, keepdims=keepdims, out=out)


def _spread(name: str, doc: str) -> Callable[..., Any]:

    def function(
        op: Operators,
        a: Any,
        axis: AxisLike = None,
        dtype: DType = None,
        out: Any = None,
        ddof: int = 0,
        keepdims: bool = False,
    ) -> Any:
        return op(f"_npi_{name}", a, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims, out=out)

    function.__name__, function.__doc__ = name, doc
    return function


std = _spread("std", "The standard deviation over axes.")
var = _spread("var", "The variance over axes.")


def average(
    op: Operators, a: Any, axis: AxisLike = None, weights: Any = None, returned: bool = False, out: Any = None
) -> Any:
    """The weighted mean over axes. returned: the sum of the weights, too."""
    inputs = (a,) if weights is None else (a, weights)
    results = op("_npi_average", *inputs, axis=axis, returned=returned, weighted=weights is not None, out=out)
    return results[0] if isinstance(results, list) and not returned else results


def argmax(op: Operators, a: Any, axis: int | None = None, out: Any = None) -> Any:
    """The index of the largest element along an axis, or of the flat array."""
    return op("_npi_argmax", a, axis=axis, keepdims=False, out=out)


def argmin(op: Operators, a: Any, axis: int | None = None, out: Any = None) -> Any:
    """The index of the smallest element along an axis, as `argmax`."""
    return op("_npi_argmin", a, axis=axis, keepdims=False, out=out)


def cumsum(op: Operators, a: Any, axis: int | None = None, dtype: DType = None, out: Any = None) -> Any:
    """The sums of the elements so far along an axis, or of the flat array."""
    return op("_np_cumsum", a, axis=axis, dtype=dtype, out=out)


def percentile(
    op: Operators,
    a: Any,
    q: Any,
    axis: AxisLike = None,
    out: Any = None,
    overwrite_input: bool | None = None,
    interpolation: str = "linear",
    keepdims: bool = False,
    method: str | None = None,
) -> Any:
    """The q-th percentiles over axes. q: a number from 0 to 100, or an array of them. method: NumPy's name of
    interpolation today."""
    interpolation = method or interpolation
    if overwrite_input is not None:
        raise UnsupportedError("overwrite_input is not supported yet")
    params = {"axis": axis, "interpolation": interpolation, "keepdims": keepdims, "out": out}
    if is_number(q):
        return op("_npi_percentile", a, q_scalar=q, **params)
    return op("_npi_percentile", a, q, q_scalar=None, **params)


def quantile(
    op: Operators,
    a: Any,
    q: Any,
    axis: AxisLike = None,
    out: Any = None,
    overwrite_input: bool | None = None,
    interpolation: str = "linear",
    keepdims: bool = False,
    method: str | None = None,
) -> Any:
    """The q-th quantiles over axes. q: a number from 0 to 1, or an array of them. method: as of percentile."""
    return percentile(op, a, q * 100, axis, out, overwrite_input, interpolation, keepdims, method)


def histogram(
    op: Operators,
    a: Any,
    bins: Any = 10,
    range: tuple[float, float] | None = None,
    normed: bool | None = None,
    weights: Any = None,
    density: bool | None = None,
) -> Any:
    """How many elements are in each bin, and the bins' bounds. bins: an array of bounds, or how many between those of
    range."""
    if normed or density or weights is not None:
        raise UnsupportedError("normed, density and weights are not supported")
    if isinstance(bins, op.kind):
        return op("_npi_histogram", a, bins)
    if not is_number(bins):
        raise UnsupportedError(f"bins must be a number or an array, got {bins!r:.80}")
    if range is None:
        raise UnsupportedError("automatic range is not supported yet", fix="range=(low, high)")
    return op("_npi_histogram", a, bin_cnt=bins, range=range)


def bincount(op: Operators, x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each whole number is there, or the sum of its weights."""
    if not isinstance(x, op.kind):
        raise SymbolTypeError("Input data should be NDarray", got=type(x).__name__)
    if minlength < 0:
        raise DialectValueError("Minlength value should greater than 0", got=minlength)
    inputs = (x,) if weights is None else (x, weights)
    return op("_npi_bincount", *inputs, minlength=minlength, has_weights=weights is not None)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{
        function.__name__: function
        for function in (
            *(sum, prod, max, min, all, any, mean, std, var, average, argmax, argmin, cumsum, percentile, quantile),
            *(histogram, bincount),
        )
    },
    "amax": max,
    "amin": min,
    "sometrue": any,
    "product": prod,
}
