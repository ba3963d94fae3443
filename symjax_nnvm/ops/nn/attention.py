"""Multi-head attention over interleaved projections: the four `_contrib_interleaved_matmul_*` operators.

Projections are (steps, batch, heads · parts · d): the queries, keys and values of one head stand side by side, as in
the fused kernels of Apex. Every product is one of two forms, each the other's gradient, which is how they close under
differentiation to any order:

    scores[n h, i, j] = c Σ_d a[i, n, h, d] b[j, n, h, d]
    mixture[i, n, h, d] = c Σ_j weights[n h, i, j] b[j, n, h, d]

with c = 1 / √d where the scores are scaled, else 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Entries, Shapes, float_type, register_op
from symjax_nnvm.ir.rules.axes import known
from symjax_nnvm.ir.rules.costs import Flops, Sizes
from symjax_nnvm.ir.rules.linear import Adjoint, gradient_as, multilinear
from symjax_nnvm.ir.rules.named_dims import of_rank
from symjax_nnvm.ir.types import Dim, Shape, format_shape


class HeadsParams(Params):
    heads: int = param(ge=1, doc="number of attention heads")


class ScoresParams(HeadsParams):
    a_parts: int = param(ge=1, doc="interleaved parts of the first operand")
    a_part: int = param(ge=0, doc="the one that is used")
    b_parts: int = param(ge=1, doc="interleaved parts of the second operand")
    b_part: int = param(ge=0, doc="the one that is used")
    scaled: bool = param(doc="divide by √d")


class MixtureParams(HeadsParams):
    parts: int = param(ge=1, doc="interleaved parts of what is mixed")
    part: int = param(ge=0, doc="the one that is used")
    out_parts: int = param(ge=1, doc="interleaved parts of the result")
    out_part: int = param(ge=0, doc="the one that is written; the others are 0")
    transposed: bool = param(doc="exchange the weights' last two axes")
    scaled: bool = param(doc="divide by √d")


# -- shapes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Projection:
    """What is known of an array (steps, batch, heads · parts · d)."""

    steps: Dim
    batch: Dim
    d: Dim

    def shape(self, heads: int, parts: int) -> Shape:
        return self.steps, self.batch, None if self.d is None else heads * parts * self.d


def _projection(shape: Shape | None, heads: int, parts: int, name: str) -> _Projection:
    """The sizes of a projection. Raises InferenceError for another rank or features that cannot be shared out."""
    if shape is None:
        return _Projection(None, None, None)
    steps, batch, features = _three_axes(shape, name, "(steps, batch, features)")
    if features is not None and features % (heads * parts):
        raise InferenceError(
            f"Input {name} cannot be shared out among {heads} heads",
            input=name,
            param="heads",
            expected=f"features divisible by {heads * parts} = heads · {parts}",
            got=format_shape(shape),
        )
    return _Projection(steps, batch, None if features is None else features // (heads * parts))


def _three_axes(shape: Shape | None, name: str, meaning: str) -> Shape:
    return of_rank(shape, 3, f"Input {name} should be 3D", input=name, expected=meaning)


def _batch_of(rows: Dim, heads: int, name: str) -> Dim:
    if rows is not None and rows % heads:
        raise InferenceError(
            "The first axis is batch · heads", input=name, expected=f"a multiple of {heads} heads", got=rows
        )
    return None if rows is None else rows // heads


def _score_shapes(p: ScoresParams, names: tuple[str, str, str], a: Shape | None, b: Shape | None, out: Shape | None):
    """a (i, n, h·parts·d), b (j, n, h·parts·d) ↔ (n·h, i, j)."""
    first = _projection(a, p.heads, p.a_parts, names[0])
    second = _projection(b, p.heads, p.b_parts, names[1])
    rows, i, j = _three_axes(out, names[2], "(batch · heads, steps, steps)")
    batch = known(first.batch, second.batch, _batch_of(rows, p.heads, names[2]))
    d = known(first.d, second.d)
    i, j = known(first.steps, i), known(second.steps, j)
    rows = None if batch is None else batch * p.heads
    return (
        _Projection(i, batch, d).shape(p.heads, p.a_parts),
        _Projection(j, batch, d).shape(p.heads, p.b_parts),
        (rows, i, j),
    )


def _mixture_shapes(
    p: MixtureParams, names: tuple[str, str, str], weights: Shape | None, b: Shape | None, out: Shape | None
):
    """weights (n·h, i, j), b (j, n, h·parts·d) ↔ (i, n, h·out_parts·d); the scores' relation, read the other way."""
    scores = ScoresParams(
        heads=p.heads, a_parts=p.out_parts, a_part=p.out_part, b_parts=p.parts, b_part=p.part, scaled=p.scaled
    )
    if p.transposed and weights is not None and len(weights) == 3:
        weights = (weights[0], weights[2], weights[1])
    out, b, weights = _score_shapes(scores, (names[2], names[1], names[0]), out, b, weights)
    return (weights[0], weights[2], weights[1]) if p.transposed else weights, b, out


