"""Further attributes of an operator: cost, precision, chance, deviations, layout, looks (see `register_op`).

Costs are said in elements and operations. A *MAC* is one multiplication with the addition that follows it, as matrix
products and convolutions do them; other operations (bias, comparisons, square roots, each elementary function) count
one each. 1 MAC = 2 FLOPs. Operators that move or make data without arithmetic cost 0.

Costs have a low priority, so that another package can set FFlops or FWorkspace again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any, Literal, NamedTuple

from symjax_nnvm.geometry import Geometry, Library, Machine
from symjax_nnvm.ir.layout import AGNOSTIC, Layout
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry
from symjax_nnvm.ir.op import GROUP_PLEVEL, Deviation, Op, OpMap
from symjax_nnvm.ir.samples import Samples
from symjax_nnvm.ir.types import DType, Shape

Sizes = Sequence[tuple[int, ...]]
"""Known shapes, of inputs or of outputs."""


class Flops(NamedTuple):
    """Arithmetic of one call: multiply-adds, and other floating-point operations."""

    macs: int = 0
    other: int = 0

    @property
    def total(self) -> int:
        """Floating-point operations: two for each MAC."""
        return 2 * self.macs + self.other


FlopsRule = Callable[[Any, Sizes, Sizes], Flops]
"""(parameters, input shapes, output shapes) → arithmetic of one call at inference."""

WorkspaceRule = Callable[[Any, Sizes, Sizes], int]
"""(parameters, input shapes, output shapes) → elements held beyond those, as the lowering rule works: windows are cut
out of a padded copy, samples are gathered before they are added up. XLA may need less, where it fuses."""

Precision = Literal["half", "either", "float32"]
Recompute = Literal["freely", "if forced", "in blocks", "never"]
When = Literal["always", "training"] | None
DrawsRule = Callable[[Any], When]
DeviationRule = str | Deviation | Sequence[Deviation]
Prediction = Callable[[Node, str, Callable[[], int | None]], NodeEntry]
Numbers = tuple[int, Callable[[Any, list[tuple[int, ...]]], int | None]]

FFlops: OpMap[Callable[[NodeAttrs, Sizes, Sizes], Flops]] = Op.get_attr("FFlops")
"""(attrs, input shapes, output shapes), all known → `Flops` of one call at inference."""

TUncounted: OpMap[str] = Op.get_attr("TUncounted")
"""Why an operator has no FFlops: a report of a sum says that the operator is left out."""

TPrecision: OpMap[Precision] = Op.get_attr("TPrecision")
"""How ReducePrecision treats the operator. "half": its time goes into products, whose sums XLA keeps in float32, so
it runs in half precision; "either": it runs in the dtype of its inputs, where its type rule wants one dtype and two
come, in float32; "float32", the default: losses, softmax, exponents, reductions, loops."""

TDrawing: OpMap[str] = Op.get_attr("TDrawing")
"""The family that a drawing shows the operator as; of ours by default the folder of its file."""

TRecompute: OpMap[Recompute] = Op.get_attr("TRecompute")
"""When the backward part may compute the operator again. "freely", the default; "if forced": MXNet's rule do_mirror
keeps it, as it is dear, unless a node asks for it; "in blocks": neither that rule nor a node's attribute makes a copy;
"never": it may do what must be done once."""

TShapeParameters: OpMap[tuple[str, ...]] = Op.get_attr("TShapeParameters")
"""The parameters that may spell out the shape of the operator's result, a batch size with it."""

FPrediction: OpMap[Prediction] = Op.get_attr("FPrediction")
"""(a copy of a training head, the name for what replaces it, the number of its data's axes) → what the head computes,
without its label and its loss."""

TNumbers: OpMap[Numbers] = Op.get_attr("TNumbers")
"""(the input that numbers something, classes or rows; (parameters, input shapes) → how many there are, None where any
number is meant): an operator takes any number, a trainer need not."""

