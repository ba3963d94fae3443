"""Draws from continuous and discrete distributions: `_random_*`, `_random_*_like` and `_sample_*`, one row for each.

A distribution has one set of parameters and up to three operators: parameters as numbers and a shape; as numbers and an
array that gives shape and dtype; as arrays, with a number of draws for each of their elements. Every draw uses the
key of its node; nothing flows back through a draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from symjax_nnvm.ir.params import Params, Tuple, param
from symjax_nnvm.ir.register import Shapes, float_type, register_op, same_shape, type_of_readers
from symjax_nnvm.ir.types import shape_from_legacy

FloatType = Literal["float16", "float32", "float64"]
_DRAWN_TYPE = type_of_readers(*get_args(FloatType), unset=None)

_CTX = "device of an imperative call; a graph's devices are chosen where it is run"
_DTYPE = "the dtype; None: the one that the operators using the draws need, else float32"
_SHAPE = "the shape; 0 for a dimension, () for a rank, that the operators using it decide"

# -- the parameters of the distributions, as numbers ------------------------------------------------------------------


class ExponentialParams(Params):
    lam: float = param(1.0, gt=0, doc="rate")


class GammaParams(Params):
    alpha: float = param(1.0, gt=0, doc="shape of the distribution")
    beta: float = param(1.0, gt=0, doc="scale")


class GeneralizedNegativeBinomialParams(Params):
    mu: float = param(1.0, ge=0, doc="mean")
    alpha: float = param(1.0, ge=0, doc="dispersion: 1 / k; 0 is the Poisson distribution")


class NegativeBinomialParams(Params):
    k: int = param(1, ge=0, doc="the number of failures that ends the experiment")
    p: float = param(1.0, gt=0, le=1, doc="probability of a failure")


class NormalParams(Params):
    loc: float = param(0.0, doc="mean")
    scale: float = param(1.0, gt=0, doc="standard deviation")


class PoissonParams(Params):
    lam: float = param(1.0, ge=0, doc="rate: mean and variance")


class UniformParams(Params):
    low: float = param(0.0, doc="smallest value")
    high: float = param(1.0, doc="the value that all draws are below")

    def check(self) -> str | None:
        if not self.high >= self.low:
            return (
                f"low must be less or equal to high in uniform distribution, got low={self.low:g}, high={self.high:g}"
            )
        return None


# -- what the operators take besides ----------------------------------------------------------------------------------


class ArrayParams(Params):
    """Parameters of draws that are given a shape."""

    shape: Tuple | None = param(None, doc=_SHAPE)
    ctx: str = param("", doc=_CTX)
    dtype: FloatType | None = param(None, doc=_DTYPE)


class SampleParams(Params):
    """Parameters of draws whose distributions are given as arrays."""

    shape: Tuple = param((), ge=1, doc="shape [t] of the draws from each distribution; () draws one")
    dtype: FloatType | None = param(None, doc=_DTYPE)


def drawn_shape(p: ArrayParams | RandintParams, ins: Shapes, outs: Shapes):
    """→ the shape parameter, completed by the readers of the array."""
    return (), [shape_from_legacy(p.shape or ())]


def _sample_shapes(p: SampleParams, ins: Shapes, outs: Shapes):
    """Parameters [s] ↔ [s]x[t]."""
    drawn, out = p.shape, outs[0]
    inferred = out[: len(out) - len(drawn)] if out is not None and len(out) > len(drawn) else None
    (shape, *_), _ = same_shape(p, (*ins, inferred), ())
    return [shape] * len(ins), [None if shape is None else (*shape, *drawn)]


@dataclass(frozen=True)
class Distribution:
    """A row: the name in all operators, the parameters as numbers, the names of the parameters as arrays."""

    name: str
    params: type
    inputs: tuple[str, ...]
    deprecated: tuple[str, ...]
    doc: str


DISTRIBUTIONS: tuple[Distribution, ...] = (
    Distribution("exponential", ExponentialParams, ("lam",), (), "the exponential distribution of rate lam"),
    Distribution("gamma", GammaParams, ("alpha", "beta"), (), "the gamma distribution of shape alpha and scale beta"),
    Distribution(
        "generalized_negative_binomial",
        GeneralizedNegativeBinomialParams,
        ("mu", "alpha"),
        (),
        "the negative binomial distribution of mean mu and variance mu + alpha mu²",
    ),
    Distribution(
        "negative_binomial",
        NegativeBinomialParams,
        ("k", "p"),
        (),
        "the number of successes before the k-th failure, where p is the probability of a failure",
    ),
    Distribution(
        "normal", NormalParams, ("mu", "sigma"), ("normal",), "the normal distribution of a mean and deviation"
    ),
    Distribution("poisson", PoissonParams, ("lam",), (), "the Poisson distribution of rate lam"),
    Distribution("uniform", UniformParams, ("low", "high"), ("uniform",), "the uniform distribution over [low, high)"),
)

_A_DRAW = "a draw: the work depends on the generator"
_OUTSIDE = " Parameters that no distribution has give NaN where arithmetic gives nothing better."


for _row in DISTRIBUTIONS:
    _class = _row.params.__name__.removesuffix("Params")
    register_op(
        f"_random_{_row.name}",
        aliases=(*_row.deprecated, f"random_{_row.name}"),
        params=type(f"Random{_class}Params", (ArrayParams, _row.params), {}),
        inputs=(),
        infer_shape=drawn_shape,
        **_DRAWN_TYPE,
        flops=_A_DRAW,
        draws="always",
        shape_parameters=("shape",),
        doc=f"Draws from {_row.doc}.",
    )
    register_op(
        f"_random_{_row.name}_like",
        params=_row.params,
        infer_shape=same_shape,
        infer_type=float_type,
        gradient=lambda node, ograds: [None],
        FIgnoreInputs=lambda attrs: (0,),
        flops=_A_DRAW,
        draws="always",
        doc=f"Draws from {_row.doc}, in the shape and dtype of data.",
    )
    register_op(
        f"_sample_{_row.name}",
        aliases=(f"sample_{_row.name}",),
        params=SampleParams,
        inputs=_row.inputs,
        infer_shape=_sample_shapes,
        **_DRAWN_TYPE,
        gradient=lambda node, ograds: [None] * len(node.inputs),
        flops=_A_DRAW,
        draws="always",
        not_derivative="nothing flows through a draw, as in MXNet",
        doc=f"Draws from {_row.doc}: parameters [s] → [t] draws for each element, [s]x[t].{_OUTSIDE}",
    )

# -- integers ---------------------------------------------------------------------------------------------------------


class RandintParams(Params):
    low: int = param(ge=-(2**63), doc="smallest value")
    high: int = param(le=2**63, doc="the value that all draws are below")
    shape: Tuple | None = param(None, doc=_SHAPE)
    ctx: str = param("", doc=_CTX)
    dtype: Literal["int32", "int64"] | None = param(None, doc="the dtype; None is int32")

    def check(self) -> str | None:
        if self.low >= self.high:
            return f"low must be less than high in randint, got low={self.low}, high={self.high}"
        if self.dtype != "int64" and not -(2**31) <= self.low < self.high <= 2**31:
            return f"int32 cannot hold every integer from low={self.low} to high={self.high}: pass dtype='int64'"
        return None


register_op(
    "_random_randint",
    aliases=("_npi_random_randint", "random_randint"),
    params=RandintParams,
    inputs=(),
    infer_shape=drawn_shape,
    infer_type=lambda p, ins, outs: ((), [p.dtype or "int32"]),
    flops=_A_DRAW,
    draws="always",
    doc="Integers from low up to but without high, all equally likely. An empty range, or one that the dtype cannot "
    "hold, is an error, where MXNet crashes or wraps around.",
)
