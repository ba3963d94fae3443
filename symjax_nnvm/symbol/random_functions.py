"""`sym.random`: draws from distributions whose parameters are numbers, or symbols of arrays (as in MXNet)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from symjax_nnvm.errors import SymbolTypeError, SymbolValueError
from symjax_nnvm.ir.op import Op
from symjax_nnvm.symbol.operator_functions import operator_function
from symjax_nnvm.symbol.python_operators import is_scalar
from symjax_nnvm.symbol.symbol import Symbol

Number = Symbol | float


def _call(name: str, /, *args: Symbol, **params: Any) -> Symbol:
    set_params = {key: value for key, value in params.items() if value is not None}
    return operator_function(Op.get(name), name)(*args, **set_params)


def _draw(distribution: str, params: dict[str, Number], shape: Any, dtype: Any, kwargs: dict[str, Any]) -> Symbol:
    """Return `_random_…` of numbers, `_sample_…` of symbols: a draw of `shape` for each element of the parameters.

    Raises SymbolTypeError when some are numbers and some are symbols, SymbolValueError for other things.
    """
    symbols = [isinstance(value, Symbol) for value in params.values()]
    if all(symbols):
        inputs = [value for value in params.values() if isinstance(value, Symbol)]
        return _call(f"_sample_{distribution}", *inputs, shape=shape, dtype=dtype, **kwargs)
    if any(symbols):
        raise SymbolTypeError(f"Distribution parameters must all have the same type, but got {params}")
    if not all(is_scalar(value) for value in params.values()):
        raise SymbolValueError(f"Distribution parameters must be either Symbol or numbers, but got {params}")
    return _call(f"_random_{distribution}", shape=shape, dtype=dtype, **params, **kwargs)


def uniform(low: Number = 0, high: Number = 1, shape: Any = None, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Draw uniform numbers in [low, high).

    Args:
        low: the lower bound: a number, or a symbol of bounds.
        high: the upper bound, of the same kind as `low`.
        shape: the shape of the draw; of the draw for each element where the bounds are symbols.
        dtype: the dtype of the numbers.
        kwargs: `name` and `attr` of the node.

    Raises:
        SymbolTypeError: one bound is a number and the other a symbol.
        SymbolValueError: a bound is neither.
    """
    return _draw("uniform", {"low": low, "high": high}, shape, dtype, kwargs)


