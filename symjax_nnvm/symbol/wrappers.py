"""Functions that MXNet's Python wraps around operators: they choose parameters, or make inputs, by their arguments."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

from symjax_nnvm.errors import SymbolTypeError, SymbolValueError
from symjax_nnvm.symbol.functions import function_named
from symjax_nnvm.symbol.symbol import Symbol


def histogram(a: Symbol, bins: int | Symbol = 10, range: tuple[float, float] | None = None, **kwargs: Any) -> Symbol:
    """Return (counts, edges) of a's elements. bins: how many of equal width there are in `range`, or a symbol of their
    edges.

    Raises SymbolValueError for a number of bins without `range`: a symbol cannot look at values to find it.
    """
    if isinstance(bins, Symbol):
        return function_named("_histogram")(data=a, bins=bins, **kwargs)
    if isinstance(bins, bool) or not isinstance(bins, Integral):
        raise SymbolValueError(f"bins argument should be either an integer or a symbol, got {bins!r}")
    if range is None:
        raise SymbolValueError("null range is not supported in symbol mode; give range=(lowest, highest)")
    return function_named("_histogram")(data=a, bin_cnt=int(bins), range=range, **kwargs)


def split_v2(
    ary: Symbol, indices_or_sections: int | tuple[int, ...], axis: int = 0, squeeze_axis: bool = False
) -> Symbol:
    """Return parts of an array along an axis: a number of equal ones, or those between the given positions.

    squeeze_axis: drop the axis where parts are of length 1. Raises SymbolValueError.
    """
    match indices_or_sections:
        case Integral():
            indices, sections = [], int(indices_or_sections)
        case tuple():
            indices, sections = [0, *indices_or_sections], 0
        case _:
            raise SymbolValueError(
                f"indices_or_sections must be either int or tuple of ints, got {indices_or_sections!r}"
            )
    return function_named("_split_v2")(ary, indices, axis, squeeze_axis, sections)


def adamw_update(weight: Symbol, grad: Symbol, mean: Symbol, var: Symbol, rescale_grad: Any, **params: Any) -> Symbol:
    """Call `_adamw_update`, whose rescale_grad may be a number."""
    states = {"weight": weight, "grad": grad, "mean": mean, "var": var}
    return function_named("_adamw_update")(**states, rescale_grad=_scale(rescale_grad), **params)


def mp_adamw_update(
    weight: Symbol, grad: Symbol, mean: Symbol, var: Symbol, weight32: Symbol, rescale_grad: Any, **params: Any
) -> Symbol:
    """Call `_mp_adamw_update`, whose rescale_grad may be a number."""
    states = {"weight": weight, "grad": grad, "mean": mean, "var": var, "weight32": weight32}
    return function_named("_mp_adamw_update")(**states, rescale_grad=_scale(rescale_grad), **params)


def _scale(rescale_grad: Any) -> Symbol:
    if isinstance(rescale_grad, Symbol):
        return rescale_grad
    return function_named("_full")(shape=(1,), value=float(rescale_grad), dtype="float32")


def rand_zipfian(true_classes: Symbol, num_sampled: int, range_max: int) -> tuple[Symbol, Symbol, Symbol]:
    """Return classes drawn, with replacement, with probability log((c + 2) / (c + 1)) / log(range_max + 1).

    true_classes (n,). Returns the drawn classes (num_sampled,) int64, and how often each true class (n,) and each drawn
    one (num_sampled,) is expected among num_sampled draws, float64. Raises SymbolTypeError.
    """
    if not isinstance(true_classes, Symbol):
        raise SymbolTypeError(f"true_classes must be a symbol, got {type(true_classes).__name__}")
    log_range = math.log(range_max + 1)
    uniform = function_named("_random_uniform")(low=0, high=log_range, shape=(num_sampled,), dtype="float64")
    sampled = (uniform.exp() - 1).astype("int64") % range_max

    def expected(classes: Symbol) -> Symbol:
        classes = classes.astype("float64")
        return ((classes + 2.0) / (classes + 1.0)).log() / log_range * num_sampled

    return sampled, expected(true_classes), expected(sampled)