FInference: OpMap[Callable[[Node], NodeEntry | None]] = Op.get_attr("FInference")
"""A node → its first output at inference, made of simpler operators; None: there are none simpler. States that it
writes then keep their values. A caller makes sure that nothing reads the other outputs."""

FScaled: OpMap[Callable[[Node, NodeEntry, NodeEntry, int], Node | None]] = Op.get_attr("FScaled")
"""(a node, a scale and a shift (c,), an axis of its result) → a node of the same operator, whose result is that of the
node scaled and shifted along the axis; None where it cannot be. What it does to weight and bias is done by other nodes,
which depend on these and on scale and shift alone."""

FScaledData: OpMap[Callable[[Node, NodeEntry, NodeEntry, int, Shape | None], Node | None]] = Op.get_attr("FScaledData")
"""(a node, a scale and a shift (c,) of its first input, along an axis of it; the input's shape as far as it is known) →
a node of the same operator, with the same result of the input as it was before; None where it cannot be. As FScaled."""

ScaledParts = Callable[[NodeAttrs, int, list[Shape | None]], Sequence[tuple[int, int] | None] | None]

FScaledParts: OpMap[ScaledParts] = Op.get_attr("FScaledParts")
"""(attrs, an axis of the result, shapes of the inputs as far as they are known) → which part, from and to or None for
all, of a scale and a shift along the axis each input would have to be scaled and shifted by, along the same axis, for
the same result; None where nothing comes to the same."""

FGeometry: OpMap[Callable[[NodeAttrs, tuple[int, ...], DType], Geometry]] = Op.get_attr("FGeometry")
"""(attrs, shape and dtype of the first input) → the geometry by which an operator's algorithm is chosen."""

FTransformWeight: OpMap[Callable[[Node, tuple[int, ...], DType, str, Library | None], NodeEntry | None]] = Op.get_attr(
    "FTransformWeight"
)
"""(a node whose weight is constant, shape and dtype of its first input, the platform, a library of it) → its output by
an algorithm that makes something of the weight first, in nodes of its own that depend on the weight alone; None where
none is faster."""

FAlgorithm: OpMap[Callable[[NodeAttrs, Sequence[tuple[int, ...]], DType, Machine], str | None]] = Op.get_attr(
    "FAlgorithm"
)
"""(attrs, shapes of the inputs, dtype of the first, where it runs) → the name of the algorithm that computes a
convolution or a gradient of one there; None where there is nothing to choose."""

FFuse: OpMap[Callable[[Node, Node, NodeEntry | None, str], Node | None]] = Op.get_attr("FFuse")
"""(a node, the one that alone reads it, what that adds to it or None, else the activation) → a node that does both, by
the name of the second; None where it cannot."""

TAdds: OpMap[bool] = Op.get_attr("TAdds")
"""The sum of two arrays of one shape."""

FActivation: OpMap[Callable[[NodeAttrs], str | None]] = Op.get_attr("FActivation")
"""attrs → "relu", "relu6" or "gelu", which the operator does to every element of its one input; None where it does
others."""

TExpands: OpMap[bool] = Op.get_attr("TExpands")
"""The result may be much larger than all inputs together, and is made as fast as it is read."""

TBroadcasts: OpMap[bool] = Op.get_attr("TBroadcasts")
"""Inputs, or axes, of size 1 are repeated as far as the result is larger."""

TSameValues: OpMap[bool] = Op.get_attr("TSameValues")
"""The result holds values of the first input and no others: it only arranges them."""

TOutGradsRead: OpMap[int] = Op.get_attr("TOutGradsRead")
"""How many head gradients, the first ones, FGradient reads, if not those of all outputs: no zeros are made for the
rest."""

TStopsGradient: OpMap[bool] = Op.get_attr("TStopsGradient")
"""The data themselves, through which no gradient passes."""


MOVES: dict[str, Any] = {"flops": 0, "precision": "either"}
"""Arguments of `register_op` for an operator that moves elements, without arithmetic."""

