"""Derivatives, to any order, of an operator too large to be composed of others: a recurrence, a dynamic program.

Let F be such an operator, z its differentiable inputs, y its head gradients and v1 … vn directions in the space of z.
Two families of operators are closed under differentiation:

    T(z; v1 … vn) = DⁿF(z)[v1 … vn]              `_backward_F_tangent`: outputs, differentiated along directions
    B(y; z; v1 … vn) = ∂/∂z <y, T(z; v1 … vn)>    `_backward_F`: the gradient (n = 0), differentiated likewise

for, with u the head gradients of either and v\\i all directions but the i-th,

    of T: ∂z = B(u; z; v),     ∂vi = B(u; z; v\\i)
    of B: ∂z = B(y; z; v, u),  ∂vi = B(y; z; v\\i, u),  ∂y = T(z; v, u).

So an operator needs one forward and one backward computation that run on numbers with nilpotent parts as well as on
plain ones (`lowering/ops/dual.py`); `register_derivatives` makes the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from symjax_nnvm.ir.attributes import FListInputNames
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import register_op
from symjax_nnvm.ir.types import merge_dtypes, merge_shapes

Names = Callable[[Any], Sequence[str]]

_MAX_ORDER = 16
"""Directions of one operator, each with a copy of the inputs; `dual.py` works with 2 ** order parts of each."""


class DirectionParams(Params):
    """The parameters that derivative operators have besides the operator's own."""

    order: int = param(0, ge=0, le=_MAX_ORDER, doc="number of directions")


@dataclass(frozen=True)
class Operands:
    """The operands of a derivative operator by role: names, entries, shapes, dtypes or arrays.

    heads: head gradients. smooth: differentiable inputs. fixed: other operands that the outputs depend on (lengths,
    labels, masks), and those that the forward operator kept for its gradient. directions: lists like `smooth`.
    """

    heads: list[Any]
    smooth: list[Any]
    fixed: list[Any]
    directions: list[list[Any]]

    @property
    def all(self) -> list[Any]:
        """Return all operands, in the order in which the operators take them."""
        return [*self.heads, *self.smooth, *self.fixed, *(x for direction in self.directions for x in direction)]


Rule = Callable[[Any, Operands], Operands]
"""(parameters, what is known of heads, smooth and fixed operands) → what they are proposed to be, no directions."""


@dataclass(frozen=True)
class Derivatives:
    """The names of an operator's derivative operators, and the names of their operands by role.

    Parameters of the derivative operators are those of the operator and `order`.
    """

    backward: str
    tangent: str
    heads: Names
    smooth: Names
    fixed: Names

    def names(self, p: Any, *, heads: bool) -> Operands:
        """Return the names of a derivative operator's operands; heads: the heads of the backward, which has head
        gradients."""
        return Operands(
            [f"ograd_{name}" for name in self.heads(p)] if heads else [],
            list(self.smooth(p)),
            list(self.fixed(p)),
            [[f"direction{i}_{name}" for name in self.smooth(p)] for i in range(p.order)],
        )

    def split(self, p: Any, operands: Sequence[Any], *, heads: bool) -> Operands:
        """Return the operands of a derivative operator by role."""
        queue = iter(operands)
        names = self.names(p, heads=heads)
        groups = [[next(queue) for _ in group] for group in (names.heads, names.smooth, names.fixed, *names.directions)]
        return Operands(groups[0], groups[1], groups[2], groups[3:])

    def gradient(self, node: Node, ograds: Sequence[NodeEntry], fixed: Sequence[NodeEntry]) -> list[NodeEntry | None]:
        """FGradient of the operator itself, given all head gradients and the entries that the names `fixed` mean."""
        p = node.attrs.parsed
        inputs = dict(zip(FListInputNames[node.op](node.attrs), node.inputs, strict=True))
        smooth = list(self.smooth(p))
        at = Operands(list(ograds[: len(self.heads(p))]), [inputs[name] for name in smooth], list(fixed), [])
        grads = dict(zip(smooth, self._apply(self.backward, node, at), strict=True))
        return [grads.get(name) for name in inputs]

    def _apply(self, op: str, node: Node, operands: Operands) -> list[NodeEntry]:
        """Return the outputs of a derivative operator, with the parameters of a node of the family."""
        params: dict[str, Any] = {**node.attrs.dict, "order": len(operands.directions)}
        schema = Op.get(op).params
        own_params = {name: value for name, value in params.items() if schema is not None and name in schema.fields}
        entry = apply(op, *operands.all, **own_params)
        return [entry._replace(index=i) for i in range(entry.node.num_outputs())]

    def _of_tangent(self, node: Node, ograds: list[NodeEntry]) -> list[NodeEntry | None]:
        at = self.split(node.attrs.parsed, node.inputs, heads=False)

        def backward(directions: list[list[NodeEntry]]) -> list[NodeEntry]:
            return self._apply(self.backward, node, Operands(ograds, at.smooth, at.fixed, directions))

        smooth, of_directions = backward(at.directions), [backward(v) for v in _without_each(at.directions)]
        return Operands([], smooth, [None] * len(at.fixed), of_directions).all

    def _of_backward(self, node: Node, ograds: list[NodeEntry]) -> list[NodeEntry | None]:
        at = self.split(node.attrs.parsed, node.inputs, heads=True)

        def backward(directions: list[list[NodeEntry]]) -> list[NodeEntry]:
            return self._apply(self.backward, node, Operands(at.heads, at.smooth, at.fixed, [*directions, ograds]))

        tangent = Operands([], at.smooth, at.fixed, [*at.directions, ograds])
        heads = self._apply(self.tangent, node, tangent)
        smooth, of_directions = backward(at.directions), [backward(v) for v in _without_each(at.directions)]
        return Operands(heads, smooth, [None] * len(at.fixed), of_directions).all


