"""Operators that are linear in some of their inputs, and their adjoints: one declaration, gradients of every order.

Let f be linear in its input i, not necessarily in the others (indices, weights, offsets). Its adjoint A is the operator
with <A(dY, others), X> = <dY, f(X, others)> for every X: the gradient of f by that input. Since

    <G, A(dY, others)> = <dY, f(G, others)>,

the gradient of A by dY is f with G in the place i, and its gradient by any other input is what f has there for the head
gradient dY, again with G in the place i. So the adjoint of one input, or of each (a product, a convolution), closes
under differentiation, and a declaration needs only its name: its shapes and dtypes are those of f, read the other way.
`linear`, `multilinear` and `jointly_linear` register it and give f its FGradient, unless it has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from symjax_nnvm.ir.attributes import FGradient, FInferShape, FInferType, FListInputNames, TAdjointOf, TDrawing
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, apply
from symjax_nnvm.ir.op import Op, OpMap
from symjax_nnvm.ir.params import ParamSchema, schema_of
from symjax_nnvm.ir.register import Entries, register_op
from symjax_nnvm.ir.rules.axes import completed
from symjax_nnvm.ir.types import DType

OGRAD = "ograd"

At = dict[str, NodeEntry]
"""Entries by the names of an operator's inputs."""

Rule = Callable[[Node, NodeEntry, At], NodeEntry | None]
"""(node with the parameters, dY, inputs of the operator) → the gradient of <dY, output> by one of the inputs."""

Conversion = tuple[Callable[[dict[str, Any], str], dict[str, Any]], Callable[[Any], dict[str, Any]]]
"""(parameters of the operator, an input → those of its adjoint; the adjoint's → the operator's)."""


@dataclass(frozen=True)
class Adjoint:
    """An adjoint operator, and the properties of it that do not follow from the operator.

    inputs: `ograd` and names of the operator's inputs, in the adjoint's order; default `ograd` and all of them. The
    input whose gradient it is, is a model: only its shape and dtype are read. Or a function (the input whose gradient
    it is, names of all) → names. settings: parameters that its nodes have besides the operator's. place: the parameter
    with the name or number of the input whose gradient it is, when it is the adjoint of each.
    attributes: of `register_op`, where they are not those that follow.
    """

    name: str
    inputs: Sequence[str] | Callable[[str, Sequence[str]], Sequence[str]] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    place: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def names(self, of: str, inputs: Sequence[str]) -> list[str]:
        """Return the names of its inputs, where the operator has `inputs` and it is the gradient of one."""
        names = self.inputs(of, inputs) if callable(self.inputs) else self.inputs
        if names is None:
            return [OGRAD, *inputs]
        return [name for name in names if name in inputs or name == OGRAD]