# -- the two forms ---------------------------------------------------------------------------------------------------


def _of_scores(values: dict[str, Any], of: str) -> dict[str, Any]:
    """The parameters of the mixture that is the gradient of scores by `a` or `b`: of the other, in place of its
    part."""
    out, mixed = ("a", "b") if of == "a" else ("b", "a")
    return {
        **{name: values[name] for name in ("heads", "scaled")},
        "parts": values[f"{mixed}_parts"],
        "part": values[f"{mixed}_part"],
        "out_parts": values[f"{out}_parts"],
        "out_part": values[f"{out}_part"],
    }


def _of_mixture(p: MixtureParams) -> dict[str, Any]:
    """The parameters of the scores whose gradient a mixture is."""
    out, mixed = ("b", "a") if p.transposed else ("a", "b")
    return {
        "heads": p.heads,
        "scaled": p.scaled,
        f"{mixed}_parts": p.parts,
        f"{mixed}_part": p.part,
        f"{out}_parts": p.out_parts,
        f"{out}_part": p.out_part,
    }


def _scores_gradient(p: ScoresParams, a: NodeEntry, b: NodeEntry, ds: NodeEntry):
    """dA = c dS B, dB = c dSᵀ A, each in place of its part."""
    return gradient_as("_backward_attention_mixture_weights", [a, b], ds, **vars(p))


register_op(
    "_backward_attention_mixture_weights",
    params=ScoresParams,
    inputs=("a", "b"),
    infer_shape=lambda p, ins, outs: _split(_score_shapes(p, ("a", "b", "output"), ins[0], ins[1], outs[0])),
    infer_type=float_type,
    doc="c Σ_d a b: the scores of attention, and the gradient of the weights of a mixture.",
)
multilinear(
    "_backward_attention_mixture_weights",
    of=Adjoint(
        "_backward_attention_scores",
        lambda of, inputs: ("ograd", *(name for name in inputs if name != of)),
        place="transposed",
        attributes={"doc": "c Σ_j weights b: the mixture of attention, and the gradient of the operands of scores."},
    ),
    params=MixtureParams,
    convert=(_of_scores, _of_mixture),
)


def _split(shapes: tuple[Shape | None, Shape | None, Shape | None]):
    return list(shapes[:2]), [shapes[2]]


# -- MXNet's operators -----------------------------------------------------------------------------------------------


def self_scores(p: HeadsParams) -> ScoresParams:
    """Queries against keys of one array of three parts."""
    return ScoresParams(heads=p.heads, a_parts=3, a_part=0, b_parts=3, b_part=1, scaled=True)


def encoder_scores(p: HeadsParams) -> ScoresParams:
    """Queries against the keys of an array of two parts."""
    return ScoresParams(heads=p.heads, a_parts=1, a_part=0, b_parts=2, b_part=0, scaled=True)


def self_mixture(p: HeadsParams) -> MixtureParams:
    """The values of an array of three parts."""
    return MixtureParams(heads=p.heads, parts=3, part=2, out_parts=1, out_part=0, transposed=False, scaled=False)


def encoder_mixture(p: HeadsParams) -> MixtureParams:
    """The values of an array of two parts."""
    return MixtureParams(heads=p.heads, parts=2, part=1, out_parts=1, out_part=0, transposed=False, scaled=False)


def self_score_shapes(p: HeadsParams, ins: Shapes, outs: Shapes):
    """queries_keys_values (t, n, h·3·d) → (n·h, t, t)."""
    (data,), (out,) = ins, outs
    name = "queries_keys_values"
    first, second, out = _score_shapes(self_scores(p), (name, name, "output"), data, data, out)
    steps = known(first[0], second[0])
    return [(steps, *first[1:])], [(out[0], steps, steps)]


