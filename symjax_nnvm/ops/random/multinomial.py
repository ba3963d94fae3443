"""Draws from what is listed: classes by their probabilities, classes without replacement, the order of rows."""

from __future__ import annotations

from math import prod
from typing import Literal

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Params, Tuple, param
from symjax_nnvm.ir.register import Entries, NoParams, Shapes, Types, float_type, register_op, same_shape, same_type
from symjax_nnvm.ir.rules.costs import as_much_as
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.types import Shape
from symjax_nnvm.ops.indexing.sort import sort_flops

# -- _sample_multinomial ----------------------------------------------------------------------------------------------

_EXACT_CLASSES = {"uint8": 2**8, "float16": 2**11 + 1, "float32": 2**24 + 1}
"""How many classes a dtype can number exactly."""


class MultinomialParams(Params):
    shape: Tuple = param((), ge=1, doc="shape [t] of the draws from each distribution; () draws one")
    get_prob: bool = param(False, doc="a second output: the logarithm of the probability of each draw")
    dtype: Literal["float16", "float32", "float64", "int32", "uint8"] = param("int32", doc="dtype of the draws")


def _draws_shape(data: Shape | None, drawn: Tuple) -> Shape | None:
    """Probabilities [s]x[k] → draws [s]x[t]; (1,) where that has no axis."""
    return None if data is None else (*data[:-1], *drawn) or (1,)


def _multinomial_shapes(p: MultinomialParams, ins: Shapes, outs: Shapes):
    """data [s]x[k] ↔ draws [s]x[t], log-probabilities [s]x[t]."""
    _, outputs = same_shape(p, (), outs)
    data, out = ins[0], outputs[0]
    # (1,) may come from [k] and from [1]x[k].
    if data is None and out is not None and len(out) >= len(p.shape) and (p.shape or out not in ((1,), (None,))):
        data = (*out[: len(out) - len(p.shape)], None)
    if data == ():
        raise InferenceError("Probabilities need an axis", input="data", expected="one axis or more")
    most = _EXACT_CLASSES.get(p.dtype)
    if data is not None and most is not None and (data[-1] or 0) > most:
        raise InferenceError(
            f"{p.dtype} cannot number the classes",
            param="dtype",
            expected=f"at most {most} classes, or another dtype",
            got=f"{data[-1]} classes",
        )
    return [data], [_draws_shape(data, p.shape)] * len(outputs)


def _multinomial_types(p: MultinomialParams, ins: Types, outs: Types):
    """data of a floating-point dtype → draws of the dtype parameter, log-probabilities of data's."""
    inputs, probabilities = float_type(p, ins, outs[1:])
    return inputs, [p.dtype, *probabilities]


def _multinomial_gradient(node: Node, ograds: Entries):
    """The probability of each class receives d log P = dY / P from every draw of it."""
    if not node.attrs.parsed.get_prob:
        return [None]
    (data,), draws = node.inputs, NodeEntry(node, 0, 0)
    of_each = apply("elemwise_div", ograds[1], apply("_probability_of_draw", data, draws))
    return [apply("_backward_probability_of_draw", of_each, data, draws)]


register_op(
    "_sample_multinomial",
    aliases=("sample_multinomial",),
    params=MultinomialParams,
    num_outputs=lambda p: 1 + p.get_prob,
    FListOutputNames=lambda attrs: ["output0", "output1"] if attrs.parsed.get_prob else ["output"],
    infer_shape=_multinomial_shapes,
    infer_type=_multinomial_types,
    gradient=_multinomial_gradient,
    flops="a draw: the work depends on the generator",
    workspace=lambda p, ins, outs: prod(outs[0]) * ins[0][-1],  # each draw against the sum of each class
    draws="always",
    doc="Draws classes by their probabilities, along the last axis of data [s]x[k] → [s]x[t]; with get_prob also the "
    "logarithm of each draw's probability, whose gradient is that of REINFORCE. The probabilities of a distribution "
    "should add up to 1; otherwise their proportions count, while MXNet draws classes that do not exist. A "
    "dtype that cannot number the classes is an error, where MXNet gives other classes.",
)


def _free_draws_types(p: NoParams, ins: Types, outs: Types):
    """Everything but the draws, the last input, has one dtype."""
    inputs, outputs = same_type(p, ins[:-1], outs)
    return [*inputs, ins[-1]], outputs


def _probability_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """data [s]x[k], draws [s]x[t] → [s]x[t]."""
    (draws,), out = same_shape(p, ins[1:], outs)
    return [ins[0], draws], out


register_op(
    "_probability_of_draw",
    inputs=("data", "draws"),
    infer_shape=_probability_shapes,
    infer_type=_free_draws_types,
    flops="made for the gradient of sample_multinomial",
    doc="The elements of data [s]x[k] that draws [s]x[t] number: what the gradient of _sample_multinomial is made of.",
)
linear(
    "_probability_of_draw",
    of="data",
    adjoint="_backward_probability_of_draw",
    doc="The gradient of _probability_of_draw: ograd added up by the class drawn, in the shape of data.",
)

# -- _sample_unique_zipfian -------------------------------------------------------------------------------------------


class UniqueZipfianParams(Params):
    range_max: int = param(ge=1, le=2**31 - 1, doc="number of classes")
    shape: Tuple | None = param(None, ge=1, doc="(b, n): b times n different classes")

    def check(self) -> str | None:
        if self.shape is None or len(self.shape) != 2:
            return f"shape must have two dimensions, got shape={self.shape}"
        if self.shape[1] > self.range_max:
            return "Number of samples cannot exceed the number of possible classes"
        return None


register_op(
    "_sample_unique_zipfian",
    params=UniqueZipfianParams,
    inputs=(),
    outputs=("output0", "output1"),
    infer_shape=lambda p, ins, outs: ((), [p.shape, p.shape[:1]]),
    infer_type=lambda p, ins, outs: ((), ["int64", "int64"]),
    flops=sort_flops,
    workspace=as_much_as("output", 4),
    draws="always",
    deviation="draws the distribution that MXNet documents; MXNet draws another one",
    doc="For each of b rows n different classes, drawn again and again from the log-uniform distribution P(c) = "
    "log((c + 2) / (c + 1)) / log(range_max + 1) until n different ones are found, in the order they are found in "
    "(b, n); and how many draws that took (b,). MXNet documents this distribution, and draws another one, in which "
    "class 0 is too rare.",
)

# -- _shuffle ---------------------------------------------------------------------------------------------------------

register_op(
    "_shuffle",
    aliases=("_npi_shuffle", "shuffle"),
    infer_shape=same_shape,
    flops=sort_flops,
    workspace=as_much_as("input", 2),
    draws="always",
    doc="The slices of data along the first axis in random order; every order is equally likely.",
)
