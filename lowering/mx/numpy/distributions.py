"""Functions of `np.random`: draws. Their stream is that of `mx.random.seed`; NumPy's seed changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from lowering.mx.accepted_types import ContextLike, DType, ShapeLike
from lowering.mx.ndarray.array import NUMPY, require_arrays
from lowering.mx.numpy.elementwise import apply_unary
from lowering.mx.numpy.operators import DialectValueError, Operators, UnsupportedError
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.params import ParamField


def drawn(op: Operators, name: str, numbers: dict[str, Any], size: ShapeLike | None, **params: Any) -> Any:
    """Return draws. numbers: what the distribution has, each a number or an array; arrays are the operator's inputs.
    Raises DialectValueError, a ValueError, for arrays with numbers that no distribution has (a graph does not)."""
    arrays = {key: value for key, value in numbers.items() if isinstance(value, op.kind)}
    if not op.symbolic:
        schema = Op.get(f"_npi_{name}").params
        assert schema is not None
        for key, value in arrays.items():
            _refuse_outside(schema.fields[key], np.asarray(value))
    plain = {key: None if isinstance(value, op.kind) else value for key, value in numbers.items()}
    return op(f"_npi_{name}", *arrays.values(), **{**params, **plain}, size=None if size == () else size)


def _refuse_outside(field: ParamField, values: np.ndarray) -> None:
    """Raise DialectValueError for numbers outside of a parameter's bounds; NaN stays NaN."""
    numbers = values[~np.isnan(values)]
    if numbers.size and not field.admits((numbers.min(), numbers.max())):
        problem = f"Value for Parameter {field.name} is out of range"
        expected = f"elements{field.expected.removeprefix(field.type)}"
        raise DialectValueError(problem, expected=expected, got=f"{numbers.min():g} to {numbers.max():g}")


def uniform(
    op: Operators,
    low: Any = 0.0,
    high: Any = 1.0,
    size: ShapeLike | None = None,
    dtype: DType = None,
    ctx: ContextLike = None,
    out: Any = None,
) -> Any:
    """Numbers from low to below high. size: a shape; without one that of low and high."""
    return drawn(op, "uniform", {"low": low, "high": high}, size, dtype=dtype or "float32", ctx=ctx, out=out)


def normal(
    op: Operators,
    loc: Any = 0.0,
    scale: Any = 1.0,
    size: ShapeLike | None = None,
    dtype: DType = None,
    ctx: ContextLike = None,
    out: Any = None,
) -> Any:
    """Numbers of a normal distribution with this mean and standard deviation."""
    return drawn(op, "normal", {"loc": loc, "scale": scale}, size, dtype=dtype or "float32", ctx=ctx, out=out)


def lognormal(
    op: Operators,
    mean: Any = 0.0,
    sigma: Any = 1.0,
    size: ShapeLike | None = None,
    dtype: DType = None,
    ctx: ContextLike = None,
    out: Any = None,
) -> Any:
    """Numbers whose logarithms are normal."""
    return apply_unary(op, "exp", normal(op, mean, sigma, size, dtype, ctx), out)


def logistic(
    op: Operators,
    loc: Any = 0.0,
    scale: Any = 1.0,
    size: ShapeLike | None = None,
    ctx: ContextLike = None,
    out: Any = None,
) -> Any:
    """Numbers of a logistic distribution."""
    return drawn(op, "logistic", {"loc": loc, "scale": scale}, size, ctx=ctx, out=out)


def gumbel(
    op: Operators,
    loc: Any = 0.0,
    scale: Any = 1.0,
    size: ShapeLike | None = None,
    ctx: ContextLike = None,
    out: Any = None,
) -> Any:
    """Numbers of a Gumbel distribution."""
    return drawn(op, "gumbel", {"loc": loc, "scale": scale}, size, ctx=ctx, out=out)