def _without_each(directions: list[list[NodeEntry]]) -> list[list[list[NodeEntry]]]:
    return [directions[:i] + directions[i + 1 :] for i in range(len(directions))]


def _first_known(merge: Callable[[Any, Any], Any], values: Sequence[Any]) -> Any:
    """Return the merged knowledge of several values; the first of two in conflict, which the pass reports."""
    merged = None
    for value in values:
        try:
            merged = merge(merged, value)
        except ValueError:
            continue
    return merged


def register_derivatives(
    name: str, *, params: type, heads: Names, smooth: Names, fixed: Names, infer_shape: Rule, infer_type: Rule
) -> Derivatives:
    """Register `_backward_{name}` and `_backward_{name}_tangent`; see this module's first lines.

    params: the operator's parameters with those of `DirectionParams`. heads, smooth, fixed: parameters → names of the
    outputs that have head gradients, which are the first ones; of the differentiable inputs; of what else the
    derivatives depend on. infer_shape, infer_type: the operator's own rules, in terms of `Operands`.
    """
    family = Derivatives(f"_backward_{name}", f"_backward_{name}_tangent", heads, smooth, fixed)

    def inferring(rule: Rule, merge: Callable[[Any, Any], Any], has_heads: bool) -> Callable[..., Any]:
        def infer(p: Any, ins: Sequence[Any], outs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            at = family.split(p, ins, heads=has_heads)
            likes = [at.smooth, *at.directions, *([outs] if has_heads else [])]
            merged = [_first_known(merge, values) for values in zip(*likes, strict=True)]
            inferred = rule(p, Operands(at.heads if has_heads else list(outs), merged, at.fixed, []))
            directions = [inferred.smooth] * len(at.directions)
            if has_heads:
                return Operands(inferred.heads, inferred.smooth, inferred.fixed, directions).all, inferred.smooth
            return Operands([], inferred.smooth, inferred.fixed, directions).all, inferred.heads

        return infer

    for op, has_heads, gradient, doc in (
        (
            family.backward,
            True,
            family._of_backward,
            f"The gradient of {name}, along `order` directions.",
        ),
        (family.tangent, False, family._of_tangent, f"The outputs of {name}, along `order` directions."),
    ):

        def names(p: Any, has_heads: bool = has_heads) -> list[str]:
            return family.names(p, heads=has_heads).all

        register_op(
            op,
            params=params,
            inputs=("data",),
            inputs_used=names,
            num_outputs=(lambda p: len(smooth(p))) if has_heads else (lambda p: len(heads(p))),
            infer_shape=inferring(infer_shape, merge_shapes, has_heads),
            infer_type=inferring(infer_type, merge_dtypes, has_heads),
            gradient=gradient,
            doc=doc,
        )
    return family
