"""Sums of products over named axes: dot, matmul, tensordot and einsum of MXNet's NumPy dialect.

Each is an einsum: every axis of every operand has a label, axes of one label run together, and labels that the result
lacks are summed over. The operators are linear in each operand; so are their adjoints, which are einsums as well.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.params import MAX_COUNT, Axes, Params, param
from symjax_nnvm.ir.register import NoParams, Shapes, TypeRule, float_type, register_op, same_type
from symjax_nnvm.ir.rules.axes import normal_axes
from symjax_nnvm.ir.rules.costs import Flops, Sizes
from symjax_nnvm.ir.rules.linear import Adjoint, multilinear
from symjax_nnvm.ir.types import MAX_RANK, Dim, Shape, format_shape

Labels = tuple[Hashable, ...]


@dataclass(frozen=True)
class Contraction:
    """The labels of all axes. stretched: those along which operands of size 1 are repeated."""

    inputs: tuple[Labels, ...]
    output: Labels
    stretched: frozenset[Hashable] = frozenset()

    def sizes(self, shapes: Sequence[Shape]) -> dict[Hashable, Dim]:
        """Return the size of each label. Raises InferenceError where two axes of one label differ."""
        sizes: dict[Hashable, Dim] = {}
        for labels, shape in zip(self.inputs, shapes, strict=True):
            for label, size in zip(labels, shape, strict=True):
                before = sizes.setdefault(label, size)
                if before is None or (before == 1 and label in self.stretched and size is not None):
                    sizes[label] = size
                elif size not in (None, before) and not (size == 1 and label in self.stretched):
                    raise InferenceError(
                        "The sizes of axes that are multiplied with each other differ",
                        expected=f"{before}",
                        got=f"{size}, in shapes {', '.join(map(format_shape, shapes))}",
                    )
        return sizes


def _letters(count: int, name: str) -> Labels:
    return tuple((name, i) for i in range(count))


def _dot(p: NoParams, a: int, b: int) -> Contraction:
    """The last axis of a meets the last but one of b, or its only one; a scalar multiplies."""
    left, right = _letters(a, "a"), _letters(b, "b")
    if not a or not b:
        return Contraction((left, right), left + right)
    met = max(0, b - 2)
    return Contraction(
        (left, (*right[:met], left[-1], *right[met + 1 :])), (*left[:-1], *right[:met], *right[met + 1 :])
    )


def _matmul(p: NoParams, a: int, b: int) -> Contraction:
    """Matrices are the last two axes; those before are repeated as in broadcasting."""
    if not a or not b:
        raise InferenceError("Multiplication by scalars is not allowed", expected="arrays with axes", got="a scalar")
    batch = _letters(max(a, b, 2) - 2, "batch")
    left = (*batch[len(batch) + 2 - a :], "row", "met") if a > 1 else ("met",)
    right = (*batch[len(batch) + 2 - b :], "met", "column") if b > 1 else ("met",)
    out = (*batch, *(("row",) if a > 1 else ()), *(("column",) if b > 1 else ()))
    return Contraction((left, right), out, frozenset(batch))


class TensordotParams(Params):
    a_axes_summed: Axes = param(doc="axes of a that are summed with those of b, in this order")
    b_axes_summed: Axes = param(doc="axes of b")


class TensordotIntAxesParams(Params):
    axes: int = param(ge=0, le=MAX_RANK, doc="the number of last axes of a that are summed with the first axes of b")


def _meeting(a: int, b: int, a_axes: Sequence[int], b_axes: Sequence[int]) -> Contraction:
    if len(a_axes) != len(b_axes):
        raise ParamError(
            "a and b differ in the number of summed axes", expected=f"{len(a_axes)} axes of b", got=len(b_axes)
        )
    left, right = _letters(a, "a"), list(_letters(b, "b"))
    for i, j in zip(a_axes, b_axes, strict=True):
        right[j] = left[i]
    free = [label for i, label in enumerate(left) if i not in a_axes]
    free += [label for j, label in enumerate(right) if j not in b_axes]
    return Contraction((left, tuple(right)), tuple(free))


def _tensordot(p: TensordotParams, a: int, b: int) -> Contraction:
    return _meeting(a, b, normal_axes(p.a_axes_summed, a), normal_axes(p.b_axes_summed, b))


def _tensordot_int_axes(p: TensordotIntAxesParams, a: int, b: int) -> Contraction:
    if not a or not b:  # as MXNet has it: a number multiplies
        return _meeting(a, b, (), ())
    if p.axes > min(a, b):
        raise ParamError("An operand has fewer axes", param="axes", expected=f"≤ {min(a, b)}", got=p.axes)
    return _meeting(a, b, range(a - p.axes, a), range(p.axes))


class EinsumParams(Params):
    num_args: int = param(ge=1, le=MAX_COUNT, doc="number of operands")
    subscripts: str = param("", doc="labels of each operand, and after -> those of the result: ij,jk->ik")
    optimize: int = param(0, doc="ignored: the order of products is chosen automatically")


def _einsum(p: EinsumParams, *ndims: int) -> Contraction:
    """The labels of `subscripts`; without -> the result has those that occur once, in alphabetical order."""
    text = p.subscripts.replace(" ", "")
    before, arrow, after = text.partition("->")
    terms = before.split(",")
    if len(terms) != len(ndims):
        raise _wrong(p, f"{len(ndims)} operands, separated by commas", f"{len(terms)}")
    inputs = tuple(_labels(p, term, ndim) for term, ndim in zip(terms, ndims, strict=True))
    every = [label for labels in inputs for label in labels]
    dots = sorted({label for label in every if isinstance(label, int)})
    if arrow:
        counted = len(after.replace("...", "")) + (len(dots) if "..." in after else 0)
        output = _labels(p, after, counted)
    else:
        output = (*dots, *sorted(label for label in every if isinstance(label, str) and every.count(label) == 1))
    if not set(output) <= set(every) or len(set(output)) < len(output):
        raise _wrong(p, "labels of the result that operands have, each once", after)
    return Contraction(inputs, output, frozenset(every))


def _labels(p: EinsumParams, term: str, ndim: int) -> Labels:
    """The labels of an operand: letters, and for an ellipsis numbers, counted from the last axis that it stands for."""
    head, dots, tail = term.partition("...")
    letters = len(head) + len(tail)
    if not all(letter in string.ascii_letters for letter in head + tail):
        raise _wrong(p, "letters, commas, ... and ->", term)
    if letters > ndim or (letters < ndim and not dots):
        raise _wrong(p, f"{ndim} labels for an operand with as many axes", term)
    return (*head, *range(letters - ndim, 0), *tail)


def _wrong(p: EinsumParams, expected: str, got: str) -> ParamError:
    return ParamError(f"Unreadable subscripts: {p.subscripts}", param="subscripts", expected=expected, got=got)


LABELS: dict[str, Callable[..., Contraction]] = {
    "_np_dot": _dot,
    "_npi_matmul": _matmul,
    "_npi_tensordot": _tensordot,
    "_npi_tensordot_int_axes": _tensordot_int_axes,
    "_npi_einsum": _einsum,
}
"""Operator → (parameters, numbers of axes of its operands) → labels."""


def _shape_rule(labels: Callable[..., Contraction]):
    def rule(p: Any, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        """operands → the sizes of the labels that are left."""
        shapes = [shape for shape in ins if shape is not None]
        if len(shapes) < len(ins):
            return ins, outs
        contraction = labels(p, *map(len, shapes))
        sizes = contraction.sizes(shapes)
        if outs[0] is not None and len(outs[0]) == len(contraction.output):
            for label, size in zip(contraction.output, outs[0], strict=True):
                sizes[label] = size if sizes[label] is None else sizes[label]
        free = contraction.stretched
        inputs = [
            tuple(d if d is not None or x in free else sizes[x] for x, d in zip(input_labels, shape, strict=True))
            for input_labels, shape in zip(contraction.inputs, shapes, strict=True)
        ]
        return inputs, [tuple(sizes[label] for label in contraction.output)]

    return rule


def _multiplications(labels: Callable[..., Contraction]):
    def flops(p: Any, ins: Sizes, outs: Sizes) -> Flops:
        """A multiply-add for each combination of indices, of each operand but the first."""
        sizes = labels(p, *map(len, ins)).sizes(ins)
        return Flops(prod(size or 0 for size in sizes.values()) * max(1, len(ins) - 1))

    return flops


class ContractionGradientParams(Params):
    number: int = param(ge=0, le=1, doc="the operand whose gradient it is")


class TensordotGradientParams(TensordotParams):
    number: int = param(ge=0, le=1, doc="the operand whose gradient it is")


class TensordotIntAxesGradientParams(TensordotIntAxesParams):
    number: int = param(ge=0, le=1, doc="the operand whose gradient it is")


class EinsumGradientParams(Params):
    num_args: int = param(ge=1, le=MAX_COUNT, doc="number of operands and one more")
    subscripts: str = param("", doc="those of the einsum")
    number: int = param(ge=0, doc="the operand whose gradient it is")

    def check(self) -> str | None:
        """Whether there is such an operand."""
        return None if self.number < self.num_args - 1 else f"There is no operand {self.number}"


_REPEATED = Deviation("an axis of size 1 that is repeated gets the sum of gradients; MXNet's is wrong", "training")


def _register(name: str, params: type, of_adjoint: type, infer_type: TypeRule, doc: str) -> None:
    labels = LABELS[name]
    operands: dict[str, Any] = {"variadic": "num_args"} if params is EinsumParams else {"inputs": ("a", "b")}
    register_op(
        name,
        params=params,
        **operands,
        infer_shape=_shape_rule(labels),
        infer_type=infer_type,
        flops=_multiplications(labels),
        deviation=_REPEATED if name in ("_npi_matmul", "_npi_einsum") else (),
        doc=doc,
    )
    multilinear(name, of=Adjoint(f"_backward{name}", place="number"), params=of_adjoint)


_register(
    "_np_dot",
    NoParams,
    ContractionGradientParams,
    float_type,
    "Products summed over the last axis of a and the last but one of b; of a scalar products.",
)
_register(
    "_npi_matmul",
    NoParams,
    ContractionGradientParams,
    float_type,
    "Matrix products over the last two axes, with broadcasting over those before; vectors are rows or columns.",
)
_register("_npi_tensordot", TensordotParams, TensordotGradientParams, float_type, "Products summed over pairs of axes.")
_register(
    "_npi_tensordot_int_axes",
    TensordotIntAxesParams,
    TensordotIntAxesGradientParams,
    float_type,
    "Products summed over the last axes of a and the first ones of b.",
)
_register(
    "_npi_einsum", EinsumParams, EinsumGradientParams, same_type, "Einstein's sum of products over labelled axes."
)
