"""Densities and probabilities of samples under distributions whose parameters are arrays: `_random_pdf_*`, as a table.

A sample [s]x[t] holds draws from each of the distributions [s]. The gradient of the logarithm of a density is its
score; a row of the table is a distribution with its scores, written in registered operators.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Entries, Shapes, float_type, register_op, same_shape
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.types import Shape, format_shape
from symjax_nnvm.ops.elementwise.binary import add, div, mul, sub
from symjax_nnvm.ops.elementwise.scalar import minus_one, one_minus
from symjax_nnvm.ops.elementwise.unary import digamma, log

Scores = Callable[..., tuple[NodeEntry | None, *tuple[NodeEntry, ...]]]
"""(sample x, *parameters in its shape) → d log p / d x, None where nothing flows; d log p / d parameter, …."""


class PdfParams(Params):
    is_log: bool = param(False, doc="the logarithm of the density")


class RepeatOverSamplesParams(Params):
    event_axes: int = param(0, ge=0, le=1, doc="how many last axes parameters and sample share: those of one draw")


# -- parameters in the shape of the sample, and back ------------------------------------------------------------------


def aligned_shapes(
    parameters: Shapes, sample: Shape | None, event_axes: int
) -> tuple[list[Shape | None], Shape | None]:
    """Parameters [s]x[e] and a sample [s]x[t]x[e], each completed by the others. Raises InferenceError."""
    parameters, _ = same_shape(None, parameters, ())
    shape = parameters[0]
    if shape is None or sample is None:
        return list(parameters), sample
    if len(shape) > len(sample) or len(shape) < event_axes:
        raise InferenceError(
            f"dimension of input samples ({len(sample)}) must be at least dimension of distribution parameters "
            f"({len(shape)})",
            expected="sample [s]x[t] of distributions [s]",
            got=f"sample {format_shape(sample)}, parameters {format_shape(shape)}",
        )
    split = len(shape) - event_axes
    gap = len(sample) - len(shape)
    expected = (*sample[:split], *sample[split + gap :])
    if any(a != b and None not in (a, b) for a, b in zip(shape, expected, strict=True)):
        raise InferenceError(
            "The parameters do not fit the sample",
            expected=f"parameters {format_shape(expected)} for a sample {format_shape(sample)}",
            got=format_shape(shape),
        )
    shape = tuple(b if a is None else a for a, b in zip(shape, expected, strict=True))
    completed = (*shape[:split], *sample[split : split + gap], *shape[split:])
    return [shape] * len(parameters), completed


def _repeat_shapes(p: RepeatOverSamplesParams, ins: Shapes, outs: Shapes):
    """data [s]x[e], sample [s]x[t]x[e] → [s]x[t]x[e]."""
    (sample,), _ = same_shape(p, ins[1:], outs)
    (data,), sample = aligned_shapes(ins[:1], sample, p.event_axes)
    return [data, sample], [sample]


def _sum(ograd: NodeEntry, data: NodeEntry, event_axes: int) -> NodeEntry:
    return apply("_backward_repeat_over_samples", ograd, data, event_axes=event_axes)


def _repeat(data: NodeEntry, sample: NodeEntry, event_axes: int) -> NodeEntry:
    return apply("_repeat_over_samples", data, sample, event_axes=event_axes)


register_op(
    "_repeat_over_samples",
    params=RepeatOverSamplesParams,
    inputs=("data", "sample"),
    infer_shape=_repeat_shapes,
    FIgnoreInputs=lambda attrs: (1,),
    flops=0,
    doc="Parameters of distributions, [s]x[e], repeated for every draw of sample [s]x[t]x[e]; [e] are the last "
    "event_axes axes.",
)
linear(
    "_repeat_over_samples",
    of="data",
    adjoint="_backward_repeat_over_samples",
    inputs=("ograd", "data"),
    like="sample",
    doc="The gradient of _repeat_over_samples: the sum over the draws, in the shape of data.",
)

# -- scores -----------------------------------------------------------------------------------------------------------


def _uniform_scores(x: NodeEntry, low: NodeEntry, high: NodeEntry):
    """log p = -log(h - l)."""
    of_low = apply("reciprocal", sub(high, low))
    return None, of_low, apply("negative", of_low)


def _normal_scores(x: NodeEntry, mu: NodeEntry, sigma: NodeEntry):
    """log p = -z² / 2 - log σ - log √(2π), z = (x - μ) / σ."""
    z = div(sub(x, mu), sigma)
    of_mu = div(z, sigma)
    return apply("negative", of_mu), of_mu, div(minus_one(apply("square", z)), sigma)


def _gamma_scores(x: NodeEntry, alpha: NodeEntry, beta: NodeEntry):
    """log p = α log β + (α - 1) log x - β x - log Γ(α)."""
    return (
        sub(div(minus_one(alpha), x), beta),
        sub(add(log(beta), log(x)), digamma(alpha)),
        sub(div(alpha, beta), x),
    )


def _exponential_scores(x: NodeEntry, lam: NodeEntry):
    """log p = log λ - λ x."""
    return apply("negative", lam), sub(apply("reciprocal", lam), x)


def _poisson_scores(x: NodeEntry, lam: NodeEntry):
    """log p = x log λ - λ - log x!."""
    return None, minus_one(div(x, lam))


def _negative_binomial_scores(x: NodeEntry, k: NodeEntry, p: NodeEntry):
    """log p = log Γ(x + k) - log x! - log Γ(k) + k log p + x log(1 - p)."""
    of_k = add(sub(digamma(add(x, k)), digamma(k)), log(p))
    return None, of_k, sub(div(k, p), div(x, one_minus(p)))


def _generalized_negative_binomial_scores(x: NodeEntry, mu: NodeEntry, alpha: NodeEntry):
    """The negative binomial distribution of k = 1 / α, p = 1 / (1 + αμ)."""
    k = apply("reciprocal", alpha)
    spread = apply("_plus_scalar", mul(alpha, mu), scalar=1.0)
    excess = div(sub(x, mu), spread)
    of_k = sub(sub(digamma(add(x, k)), digamma(k)), log(spread))
    return None, div(excess, mu), sub(div(excess, alpha), mul(apply("square", k), of_k))


def _dirichlet_scores(x: NodeEntry, alpha: NodeEntry):
    """log p = Σ ((αᵢ - 1) log xᵢ - log Γ(αᵢ)) + log Γ(Σ αᵢ)."""
    total = digamma(apply("sum", alpha, axis=-1, keepdims=True))
    return div(minus_one(alpha), x), apply("broadcast_add", sub(log(x), digamma(alpha)), total)


@dataclass(frozen=True)
class Density:
    """A row. is_count: the sample consists of counts, to which nothing flows. event_axes: the last axes of the sample
    that one draw has."""

    name: str
    inputs: tuple[str, ...]
    scores: Scores
    doc: str
    is_count: bool = False
    event_axes: int = 0


DENSITIES: tuple[Density, ...] = (
    Density(
        "dirichlet",
        ("alpha",),
        _dirichlet_scores,
        "Dirichlet distribution of concentrations alpha [s]x[k]; sample [s]x[t]x[k] → [s]x[t]",
        event_axes=1,
    ),
    Density("exponential", ("lam",), _exponential_scores, "exponential distribution of rate lam"),
    Density(
        "gamma",
        ("alpha", "beta"),
        _gamma_scores,
        "gamma distribution of shape alpha and rate beta (where _sample_gamma's beta is the scale, 1 / rate)",
    ),
    Density(
        "generalized_negative_binomial",
        ("mu", "alpha"),
        _generalized_negative_binomial_scores,
        "negative binomial distribution of mean mu and variance mu + alpha mu²",
        is_count=True,
    ),
    Density(
        "negative_binomial",
        ("k", "p"),
        _negative_binomial_scores,
        "negative binomial distribution: successes before the k-th failure, of which each has probability p",
        is_count=True,
    ),
    Density("normal", ("mu", "sigma"), _normal_scores, "normal distribution of mean mu and standard deviation sigma"),
    Density("poisson", ("lam",), _poisson_scores, "Poisson distribution of rate lam", is_count=True),
    Density(
        "uniform",
        ("low", "high"),
        _uniform_scores,
        "uniform distribution over [low, high]; samples are not looked at: outside the value is the same",
    ),
)


def _shapes_of(row: Density):
    def elementwise(p: PdfParams, ins: Shapes, outs: Shapes):
        """sample [s]x[t], parameters [s] → [s]x[t]."""
        (sample,), _ = same_shape(p, ins[:1], outs)
        parameters, sample = aligned_shapes(ins[1:], sample, 0)
        return [sample, *parameters], [sample]

    def vectors(p: PdfParams, ins: Shapes, outs: Shapes):
        """sample [s]x[t]x[k], parameters [s]x[k] → [s]x[t], or (1,) where that has no axis."""
        sample, out = ins[0], outs[0]
        if sample is None and out is not None and len(out) > 1:  # (1,) may come from [k] and from [1]x[k]
            sample = (*out, None)
        parameters, sample = aligned_shapes(ins[1:], sample, row.event_axes)
        return [sample, *parameters], [None if sample is None else sample[:-1] or (1,)]

    return vectors if row.event_axes else elementwise


def _gradient_of(row: Density):
    def gradient(node: Node, ograds: Entries):
        """dθ = the sum over the draws of dY times the score; times the density, where that is not a logarithm."""
        sample, *parameters = node.inputs
        weight = ograds[0] if node.attrs.parsed.is_log else mul(ograds[0], NodeEntry(node, 0, 0))
        if row.event_axes:
            weight = apply("reshape_like", weight, apply("sum", sample, axis=-1, keepdims=True))
        times = "broadcast_mul" if row.event_axes else "elemwise_mul"
        x = apply("BlockGrad", sample) if row.is_count else sample
        of_sample, *others = row.scores(x, *(_repeat(parameter, sample, row.event_axes) for parameter in parameters))
        return [
            None if of_sample is None else apply(times, of_sample, weight),
            *(
                _sum(apply(times, score, weight), parameter, row.event_axes)
                for score, parameter in zip(others, parameters, strict=True)
            ),
        ]

    return gradient


_COUNTS = " Nothing flows to the sample, which consists of counts."

for _row in DENSITIES:
    register_op(
        f"_random_pdf_{_row.name}",
        aliases=(f"random_pdf_{_row.name}",),
        params=PdfParams,
        inputs=("sample", *_row.inputs),
        infer_shape=_shapes_of(_row),
        infer_type=float_type,
        gradient=_gradient_of(_row),
        flops="a formula of each distribution's own",
        not_derivative="nothing flows to a sample that consists of counts, as in MXNet" if _row.is_count else None,
        doc=f"The {'probability' if _row.is_count else 'density'} of each draw of sample [s]x[t], or its logarithm, "
        f"under the {_row.doc}; parameters [s].{_COUNTS if _row.is_count else ''} Outside the support the value is "
        "that of the formula.",
    )
