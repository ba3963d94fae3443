"""Small operators for the tests of passes, registered once under names that no file uses."""

from dataclasses import dataclass

from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry
from symjax_nnvm.ir.op import register
from symjax_nnvm.ir.params import Tuple, param
from symjax_nnvm.ir.register import register_op, same_shape
from symjax_nnvm.symbol.symbol import Symbol, create_operator

PREFIX = "_test_pass_"

GOLDEN_NAMES = {
    "FullyConnected": "dense",
    "BatchNorm": "norm",
    "SliceChannel": "split",
    "Concat": "concat",
    "_foreach": "loop",
    "elemwise_add": "add",
    "_copy": "relu",
    "exp": "relu",
}
"""MXNet's operators in the golden files → toys of the same arity."""


@dataclass(frozen=True, kw_only=True)
class DenseParams:
    num_hidden: int = param(ge=1)


@dataclass(frozen=True, kw_only=True)
class ReshapeParams:
    target: Tuple = ()


@dataclass(frozen=True, kw_only=True)
class SplitParams:
    num_outputs: int = 2


@dataclass(frozen=True, kw_only=True)
class VariadicParams:
    num_args: int


@dataclass(frozen=True, kw_only=True)
class LoopParams:
    num_args: int
    num_outputs: int = 1
    num_out_data: int = 1
    in_data_locs: str = ""
    in_state_locs: str = ""
    remain_locs: str = ""


def _dense(p, ins, outs):
    data, weight, _ = ins
    depth = data[1] if data is not None else (weight[1] if weight is not None else None)
    rows = data[0] if data is not None else (outs[0][0] if outs[0] is not None else None)
    return [(rows, depth), (p.num_hidden, depth), (p.num_hidden,)], [(rows, p.num_hidden)]


def _reshape(p, ins, outs):
    if ins[0] is not None and None not in ins[0]:
        size, target = 1, 1
        for dim in ins[0]:
            size *= dim
        for dim in p.target:
            target *= dim
        if size != target:
            raise ValueError(f"cannot reshape {size} elements into {target}")
    return [None], [p.target]


def _norm(p, ins, outs):
    channels = None if ins[0] is None else (ins[0][1],)
    return [ins[0], *[channels] * 4], [ins[0], channels, channels]


def _short(p, ins, outs):
    return [], outs


def _scale_gradient(node: Node, ograds: list[NodeEntry]) -> list[NodeEntry]:
    grad = Node(
        NodeAttrs(register(PREFIX + "scale_backward"), f"{node.name}_backward"),
        [ograds[0], node.inputs[0], node.inputs[1]],
        [node],
    )
    return [NodeEntry(grad, 0, 0), NodeEntry(grad, 1, 0)]


register_op(PREFIX + "relu", infer_shape=same_shape)
register_op(PREFIX + "add", inputs=("lhs", "rhs"), infer_shape=same_shape)
register_op(PREFIX + "dense", params=DenseParams, inputs=("data", "weight", "bias"), infer_shape=_dense)
register_op(PREFIX + "reshape", params=ReshapeParams, infer_shape=_reshape)
register_op(
    PREFIX + "norm",
    inputs=("data", "gamma", "beta", "moving_mean", "moving_var"),
    outputs=("output", "mean", "var"),
    visible_outputs=1,
    mutates=(3, 4),
    infer_shape=_norm,
)
register_op(
    PREFIX + "split",
    params=SplitParams,
    num_outputs=lambda p: p.num_outputs,
    infer_shape=lambda p, ins, outs: (ins, [ins[0]] * p.num_outputs),
)
register_op(PREFIX + "concat", params=VariadicParams, variadic="num_args")
register_op(
    PREFIX + "loop",
    params=LoopParams,
    variadic="num_args",
    num_outputs=lambda p: p.num_outputs,
    FInputGraph=lambda attrs: [0],
)
register_op(PREFIX + "short", infer_shape=_short)
register_op(
    PREFIX + "scale",
    inputs=("data", "factor"),
    infer_shape=lambda p, ins, outs: ([None, (1,)], [ins[0]]),
    gradient=_scale_gradient,
)
register(PREFIX + "scale_backward").set_num_inputs(3).set_num_outputs(2).set_attr("TIsBackward", True)
register(PREFIX + "opaque")  # no rules at all


def toy(name: str, *inputs: Symbol, node: str = "", **params: object) -> Symbol:
    """A toy operator applied to symbols; missing inputs become variables."""
    attrs = {key: str(value) for key, value in params.items()}
    return create_operator(register(PREFIX + name), inputs, {}, attrs, node or name, name)