def normal(loc: Number = 0, scale: Number = 1, shape: Any = None, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Draw normal numbers.

    Args:
        loc: the mean: a number, or a symbol of means.
        scale: the standard deviation, of the same kind as `loc`.
        shape: the shape of the draw; of the draw for each element where `loc` is a symbol.
        dtype: the dtype of the numbers.
        kwargs: `name` and `attr` of the node.

    Raises:
        SymbolTypeError: one parameter is a number and the other a symbol.
        SymbolValueError: a parameter is neither.
    """
    if isinstance(loc, Symbol) or isinstance(scale, Symbol):
        return _draw("normal", {"mu": loc, "sigma": scale}, shape, dtype, kwargs)
    return _draw("normal", {"loc": loc, "scale": scale}, shape, dtype, kwargs)


def randn(*shape: int, loc: Number = 0, scale: Number = 1, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Draw normal numbers, with the sizes of the result as positional arguments.

    Args:
        shape: the sizes of the result.
        loc: the mean: a number, or a symbol of means.
        scale: the standard deviation, of the same kind as `loc`.
        dtype: the dtype of the numbers.
        kwargs: `name` and `attr` of the node.

    Raises:
        SymbolTypeError: one parameter is a number and the other a symbol.
        SymbolValueError: a parameter is neither.
    """
    return normal(loc, scale, shape=kwargs.pop("shape", shape or None), dtype=dtype, **kwargs)


def exponential(scale: Number = 1, shape: Any = None, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Draw exponential numbers.

    Args:
        scale: the mean: a number above 0, or a symbol of means.
        shape: the shape of the draw; of the draw for each element where `scale` is a symbol.
        dtype: the dtype of the numbers.
        kwargs: `name` and `attr` of the node.

    Raises:
        SymbolValueError: the mean is 0, or neither a number nor a symbol.
    """
    if is_scalar(scale) and scale == 0:
        raise SymbolValueError("Exponential numbers have a mean above 0", param="scale", got=scale)
    rate = 1.0 / scale
    return _draw("exponential", {"lam": rate}, shape, dtype, kwargs)


def gamma(alpha: Number = 1, beta: Number = 1, shape: Any = None, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Draw numbers of a gamma distribution.

    Args:
        alpha: the distribution's shape parameter: a number, or a symbol of several.
        beta: the distribution's scale, of the same kind as `alpha`.
        shape: the shape of the draw; of the draw for each element where `alpha` is a symbol.
        dtype: the dtype of the numbers.
        kwargs: `name` and `attr` of the node.

    Raises:
        SymbolTypeError: one parameter is a number and the other a symbol.
        SymbolValueError: a parameter is neither.
    """
    return _draw("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, kwargs)


def poisson(lam: Number = 1, shape: Any = None, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Draw numbers of a Poisson distribution.

    Args:
        lam: the rate: a number, or a symbol of rates.
        shape: the shape of the draw; of the draw for each element where `lam` is a symbol.
        dtype: the dtype of the numbers.
        kwargs: `name` and `attr` of the node.

    Raises:
        SymbolValueError: the rate is neither a number nor a symbol.
    """
    return _draw("poisson", {"lam": lam}, shape, dtype, kwargs)


def negative_binomial(k: Number = 1, p: Number = 1, shape: Any = None, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Draw how many tries fail before the k-th success.

    Args:
        k: the number of successes: a number, or a symbol of several.
        p: the probability of success in each try, of the same kind as `k`.
        shape: the shape of the draw; of the draw for each element where `k` is a symbol.
        dtype: the dtype of the numbers.
        kwargs: `name` and `attr` of the node.

    Raises:
        SymbolTypeError: one parameter is a number and the other a symbol.
        SymbolValueError: a parameter is neither.
    """
    return _draw("negative_binomial", {"k": k, "p": p}, shape, dtype, kwargs)


def generalized_negative_binomial(
    mu: Number = 1, alpha: Number = 1, shape: Any = None, dtype: Any = None, **kwargs: Any
) -> Symbol:
    """Draw Poisson numbers with a gamma-distributed rate.

    Args:
        mu: the mean of the rate: a number, or a symbol of several.
        alpha: the dispersion of the rate, of the same kind as `mu`.
        shape: the shape of the draw; of the draw for each element where `mu` is a symbol.
        dtype: the dtype of the numbers.
        kwargs: `name` and `attr` of the node.

    Raises:
        SymbolTypeError: one parameter is a number and the other a symbol.
        SymbolValueError: a parameter is neither.
    """
    return _draw("generalized_negative_binomial", {"mu": mu, "alpha": alpha}, shape, dtype, kwargs)


def randint(low: int, high: int, shape: Any = None, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Draw whole numbers in [low, high).

    Args:
        low: the lowest number.
        high: the number after the highest.
        shape: the shape of the draw.
        dtype: the dtype of the numbers.
        kwargs: `name` and `attr` of the node.
    """
    return _draw("randint", {"low": low, "high": high}, shape, dtype, kwargs)


def multinomial(data: Symbol, shape: Any = None, get_prob: bool = True, dtype: str = "int32", **kwargs: Any) -> Symbol:
    """Draw classes by their probabilities.

    Args:
        data: the probabilities (…, classes).
        shape: the shape of the draw for each row of probabilities.
        get_prob: return the log-likelihoods of the drawn classes as a second output.
        dtype: the dtype of the classes.
        kwargs: `name` and `attr` of the node.
    """
    return _call("_sample_multinomial", data, shape=shape, get_prob=get_prob, dtype=dtype, **kwargs)


def shuffle(data: Symbol, **kwargs: Any) -> Symbol:
    """Return data in a random order along the first axis."""
    return _call("_shuffle", data, **kwargs)


_ALL: Sequence[Callable[..., Symbol]] = (
    *(uniform, normal, randn, exponential, gamma, poisson, negative_binomial, generalized_negative_binomial),
    *(randint, multinomial, shuffle),
)

FUNCTIONS: dict[str, Callable[..., Symbol]] = {function.__name__: function for function in _ALL}
"""The functions of `sym.random` that choose their operator by their arguments."""