def rayleigh(
    op: Operators, scale: Any = 1.0, size: ShapeLike | None = None, ctx: ContextLike = None, out: Any = None
) -> Any:
    """Numbers of a Rayleigh distribution."""
    return drawn(op, "rayleigh", {"scale": scale}, size, ctx=ctx, out=out)


def exponential(
    op: Operators, scale: Any = 1.0, size: ShapeLike | None = None, ctx: ContextLike = None, out: Any = None
) -> Any:
    """Numbers of an exponential distribution with this mean."""
    return drawn(op, "exponential", {"scale": scale}, size, ctx=ctx, out=out)


def weibull(op: Operators, a: Any, size: ShapeLike | None = None, ctx: ContextLike = None, out: Any = None) -> Any:
    """Numbers of a Weibull distribution of shape a."""
    return drawn(op, "weibull", {"a": a}, size, ctx=ctx, out=out)


def pareto(op: Operators, a: Any, size: ShapeLike | None = None, ctx: ContextLike = None, out: Any = None) -> Any:
    """Numbers of a Pareto distribution of shape a."""
    return drawn(op, "pareto", {"a": a}, size, ctx=ctx, out=out)


def power(op: Operators, a: Any, size: ShapeLike | None = None) -> Any:
    """Numbers from 0 to 1 whose density is a power."""
    return drawn(op, "powerd", {"a": a}, size)


def gamma(
    op: Operators,
    shape: ShapeLike,
    scale: Any = 1.0,
    size: ShapeLike | None = None,
    dtype: DType = None,
    ctx: ContextLike = None,
    out: Any = None,
) -> Any:
    """Numbers of a gamma distribution."""
    size = size if out is None else out.shape
    return drawn(op, "gamma", {"shape": shape, "scale": scale}, size, dtype=dtype or "float32", ctx=ctx, out=out)


def beta(
    op: Operators, a: Any, b: Any, size: ShapeLike | None = None, dtype: DType = None, ctx: ContextLike = None
) -> Any:
    """Numbers of a beta distribution."""
    x, y = (gamma(op, shape, 1, size, "float32", ctx) for shape in (a, b))
    return (x / (x + y)).astype(dtype or "float32")


def chisquare(
    op: Operators, df: Any, size: ShapeLike | None = None, dtype: DType = None, ctx: ContextLike = None
) -> Any:
    """Numbers of a chi-square distribution with df degrees of freedom."""
    return gamma(op, df / 2, 2.0, size, dtype, ctx)


def rand(op: Operators, *size: int, **kwargs: Any) -> Any:
    """Numbers from 0 to below 1 in a shape."""
    return uniform(op, 0, 1, size=size, **kwargs)


def randn(op: Operators, *size: int, **kwargs: Any) -> Any:
    """Numbers of the standard normal distribution in a shape."""
    return normal(op, 0, 1, size=size, **kwargs)


def randint(
    op: Operators,
    low: int,
    high: int | None = None,
    size: ShapeLike | None = None,
    dtype: DType = None,
    ctx: ContextLike = None,
    out: Any = None,
) -> Any:
    """Whole numbers from low to below high, or from 0 to below low."""
    low, high = (0, low) if high is None else (low, high)
    params = {"low": low, "high": high, "dtype": dtype or "int64", "ctx": ctx, "out": out}
    if size is None or size == ():  # which stands for no shape in the classic operator's parameters
        return op("_np_reshape", op("_npi_random_randint", shape=(1,), **params), newshape=())
    return op("_npi_random_randint", shape=size, **params)


def choice(
    op: Operators,
    a: Any,
    size: ShapeLike | None = None,
    replace: bool = True,
    p: Any = None,
    ctx: ContextLike = None,
    out: Any = None,
) -> Any:
    """Elements of an array, or numbers below a, drawn at random. replace: an element may come twice. p: probabilities,
    as an array."""
    weights = () if p is None else (p,)
    params = {"size": None if size == () else size, "replace": replace, "weighted": p is not None}
    if isinstance(a, op.kind):
        indices = op("_npi_choice", a, *weights, a=None, **params)
        return op("_npi_take", a, indices, axis=0, mode="clip")
    return op("_npi_choice", *weights, a=a, ctx=ctx, out=out, **params)


