"""Functions over several operators, most of `mx.nd.contrib`: what is a number, updates of many weights at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowering.mx.context import check_one_device
from lowering.mx.ndarray.array import NDArray, invoke
from lowering.mx.ndarray.creation import array
from symjax_nnvm import symbol as symbols
from symjax_nnvm.errors import InferenceError, SymbolValueError
from symjax_nnvm.symbol import function_named


def isnan(data: NDArray) -> NDArray:
    """1 where an element is not a number, else 0."""
    return data != data


def isinf(data: NDArray) -> NDArray:
    """1 where an element is infinite, else 0."""
    return data.abs() == np.inf


def isfinite(data: NDArray) -> NDArray:
    """1 where an element is a number that is not infinite, else 0."""
    return (data == data) * (data.abs() != np.inf)


def split_v2(ary: NDArray, indices_or_sections: Any, axis: int = 0, squeeze_axis: bool = False) -> Any:
    """Parts of an array along an axis: a number of equal ones, or those between the given positions. Raises
    SymbolValueError, a ValueError, where parts would not be equal."""
    if isinstance(indices_or_sections, int) and indices_or_sections > 0 and -ary.ndim <= axis < ary.ndim:
        size = ary.shape[axis]
        if size % indices_or_sections:
            problem = "array split does not result in an equal division"
            raise SymbolValueError(problem, expected=f"a divisor of {size}", got=indices_or_sections)
    return invoke(symbols.split_v2, ary, indices_or_sections, axis, squeeze_axis)


def boolean_mask(data: NDArray, index: NDArray, axis: int = 0, out: Any = None, name: str | None = None) -> Any:
    """The rows of data (n, …) where index (n,) is not zero, which is waited for. Raises InferenceError."""
    if axis != 0 or index.shape != data.shape[:1]:
        problem = "boolean_mask needs a mask with one number for each row, and axis=0"
        raise InferenceError(problem, expected=f"({data.shape[0]},)", got=f"a mask {index.shape}, axis {axis}")
    check_one_device("_contrib_boolean_mask", [data.context, index.context])
    rows = array(np.flatnonzero(index.asnumpy()), data.context, np.int32)
    return invoke(function_named("take"), data, rows, axis=0, out=out)


def _scale(rescale_grad: Any, like: NDArray) -> NDArray:
    """Return what gradients are multiplied with, as the array that the operators read."""
    return rescale_grad if isinstance(rescale_grad, NDArray) else array([rescale_grad], like.context)


def adamw_update(
    weight: NDArray, grad: NDArray, mean: NDArray, var: NDArray, rescale_grad: Any, lr: float, eta: float, **kwargs: Any
) -> Any:
    """`_adamw_update`. rescale_grad: a number or an NDArray (1,)."""
    inputs = weight, grad, mean, var, _scale(rescale_grad, weight)
    return invoke(function_named("_adamw_update"), *inputs, lr=lr, eta=eta, **kwargs)


def mp_adamw_update(
    weight: NDArray,
    grad: NDArray,
    mean: NDArray,
    var: NDArray,
    weight32: NDArray,
    rescale_grad: Any,
    lr: float,
    eta: float,
    **kwargs: Any,
) -> Any:
    """`_mp_adamw_update` as a function, with a copy of the weight in float32."""
    inputs = weight, grad, mean, var, weight32, _scale(rescale_grad, weight)
    return invoke(function_named("_mp_adamw_update"), *inputs, lr=lr, eta=eta, **kwargs)


def _together(
    operator: str, count: str, arrays: Sequence[Sequence[NDArray]], last: Sequence[NDArray], **kwargs: Any
) -> Any:
    """Return an operator of many weights: the arrays of the first weight, those of the second, and so on."""
    flat = [operand for of_one in zip(*arrays, strict=True) for operand in of_one]
    return invoke(function_named(operator), *flat, *last, **{count: len(arrays[0]), **kwargs})


def multi_adamw_update(
    weights: Sequence[NDArray],
    grads: Sequence[NDArray],
    mean: Sequence[NDArray],
    var: Sequence[NDArray],
    rescale_grad: Any,
    lrs: Sequence[float],
    wds: Sequence[float],
    etas: Sequence[float],
    out: Any = None,
    name: str | None = None,
    size: int = 0,
    **kwargs: Any,
) -> Any:
    """`adamw_update` of many weights. size, name: MXNet's; nothing to do here."""
    rates = {"lrs": tuple(lrs), "wds": tuple(wds), "etas": tuple(etas)}
    last = [_scale(rescale_grad, weights[0])]
    return _together(
        "_multi_adamw_update", "num_weights", (weights, grads, mean, var), last, out=out, **rates, **kwargs
    )


def multi_mp_adamw_update(
    weights: Sequence[NDArray],
    grads: Sequence[NDArray],
    mean: Sequence[NDArray],
    var: Sequence[NDArray],
    weights32: Sequence[NDArray],
    rescale_grad: Any,
    lrs: Sequence[float],
    wds: Sequence[float],
    etas: Sequence[float],
    out: Any = None,
    name: str | None = None,
    size: int = 0,
    **kwargs: Any,
) -> Any:
    """`mp_adamw_update` of many weights."""
    rates = {"lrs": tuple(lrs), "wds": tuple(wds), "etas": tuple(etas)}
    arrays, last = (weights, grads, mean, var, weights32), [_scale(rescale_grad, weights[0])]
    return _together("_multi_mp_adamw_update", "num_weights", arrays, last, out=out, **rates, **kwargs)


def multi_lamb_update(
    weights: Sequence[NDArray],
    grads: Sequence[NDArray],
    mean: Sequence[NDArray],
    var: Sequence[NDArray],
    step_count: Sequence[int],
    lrs: Sequence[float],
    wds: Sequence[float],
    out: Any = None,
    num_tensors: int = 0,
    **kwargs: Any,
) -> Any:
    """LAMB of many weights; step_count: how many updates each has had, this one too."""
    rates = {"learning_rates": tuple(lrs), "wds": tuple(wds), "step_count": tuple(step_count)}
    return _together("_multi_lamb_update", "num_tensors", (weights, grads, mean, var), (), out=out, **rates, **kwargs)


def multi_mp_lamb_update(
    weights: Sequence[NDArray],
    grads: Sequence[NDArray],
    mean: Sequence[NDArray],
    var: Sequence[NDArray],
    weights32: Sequence[NDArray],
    step_count: Sequence[int],
    lrs: Sequence[float],
    wds: Sequence[float],
    out: Any = None,
    num_tensors: int = 0,
    **kwargs: Any,
) -> Any:
    """LAMB of many weights in half precision, with copies in float32."""
    rates = {"learning_rates": tuple(lrs), "wds": tuple(wds), "step_count": tuple(step_count)}
    arrays = weights, grads, mean, var, weights32
    return _together("_multi_mp_lamb_update", "num_tensors", arrays, (), out=out, **rates, **kwargs)
