"""Convolutions and their gradients: products of filters with the windows of the data, and Eigen's by XLA."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np
from jax import lax

from lowering.host.placed import copied_in_order, empty
from lowering.host.primitives import Arrays, JaxEquation, dtype_of, evaluates
from lowering.host.reductions import accumulator, product, spread, windows
from lowering.xla.compile_options import options_for
from lowering.xla.program_bound import Kept, jitted

_COLUMNS = 1 << 19
"""Elements of the columns that are multiplied at once: they stay in a cache. Milliseconds of 18 convolutions with 2^18,
2^19 and 2^20: 330, 300 and 318."""

_SMALLEST, _PRODUCTS = 1 << 25, 1 << 29
"""The products of a call that XLA computes in less time than NumPy, and those after which compiling pays, which takes
15 to 25 ms of the processors. With windows of 3², 4² and 5² and 0.4 to 4 G products, NumPy takes 16 to 60 ps more for
each."""


@evaluates("conv_general_dilated")
def _convolution(equation: JaxEquation) -> Arrays:
    params = equation.params
    numbers = params["dimension_numbers"]
    of_batches = params["batch_group_count"]  # samples are in groups that have filters of their own
    groups = params["feature_group_count"] * of_batches
    dtype = dtype_of(equation.outvars[0])
    by_places = _is_cheaper_by_places(equation)
    multiplied = _sums_of_places if by_places else _products_of_windows
    back = np.argsort(numbers.out_spec)
    alone = _alone(equation)

    def convolve(data: Any, weight: Any) -> Any:
        data, weight = np.transpose(data, numbers.lhs_spec), np.transpose(weight, numbers.rhs_spec)
        if alone is not None and (compiled := alone.after_a_call()) is not None:
            return np.transpose(_channels_last(compiled, data, weight), back)
        n, per_group = data.shape[0] // of_batches, groups // of_batches
        data = data.reshape(of_batches, n, per_group, weight.shape[1], *data.shape[2:])
        data = data.swapaxes(0, 1).reshape(n, groups, *data.shape[3:])
        weight = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
        result = multiplied(data, weight, params, accumulator(dtype), dtype)
        result = result.reshape(groups * weight.shape[1], *result.shape[2:]).swapaxes(0, 1)
        return np.transpose(result, back)

    weight, result = equation.invars[1].aval, equation.outvars[0].aval
    filters = weight.shape[numbers.rhs_spec[0]]
    if by_places:
        data = equation.invars[0].aval
        columns = (
            prod(data.shape)
            // max(1, data.shape[numbers.lhs_spec[1]])
            * prod(weight.shape)
            // max(1, weight.shape[numbers.rhs_spec[1]])
        )
    else:
        columns = groups * prod(result.shape) // max(1, filters) * prod(weight.shape) // max(1, filters)
    vars(convolve).update(elements=(6 if by_places else 2) * columns)  # additions at strides take longer than copies
    return convolve


def _is_cheaper_by_places(equation: JaxEquation) -> bool:
    """Whether the products of each element are added at their places: of dilated data, and where that moves fewer
    numbers than the windows have, as a gradient of data does that have fewer channels than the results."""
    params, numbers = equation.params, equation.params["dimension_numbers"]
    if any(step > 1 for step in params["lhs_dilation"]):
        return True
    if any(step > 1 for step in params["window_strides"]) or params["batch_group_count"] > 1:
        return False
    data, result = equation.invars[0].aval.shape, equation.outvars[0].aval.shape
    places = prod(data[i] for i in numbers.lhs_spec[2:])
    new_places = prod(result[i] for i in numbers.out_spec[2:])
    channels, new_channels = data[numbers.lhs_spec[1]], result[numbers.out_spec[1]]
    return places <= new_places and 2 * places * new_channels <= new_places * channels


class _OwnProgram:
    """A convolution that becomes a program of XLA's by itself, when its calls have cost as much as compiling.

    With channels last and taps first, XLA calls Eigen and makes no code of its own. All equations of the same sizes
    share one.

    params: `lax.conv_general_dilated`'s. products: the multiplications of a call.
    """

    def __init__(self, params: Mapping[str, Any], products: int):
        self._params, self._products, self._spent = params, products, 0
        self._kept, self._compiled = Kept(self), None

    def after_a_call(self) -> Callable[..., Any] | None:
        """Count a call. Returns what computes it; None while NumPy is to."""
        self._kept.use()
        if self._compiled is None:
            self._spent += self._products
            if self._spent < _PRODUCTS:
                return None
            function = partial(lax.conv_general_dilated, **self._params)
            self._compiled = jitted(function, self._kept, compiler_options=options_for("cpu", "quick"))
        return self._compiled

    def forget(self, _: Any) -> None:
        """Drop the program."""
        self._compiled = None


def _alone(equation: JaxEquation) -> _OwnProgram | None:
    """Return what compiles a convolution by itself; None where that gains nothing: for small ones, for groups, for
    windows of one place, for gradients of weights, whose windows are as large as their data, and where products are
    added at their places, unless data are dilated."""
    params, numbers = equation.params, equation.params["dimension_numbers"]
    data, weight, result = (variable.aval for variable in (*equation.invars, equation.outvars[0]))
    kernel, places = (
        [a.shape[i] for i in axes[2:]] for a, axes in ((weight, numbers.rhs_spec), (result, numbers.out_spec))
    )
    products = prod(result.shape) * prod(weight.shape) // max(1, weight.shape[numbers.rhs_spec[0]])
    products //= prod(params["lhs_dilation"])
    is_dense = params["feature_group_count"] == params["batch_group_count"] == 1
    is_worth = products >= _SMALLEST and len(kernel) == 2 and data.dtype == weight.dtype == result.dtype == np.float32
    if not (is_dense and is_worth and prod(kernel) > 1 and kernel[-1] <= places[-1]):
        return None
    if _is_cheaper_by_places(equation) and prod(params["lhs_dilation"]) == 1:
        return None
    names = ("window_strides", "padding", "lhs_dilation", "rhs_dilation")
    sizes = (tuple(data.shape[i] for i in numbers.lhs_spec), tuple(weight.shape[i] for i in numbers.rhs_spec))
    return _alone_of(sizes, tuple((name, tuple(params[name])) for name in names), products)


@lru_cache(maxsize=256)
def _alone_of(sizes: Any, params: tuple[tuple[str, Any], ...], products: int) -> _OwnProgram:
    return _OwnProgram({**dict(params), "dimension_numbers": ("NHWC", "HWIO", "NHWC")}, products)


def _channels_last(compiled: Callable[..., Any], data: Any, weight: Any) -> Any:
    """Return a convolution of data (n, channels, h, w) with a weight (filters, channels, h, w), of that order."""
    data, weight = _in_order(data.transpose(0, 2, 3, 1)), _in_order(weight.transpose(2, 3, 1, 0))
    return np.asarray(compiled(data, weight)).transpose(0, 3, 1, 2)


def _in_order(array: Any) -> Any:
    """Return an array whose elements lie one after the other."""
    return array if array.flags.c_contiguous else copied_in_order(array)


def _products_of_windows(data: Any, weight: Any, params: Any, wide: Any, dtype: Any) -> Any:
    """Return a convolution as products of filters with the windows of the data.

    data: (samples, groups, channels, …). weight: (groups, filters, channels, …). Returns (groups, filters, samples, …).
    """
    n, (groups, filters, channels), kernel = data.shape[0], weight.shape[:3], weight.shape[3:]
    nothing, ones = [(0, 0)] * 3, (1, 1, 1)
    padded = spread(data, [*nothing, *params["padding"]], (1,) * data.ndim, np.zeros((), data.dtype)[()])
    kernels = np.ascontiguousarray(weight.reshape(groups, filters, channels, prod(kernel)), wide)
    steps, dilation = (*ones, *params["window_strides"]), (*ones, *params["rhs_dilation"])
    views = windows(padded, (*ones, *kernel), steps, dilation)
    views = views.reshape(*views.shape[: 3 + len(kernel)], *kernel)
    places = views.shape[3 : 3 + len(kernel)]
    axes, last = [*range(views.ndim)], 3 + len(kernel)
    rows_are_taps = places[-1] >= kernel[-1]
    order = [1, 2, *axes[last:], 0, *axes[3:last]] if rows_are_taps else [1, 0, *axes[3:last], 2, *axes[last:]]
    # A gradient of a weight has windows as large as the data, and few places: channels of all samples at once.
    elements = max(1, groups * prod(places) * prod(kernel))
    deep = max(1, channels if rows_are_taps else min(channels, _COLUMNS // max(1, elements * n)))
    at_once = max(1, _COLUMNS // (elements * deep))
    result = empty((groups, filters, n, *places), dtype)
    for first in range(0, n, at_once):
        samples = min(at_once, n - first)
        count = samples * prod(places)
        sums: Any = None
        for channel in range(0, max(1, channels), deep):
            filtered = kernels[:, :, channel : channel + deep]
            taps = prod(filtered.shape[2:])
            columns = views[first : first + at_once, :, channel : channel + deep].transpose(order)
            columns = columns.reshape((groups, taps, count) if rows_are_taps else (groups, count, taps))
            columns = columns.astype(wide, copy=False)
            products = product(
                filtered.reshape(groups, filters, taps), columns if rows_are_taps else columns.swapaxes(1, 2)
            )
            sums = products if sums is None else np.add(sums, products, out=sums)
        result[:, :, first : first + at_once] = sums.reshape(groups, filters, samples, *places)
    return result


def _sums_of_places(data: Any, weight: Any, params: Any, wide: Any, dtype: Any) -> Any:
    """Return the same: each element is multiplied with all taps, and the products are added at their places. The zeros
    between elements of dilated data are skipped."""
    n, (groups, filters, channels), kernel, sizes = data.shape[0], weight.shape[:3], weight.shape[3:], data.shape[3:]
    apart, inside = params["lhs_dilation"], params["rhs_dilation"]
    reach = [(size - 1) * step for size, step in zip(kernel, inside, strict=True)]
    spans = [max(0, (size - 1) * step + 1) for size, step in zip(sizes, apart, strict=True)]
    kernels = np.ascontiguousarray(np.moveaxis(weight, 2, -1).reshape(groups, -1, channels), wide)
    sums = np.zeros((groups, filters, n, *[span + more for span, more in zip(spans, reach, strict=True)]), wide)
    at_once = max(1, _COLUMNS // max(1, kernels.shape[1] * groups * prod(sizes)))
    for first in range(0, n, at_once):
        part = data[first : first + at_once]
        columns = np.moveaxis(part, 0, 2).reshape(groups, channels, -1).astype(wide, copy=False)
        products = product(kernels, columns).reshape(groups, filters, *kernel, len(part), *sizes)
        for tap in np.ndindex(*kernel):
            places = [
                slice(more - at * step, more - at * step + span, between)
                for at, more, step, span, between in zip(tap, reach, inside, spans, apart, strict=True)
            ]
            sums[(slice(None), slice(None), slice(first, first + at_once), *places)] += products[:, :, *tap]
    around = [(low - more, high - more) for (low, high), more in zip(params["padding"], reach, strict=True)]
    whole = spread(sums, [(0, 0)] * 3 + around, (1,) * sums.ndim, sums.dtype.type(0))
    steps = tuple(slice(None, None, step) for step in params["window_strides"])
    return whole[(..., *steps)].astype(dtype, copy=False)