def _encoder_score_shapes(p: HeadsParams, ins: Shapes, outs: Shapes):
    """queries (i, n, h·d), keys_values (j, n, h·2·d) → (n·h, i, j)."""
    return _split(_score_shapes(encoder_scores(p), ("queries", "keys_values", "output"), ins[0], ins[1], outs[0]))


def _mixing_shapes(parameters: Callable[[Any], MixtureParams], name: str):
    def rule(p: HeadsParams, ins: Shapes, outs: Shapes):
        """projections (j, n, h·parts·d), attention (n·h, i, j) → (i, n, h·d)."""
        names = ("attention", name, "output")
        weights, b, out = _mixture_shapes(parameters(p), names, ins[1], ins[0], outs[0])
        return [b, weights], [out]

    return rule


def self_mixing_shapes(p: HeadsParams, ins: Shapes, outs: Shapes):
    """queries_keys_values (t, n, h·3·d), attention (n·h, t, t) → (t, n, h·d)."""
    (data, weights), (out,) = _mixing_shapes(self_mixture, "queries_keys_values")(p, ins, outs)
    steps = known(data[0], weights[1])
    return [(steps, *data[1:]), (weights[0], steps, steps)], [(steps, *out[1:])]


def _self_score_gradient(node: Node, ograds: Entries):
    """Queries and keys are parts of one array: their gradients add up."""
    (data,) = node.inputs
    return [apply("elemwise_add", *_scores_gradient(self_scores(node.attrs.parsed), data, data, ograds[0]))]


def _encoder_score_gradient(node: Node, ograds: Entries):
    return _scores_gradient(encoder_scores(node.attrs.parsed), node.inputs[0], node.inputs[1], ograds[0])


def _mixing_gradient(parameters: Callable[[Any], MixtureParams]):
    def rule(node: Node, ograds: Entries) -> Entries:
        data, weights = node.inputs
        return gradient_as(
            "_backward_attention_scores", [weights, data], ograds[0], **vars(parameters(node.attrs.parsed))
        )[::-1]

    return rule


def score_flops(p: HeadsParams, ins: Sizes, outs: Sizes) -> Flops:
    """Queries (t, n, parts · heads · d) times keys → (n · heads, t, s), each element a product of length d."""
    rows, batch, width = ins[0]
    parts = 3 if len(ins) == 1 else 1
    return Flops(prod(outs[0]) * (width // (parts * p.heads)), rows * batch * width // parts)


def mixture_flops(p: HeadsParams, ins: Sizes, outs: Sizes) -> Flops:
    """Weights (n · heads, t, s) times values → (t, n, heads · d), each element a product of length s."""
    return Flops(prod(outs[0]) * ins[1][-1])


for _name, _input_names, _shapes, _gradient, _flops, _doc in (
    (
        "selfatt_qk",
        ("queries_keys_values",),
        self_score_shapes,
        _self_score_gradient,
        score_flops,
        "Scaled scores: queries_keys_values (t, n, h·3·d) → (n·h, t, t), queries · keys / √d.",
    ),
    (
        "selfatt_valatt",
        ("queries_keys_values", "attention"),
        self_mixing_shapes,
        _mixing_gradient(self_mixture),
        mixture_flops,
        "Mixed values: queries_keys_values (t, n, h·3·d), attention (n·h, t, t) → (t, n, h·d).",
    ),
    (
        "encdec_qk",
        ("queries", "keys_values"),
        _encoder_score_shapes,
        _encoder_score_gradient,
        score_flops,
        "Scaled scores: queries (i, n, h·d), keys_values (j, n, h·2·d) → (n·h, i, j), queries · keys / √d.",
    ),
    (
        "encdec_valatt",
        ("keys_values", "attention"),
        _mixing_shapes(encoder_mixture, "keys_values"),
        _mixing_gradient(encoder_mixture),
        mixture_flops,
        "Mixed values: keys_values (j, n, h·2·d), attention (n·h, i, j) → (i, n, h·d).",
    ),
):
    register_op(
        f"_contrib_interleaved_matmul_{_name}",
        params=HeadsParams,
        inputs=_input_names,
        infer_shape=_shapes,
        infer_type=float_type,
        gradient=_gradient,
        flops=_flops,
        precision="half",
        drawing="dense",
        doc=f"{_doc} The parts of each head are interleaved. Works in every floating-point dtype.",
    )