@dataclass(frozen=True)
class Linear:
    """A declaration: the operator, and by the names of inputs in which it is linear their adjoints.

    each: the one adjoint of all inputs, instead. params: the parameters of the adjoints. carried: what parameters their
    nodes share with the operator's; given: only those that a node was given. restored: parameters of the operator where
    it is the gradient of an adjoint. like: the last input, when it has the output's shape and no content. others:
    gradients by inputs in which the operator is not linear. convert: parameters of the one into those of the other,
    where they do not share names.
    """

    op: Op
    schema: ParamSchema
    adjoints: Mapping[str, Adjoint]
    each: Adjoint | None
    params: type
    carried: Sequence[str]
    given: bool
    restored: Mapping[str, Any]
    like: str | None
    others: Mapping[str, Rule]
    convert: Conversion | None

    # -- names and parameters ------------------------------------------------------------------------------------------

    def _of_operator(self, p: Any) -> NodeAttrs:
        """Return the operator's attributes for the parameters of an adjoint."""
        if not isinstance(p, self.schema.cls):
            parameters = self.convert[1](p) if self.convert else {name: getattr(p, name) for name in self.carried}
            fields = {**parameters, **self.restored}
            count = self.op.key_var_num_args
            if count is not None and count not in fields:
                fields[count] = getattr(p, count) - 1 if hasattr(p, count) else len(self.adjoints)
            p = self.schema.cls(**fields)
        return NodeAttrs(self.op, parsed=p)

    def adjoint(self, of: str) -> Adjoint:
        """Return the adjoint of an input in which the operator is linear."""
        return self.each or self.adjoints[of]

    def _signature(self, of: str, p: Any) -> tuple[NodeAttrs, list[str], str, list[str]]:
        """Return an adjoint's signature: the operator's attributes and inputs, the input, the adjoint's inputs."""
        attrs, adjoint = self._of_operator(p), self.adjoint(of)
        inputs = list(FListInputNames[self.op](attrs))
        if adjoint.place is not None:
            place = getattr(p, adjoint.place)
            of = place if isinstance(place, str) else inputs[place]
        return attrs, inputs, of, adjoint.names(of, inputs)

    def _values(self, node: Node) -> dict[str, Any]:
        """Return the operator's parameters that a node, of the operator or of an adjoint, passes to its adjoint."""
        p, texts = node.attrs.parsed, node.attrs.dict
        if self.convert and isinstance(p, self.params):
            return self.convert[1](p)
        return {name: getattr(p, name) for name in self.carried if not self.given or name in texts}

    # -- gradients -----------------------------------------------------------------------------------------------------

    def gradient(self, node: Node, ograds: Entries) -> list[NodeEntry | None]:
        """The operator's FGradient."""
        assert node.op is not None
        at = dict(zip(FListInputNames[node.op](node.attrs), node.inputs, strict=True))
        return [self.by_input(name, node, ograds[0], at) for name in at]

    def by_input(self, name: str, node: Node, dy: NodeEntry, at: At) -> NodeEntry | None:
        """Return the gradient of <dY, f(at)> by an input; node: the node of the operator or of an adjoint, for its
        parameters."""
        adjoint = self.each or self.adjoints.get(name)
        if adjoint is None:
            rule = self.others.get(name)
            return None if rule is None else rule(node, dy, at)
        values = self._values(node)
        params = {**(self.convert[0](values, name) if self.convert else values), **adjoint.settings}
        if adjoint.place is not None:
            kind = schema_of(self.params).fields[adjoint.place].annotation
            params[adjoint.place] = kind(list(at).index(name)) if kind in (int, bool) else name
        inputs = [dy if n == OGRAD else at[n] for n in adjoint.names(name, list(at))]
        return _counted(Op.get(adjoint.name), inputs, params)

    def backward(self, of: str, node: Node, ograds: Entries) -> list[NodeEntry | None]:
        """FGradient of the adjoint of an input."""
        _, inputs, of, names = self._signature(of, node.attrs.parsed)
        by_name = dict(zip(names, node.inputs, strict=True))
        dy, whole = by_name[OGRAD], {**by_name, of: ograds[0]}
        at = {name: whole[name] for name in inputs if name in whole}
        back = {name: self.by_input(name, node, dy, at) for name in names if name not in (OGRAD, of)}
        tells_shape = [] if self.like is None else [dy]
        values = {**self._values(node), **self.restored}
        back[OGRAD] = _counted(self.op, [*at.values(), *tells_shape], values)
        return [back.get(name) for name in names]

    # -- shapes and dtypes ---------------------------------------------------------------------------------------------

    def infer(
        self, merge: Callable[..., Any], table: OpMap[Any], of: str, p: Any, ins: Sequence[Any], outs: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """Infer shapes or dtypes by the operator's own rule: those of the input from those of the output."""
        attrs, inputs, of, names = self._signature(of, p)
        at = dict(zip(names, ins, strict=True))
        whole = merge(at.get(of), outs[0])
        values = {**at, of: whole}
        if table is FInferShape and self.like is not None:
            values[self.like] = at[OGRAD]
        hidden = [None] * ((self.op.fixed_num_outputs or 1) - 1)
        inferred, (ograd, *_) = table[self.op](attrs, [values.get(name) for name in inputs], [at[OGRAD], *hidden])
        back = {**dict(zip(inputs, inferred, strict=True)), OGRAD: ograd}
        back[of] = merge(whole, back[of])
        return [back[name] for name in names], [back[of]]

    def _register(self, of: str) -> None:
        """Register the adjoint of an input; `each` when that is empty."""
        adjoint, bind = self.adjoint(of), partial(self._signature, of)
        everything = adjoint.names(of, self.op.inputs or list(self.adjoints)) if adjoint.place is None else [OGRAD]
        settled = adjoint.place is None and None not in (self.op.fixed_num_inputs, adjoint.inputs)
        count = self.op.key_var_num_args if adjoint.inputs is None else None

        def ignored(attrs: NodeAttrs) -> tuple[int, ...]:
            _, _, place, names = bind(attrs.parsed)
            return tuple(i for i, name in enumerate(names) if name == place)

        declared: dict[str, Any] = {
            "params": self.params,
            "inputs": everything,
            "inputs_used": None if settled or count else lambda p: bind(p)[3],
            "variadic": count,
            "infer_shape": partial(self.infer, completed, FInferShape, of),
            "infer_type": partial(self.infer, _first, FInferType, of),
            "gradient": partial(self.backward, of),
            "FIgnoreInputs": ignored,
            TAdjointOf.key: self.op.name,
            "drawing": TDrawing.get(self.op),
            "doc": f"The adjoint of {self.op.name}: its gradient by {of or 'one of its inputs'}.",
        }
        register_op(adjoint.name, **{**declared, **adjoint.attributes})


def _counted(op: Op, inputs: Sequence[NodeEntry], params: dict[str, Any]) -> NodeEntry:
    """Apply an operator; an operator with any number of inputs gets the number as a parameter."""
    if op.key_var_num_args is not None:
        params[op.key_var_num_args] = len(inputs)
    return apply(op, *inputs, **params)


def _first(*dtypes: DType | None) -> DType | None:
    return next((dtype for dtype in dtypes if dtype is not None), None)


# -- declarations ------------------------------------------------------------------------------------------------------


def multilinear(
    name: str,
    *,
    of: Mapping[str, Adjoint] | Adjoint,
    params: type | None = None,
    carried: Sequence[str] | None = None,
    given: bool = False,
    restored: Mapping[str, Any] | None = None,
    like: str | None = None,
    others: Mapping[str, Rule] | None = None,
    convert: Conversion | None = None,
) -> Linear:
    """Declare that a registered operator is linear in each of some inputs, and register the adjoints.

    of: the adjoints by input, or the one of all inputs, with the parameter `place`. params: those of the adjoints;
    default the operator's. The rest is as in `Linear`; carried: default all that operator and adjoints share.
    """
    op = Op.get(name)
    schema = op.params
    assert schema is not None
    params = params or schema.cls
    if carried is None:
        shared = schema.names if convert else schema_of(params).names
        carried = [field for field in shared if field in schema.names and field != op.key_var_num_args]
    each = of if isinstance(of, Adjoint) else None
    adjoints = {} if isinstance(of, Adjoint) else of
    declared = Linear(op, schema, adjoints, each, params, carried, given, restored or {}, like, others or {}, convert)
    for place in adjoints or [""]:
        declared._register(place)
    if op not in FGradient:
        op.set_attr("FGradient", declared.gradient)
    return declared


_OF_ALL = ("params", "carried", "given", "restored", "like", "others")


def linear(
    name: str,
    *,
    of: str,
    adjoint: str,
    inputs: Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    **declared: Any,
) -> Linear:
    """Declare that a registered operator is linear in one input, and register the adjoint.

    inputs: `ograd` and names of the operator's inputs, in the adjoint's order; default all. declared: what
    `multilinear` takes, and attributes of `register_op`, for the adjoint, in place of those that follow.
    """
    shared = {key: declared.pop(key) for key in _OF_ALL if key in declared}
    return multilinear(name, of={of: Adjoint(adjoint, inputs, settings or {}, attributes=declared)}, **shared)


def gradient_as(name: str, inputs: Entries, dy: NodeEntry, /, **params: Any) -> list[Any]:
    """Return the gradient of a more general operator with these inputs and parameters."""
    return list(FGradient[Op.get(name)](apply(name, *inputs, **params).node, [dy]))


def self_adjoint(node: Node, ograds: Entries) -> list[NodeEntry | None]:
    """FGradient of an operator that is linear in its first input, and its own adjoint."""
    assert node.op is not None
    others = node.inputs[1:]
    return [apply(node.op, ograds[0], *others, **vars(node.attrs.parsed)), *[None] * len(others)]


def jointly_linear(
    name: str, *, adjoint: str, params: type, restored: Mapping[str, Any] | None = None, **attributes: Any
) -> Callable[[Node, Entries], Entries]:
    """Declare that an operator of any number of inputs is linear in all of them together; its FGradient is returned.

    The adjoint takes dY and the inputs, which are models, and gives all gradients at once. params: the adjoint's, which
    share names with the operator's. restored: as in `Linear`. attributes: of `register_op`, for the adjoint.
    """
    op = Op.get(name)
    schema, count = op.params, op.key_var_num_args
    assert schema is not None
    assert count is not None
    carried = [field for field in schema_of(params).names if field in schema.names and field != count]

    def values(p: Any) -> dict[str, Any]:
        return {name: getattr(p, name) for name in carried}

    def gradient(node: Node, ograds: Entries) -> Entries:
        whole = _counted(Op.get(adjoint), [ograds[0], *node.inputs], values(node.attrs.parsed))
        return [whole._replace(index=i) for i in range(len(node.inputs))]

    def backward(node: Node, ograds: Entries) -> list[NodeEntry | None]:
        whole = _counted(op, ograds, {**values(node.attrs.parsed), **(restored or {})})
        return [whole, *[None] * len(ograds)]

    def infer(table: OpMap[Any], p: Any, ins: Sequence[Any], outs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Infer shapes or dtypes by the operator's own rule, as `Linear.infer` does."""
        parameters = schema.cls(**{**values(p), **(restored or {}), count: len(outs)})
        models = [out if model is None else model for model, out in zip(ins[1:], outs, strict=True)]
        inferred, (ograd,) = table[op](NodeAttrs(op, parsed=parameters), models, ins[:1])
        return [ograd, *inferred], list(inferred)

    register_op(
        adjoint,
        params=params,
        variadic=count,
        num_outputs=lambda p: getattr(p, count) - 1,
        infer_shape=partial(infer, FInferShape),
        infer_type=partial(infer, FInferType),
        gradient=backward,
        FIgnoreInputs=lambda attrs: tuple(range(1, getattr(attrs.parsed, count))),
        **{TAdjointOf.key: name, "drawing": TDrawing.get(op), **attributes},
    )
    if op not in FGradient:
        op.set_attr("FGradient", gradient)
    return gradient
