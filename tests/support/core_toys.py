"""Small operators for the tests of the core, registered once under names that no file uses."""

import itertools
import random
from dataclasses import dataclass
from typing import Any

from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, create_variable_node, update_node_version
from symjax_nnvm.ir.op import Op, register
from symjax_nnvm.ir.params import param, schema_of
from symjax_nnvm.symbol.symbol import Symbol
from symjax_nnvm.symbol.variable import Variable

PREFIX = "_test_core_"

_serial = itertools.count()


@dataclass(frozen=True, kw_only=True)
class DenseParams:
    num_hidden: int = param(ge=1)
    no_bias: bool = False


def _parse_dense(attrs: NodeAttrs) -> None:
    attrs.parsed = schema_of(DenseParams).parse(attrs.dict, PREFIX + "dense", attrs.name)


def _dense_inputs(attrs: NodeAttrs) -> tuple[str, ...]:
    return ("data", "weight", "bias")[: 3 - attrs.parsed.no_bias]


def _init_moving(attrs: NodeAttrs, variable: Node, i: int) -> None:
    if i in (3, 4):
        variable.attrs.dict.setdefault("__init__", "zero" if i == 3 else "one")


def _named(name: str, *inputs: str, **attributes: Any) -> Op:
    operator = register(PREFIX + name).set_num_inputs(len(inputs))
    for key, value in {"FListInputNames": lambda attrs: inputs, **attributes}.items():
        operator.set_attr(key, value)
    return operator


def _inplace(pairs: list[tuple[int, int]], *, identity: bool = False, ignores: tuple[int, ...] = ()) -> dict[str, Any]:
    found: dict[str, Any] = {"FInplaceOption": lambda attrs: pairs}
    if identity:
        found["FInplaceIdentity"] = lambda attrs: [True] * len(pairs)
    if ignores:
        found["FIgnoreInputs"] = lambda attrs: ignores
    return found


_named("exp", "data", **_inplace([(0, 0)]))
_named("add", "lhs", "rhs", **_inplace([(0, 0), (1, 0)]))
_named("copy", "data", **_inplace([(0, 0)], identity=True))
_named("zeros_like", "data", **_inplace([(0, 0)], ignores=(0,)))
_named("shape_like", "data", "like", **_inplace([(0, 0)], identity=True, ignores=(1,)))
_named("peek", "ignored", "data", **_inplace([(0, 0)], ignores=(0,)))
_named("split", "data").set_num_outputs(2)
_named("assign", "target", "value", FMutateInputs=lambda attrs: [0])
_named(
    "norm",
    *("data", "gamma", "beta", "moving_mean", "moving_var"),
    FListOutputNames=lambda attrs: ["output", "mean", "var"],
    FNumVisibleOutputs=lambda attrs: 1,
    FMutateInputs=lambda attrs: [3, 4],
    FSetInputVarAttrOnCompose=_init_moving,
).set_num_outputs(3)
_dense = register(PREFIX + "dense").set_attr_parser(_parse_dense)
_dense.set_num_inputs(lambda attrs: len(_dense_inputs(attrs))).set_attr("FListInputNames", _dense_inputs)
register(PREFIX + "zeros").set_num_inputs(0)
register(PREFIX + "many").set_num_inputs(None)
register(PREFIX + "unnamed").set_num_inputs(2)
_named("loop", "body", "data", "state", FInputGraph=lambda attrs: [0])
_named("backward", "ograd", TIsBackward=True)


def op(name: str) -> Op:
    """The toy operator of a short name."""
    return Op.get(PREFIX + name)


def fresh_name(stem: str) -> str:
    """A name that no operator, group or pass has yet."""
    return f"_test_fresh_{stem}{next(_serial)}"


def functor(name: str, **attrs: str) -> Symbol:
    """An operator without inputs."""
    return Symbol.create_functor(op(name), attrs)


def call(name: str, *inputs: Symbol, node: str = "", attrs: dict[str, str] | None = None, **kwargs: Symbol) -> Symbol:
    """An operator composed with its inputs."""
    symbol = functor(name, **(attrs or {}))
    symbol.compose(*inputs, name=node, **kwargs)
    return symbol


def var(name: str) -> Symbol:
    """A variable."""
    return Variable(name)


def node_of(symbol: Symbol) -> Node:
    """The node of a symbol's first output."""
    return symbol.outputs[0].node


def random_entries(seed: int, names: list[str], size: int) -> tuple[list[NodeEntry], list[NodeEntry]]:
    """(variables, outputs of operators) of a random graph of toy operators; mutated inputs are variables."""
    rng = random.Random(seed)
    variables = [NodeEntry(create_variable_node(f"v{i}"), 0, 0) for i in range(rng.randint(1, 3))]
    made: list[NodeEntry] = []
    for number in range(size):
        operator = op(rng.choice(names))
        choices = (variables + made)[-8:] if rng.random() < 0.7 else variables + made
        inputs = [rng.choice(choices) for _ in range(operator.fixed_num_inputs or 0)]
        if operator is op("assign"):
            inputs[0] = rng.choice(variables)
        node = Node(NodeAttrs(operator, f"n{number}"), inputs)
        update_node_version(node)
        made += [NodeEntry(node, i, 0) for i in range(node.num_outputs())]
    return variables, made