ARRANGES: dict[str, Any] = {**MOVES, "same_values": True}
"""Arguments of `register_op` for an operator whose result holds values of its first input and no others."""


def per_output(count: int) -> FlopsRule:
    """So many operations for each element of the first output."""
    return lambda p, ins, outs: Flops(0, count * prod(outs[0]))


def per_input(count: int) -> FlopsRule:
    """So many operations for each element of the first input."""
    return lambda p, ins, outs: Flops(0, count * prod(ins[0]))


def as_much_as(which: Literal["input", "output"], count: int) -> WorkspaceRule:
    """So many arrays like the first input or output."""
    return lambda p, ins, outs: count * prod((ins if which == "input" else outs)[0])


def extended(shape: tuple[int, ...], axes: Sequence[int], margins: Sequence[int]) -> int:
    """Elements of an array whose axes are longer by margins."""
    sizes = list(shape)
    for axis, margin in zip(axes, margins, strict=True):
        sizes[axis] += max(margin, 0)
    return prod(sizes)


class Deviations(tuple[Deviation, ...]):
    """An operator's differences from MXNet, as a value of FDeviation: called with attrs, it says which are a node's."""

    __slots__ = ()

    def __call__(self, attrs: NodeAttrs) -> Deviation | None:
        """All deviations that the parameters bring about, as one; None where there are none."""
        found = [one for one in self if one.when is None or one.when(attrs.parsed)]
        if not found:
            return None
        affects = "outputs" if any(one.affects == "outputs" for one in found) else "training"
        return Deviation("; ".join(one.what for one in found), affects)


def fill_card(
    op: Op,
    *,
    flops: FlopsRule | int | str | None,
    workspace: WorkspaceRule | None,
    draws: DrawsRule | When,
    deviation: DeviationRule,
    not_derivative: str | Callable[[Any], str | None] | None,
    layout: Layout | None,
    samples: Samples | None,
    **constants: Any,
) -> None:
    """Set these facts as attributes of an operator; see `register_op`. constants: attributes by their key,
    None where the operator has none."""
    if isinstance(flops, str):
        op.set_attr("TUncounted", flops, plevel=GROUP_PLEVEL)
    elif flops is not None:
        op.set_attr("FFlops", _of_attrs(_constant_flops(flops) if isinstance(flops, int) else flops), GROUP_PLEVEL)
    if workspace is not None:
        op.set_attr("FWorkspace", _of_attrs(workspace), plevel=GROUP_PLEVEL)
    if draws is not None:
        op.set_attr("FDraws", _of_parameters(draws))
        op.set_attr("THasDeterministicOutput", False, plevel=GROUP_PLEVEL)
    if deviation:
        rows = [Deviation(deviation)] if isinstance(deviation, str) else deviation
        op.set_attr("FDeviation", Deviations([rows] if isinstance(rows, Deviation) else rows))
    if not_derivative is not None:
        op.set_attr("FNotDerivative", _of_parameters(not_derivative))
    if layout is not None:
        op.set_attr("FCorrectLayout", AGNOSTIC if layout == "agnostic" else layout)
    if samples is not None or layout == "agnostic":  # what has no order of axes goes element by element
        op.set_attr("FSamples", _of_attrs(samples if callable(samples) else _each))
    for key, value in constants.items():
        if value is not None:
            op.set_attr(key, value)


def _each(p: Any, ins: Sizes, outs: Sizes) -> bool:
    return True


_constant_flops = cache(per_output)


@cache
def _of_attrs(rule: Callable[[Any, Sizes, Sizes], Any]) -> Callable[[NodeAttrs, Sizes, Sizes], Any]:
    """A rule of parameters as one of attrs, the same for operators that share it."""
    return lambda attrs, ins, outs: rule(attrs.parsed, ins, outs)


def _of_parameters(fact: Any) -> Callable[[NodeAttrs], Any]:
    """A fact, or a rule from parameters to one, as a rule of attrs."""
    return (lambda attrs: fact(attrs.parsed)) if callable(fact) else (lambda attrs: fact)
