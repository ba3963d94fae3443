"""Functions that MXNet's Python wraps around operators: they choose parameters, or make inputs, by their arguments."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

from symjax_nnvm.errors import SymbolTypeError, SymbolValueError
from symjax_nnvm.symbol.operator_functions import function_named
from symjax_nnvm.symbol.symbol import Symbol


def histogram(a: Symbol, bins: int | Symbol = 10, range: tuple[float, float] | None = None, **kwargs: Any) -> Symbol:
    """Count the elements of an array in bins.

    Args:
        a: the array, of any shape.
        bins: the number of bins, all of the same width; or a symbol of the bins' edges.
        range: the lowest and the highest edge; required where `bins` is a number, since a symbol has no values to find
            them.
        kwargs: `name` and `attr` of the node.

    Returns:
        A symbol with two outputs, the counts (bins,) and the edges (bins + 1,).

    Raises:
        SymbolValueError: `bins` is a number and `range` is missing, or `bins` is neither a whole number nor a symbol.
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
    """Split an array along an axis.

    Args:
        ary: the array.
        indices_or_sections: the number of equal parts, or a tuple of the indices where parts begin.
        axis: the axis to split.
        squeeze_axis: remove the axis from the parts, which must have length 1 along it.

    Returns:
        A symbol with one output for each part.

    Raises:
        SymbolValueError: `indices_or_sections` is neither a whole number nor a tuple.
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
    """Call the operator `_adamw_update`; `rescale_grad` may be a number as well as a symbol."""
    states = {"weight": weight, "grad": grad, "mean": mean, "var": var}
    return function_named("_adamw_update")(**states, rescale_grad=_scale(rescale_grad), **params)


def mp_adamw_update(
    weight: Symbol, grad: Symbol, mean: Symbol, var: Symbol, weight32: Symbol, rescale_grad: Any, **params: Any
) -> Symbol:
    """Call the operator `_mp_adamw_update`; `rescale_grad` may be a number as well as a symbol."""
    states = {"weight": weight, "grad": grad, "mean": mean, "var": var, "weight32": weight32}
    return function_named("_mp_adamw_update")(**states, rescale_grad=_scale(rescale_grad), **params)


def _scale(rescale_grad: Any) -> Symbol:
    if isinstance(rescale_grad, Symbol):
        return rescale_grad
    return function_named("_full")(shape=(1,), value=float(rescale_grad), dtype="float32")


def rand_zipfian(true_classes: Symbol, num_sampled: int, range_max: int) -> tuple[Symbol, Symbol, Symbol]:
    """Draw classes with replacement; class c has probability log((c + 2) / (c + 1)) / log(range_max + 1).

    Args:
        true_classes: the true classes (n,).
        num_sampled: the number of classes to draw.
        range_max: the number of classes there are.

    Returns:
        The drawn classes (num_sampled,) int64; how often each true class (n,) float64, and each drawn class
        (num_sampled,) float64, is expected among `num_sampled` draws.

    Raises:
        SymbolTypeError: `true_classes` is not a symbol.
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