def multinomial(op: Operators, n: int, pvals: Any, size: ShapeLike | None = None, **kwargs: Any) -> Any:
    """How often each class comes in n draws. pvals: their probabilities."""
    if isinstance(pvals, op.kind):
        if not op.symbolic and (total := np.asarray(pvals).sum()) > 1 + 1e-5:  # float32 rounds sums of 1
            raise DialectValueError("sum(pvals) > 1.0", got=f"{total:g}")
        return op("_npi_multinomial", pvals, pvals=None, n=n, size=size)
    if isinstance(pvals, np.ndarray):
        raise DialectValueError("numpy ndarray is not supported!", fix="np.array(pvals)")
    if any(isinstance(probability, list) for probability in pvals):
        raise DialectValueError("object too deep for desired array")
    return op("_npi_multinomial", n=n, pvals=tuple(pvals), size=size)


def _as_sizes(size: Any) -> tuple[int, ...]:
    """Return a shape as a tuple. Raises DialectValueError for anything else."""
    sizes = () if size is None else tuple(size) if isinstance(size, list | tuple) else (size,)
    if any(not isinstance(number, int | np.integer) or number < 0 for number in sizes):
        raise DialectValueError("size must be a shape", expected="a whole number ≥ 0, or a tuple of them", got=size)
    return sizes


def _shape_of_vectors(mean: Any, cov: Any) -> tuple[int, ...]:
    """Return the shape of the vectors of a distribution. Raises DialectValueError where the moments have none,
    NotAnArrayError where they are not arrays."""
    require_arrays([mean], "Argument mean", NUMPY)
    require_arrays([cov], "Argument cov", NUMPY)
    got = f"mean {mean.shape}, cov {cov.shape}"
    if mean.ndim and cov.ndim > 1 and mean.shape[-1:] * 2 == cov.shape[-2:]:
        with suppress(ValueError):
            return np.broadcast_shapes(mean.shape, cov.shape[:-1])
    expected = "mean (…, n), cov (…, n, n), whose other axes are broadcast"
    raise DialectValueError("A mean and a covariance do not fit", expected=expected, got=got)


def multivariate_normal(
    op: Operators, mean: Any, cov: Any, size: ShapeLike | None = None, check_valid: Any = None, tol: Any = None
) -> Any:
    """Vectors of a normal distribution with this mean and covariance."""
    if check_valid is not None or tol is not None:
        fix = "Leave them out: a covariance that is not positive definite gives NaN."
        raise UnsupportedError("Parameters check_valid and tol are not supported", fix=fix)
    sizes = _as_sizes(size)
    shape = () if op.symbolic else _shape_of_vectors(mean, cov)
    root = op("_npi_cholesky", cov)
    if op.symbolic:  # which has no shapes yet: zeros in that of the vectors
        zeros = op("_npi_multiply_scalar", op("_npi_add", mean, op("_np_sum", cov, axis=-1)), scalar=0.0)
        drawn_numbers = drawn(op, "normal_n", {"loc": zeros, "scale": 1.0}, sizes)
        standard = op("_npi_expand_dims", op("_cast_like", drawn_numbers, root), axis=-1)
        return op("_npi_add", mean, op("_np_squeeze", op("_npi_matmul", root, standard), axis=-1))
    standard = normal(op, size=(*sizes, *shape, 1), dtype=cov.dtype, ctx=mean.ctx)
    return mean + op("_npi_matmul", root, standard)[..., 0]


def shuffle(op: Operators, x: Any) -> None:
    """Put the rows of an array in another order, in place."""
    op("_npi_shuffle", x, out=x)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        *(uniform, normal, lognormal, logistic, gumbel, rayleigh, exponential, weibull, pareto, power, gamma, beta),
        *(chisquare, rand, randn, randint, choice, multinomial, multivariate_normal, shuffle),
    )
}
