"""Loss heads other than SoftmaxOutput: operators whose gradient is that of a loss, not the derivative of their output.

A head's gradient rule is composed from smooth operators on the head's *inputs*, so that the gradient can be
differentiated again; XLA merges what it recomputes with the forward part. Labels receive no gradient, at any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Entries, Shapes, float_type, register_op, same_shape
from symjax_nnvm.ir.rules.axes import known, size_of, solve_sizes
from symjax_nnvm.ir.rules.linear import self_adjoint
from symjax_nnvm.ir.rules.storage import storage_of_data
from symjax_nnvm.ir.types import format_shape
from symjax_nnvm.ops.elementwise.unary import the_data
from symjax_nnvm.ops.loss.softmax_output import labelled

Elements = Callable[[NodeEntry, NodeEntry], NodeEntry]
"""(data, label) → a number for each element."""


def _total(entry: NodeEntry) -> NodeEntry:
    return apply("sum", entry)


def _fixed(entry: NodeEntry) -> NodeEntry:
    """A label, through which no derivative passes."""
    return apply("BlockGrad", entry)


def _times(entry: NodeEntry, factor: float) -> NodeEntry:
    return entry if factor == 1 else apply("_mul_scalar", entry, scalar=factor)


# -- normalisation ---------------------------------------------------------------------------------------------------


class PerCountParams(Params):
    scale: float = param(1.0, doc="factor")
    count: Literal["outputs", "rows"] = param(doc="divisor: elements of one sample, or rows of the last axis")


register_op(
    "_backward_per_count",
    params=PerCountParams,
    infer_shape=same_shape,
    gradient=self_adjoint,
    inplace=((0, 0),),
    doc="data · scale / count, where the count follows from data's shape.",
)

# -- regression ------------------------------------------------------------------------------------------------------


class RegressionParams(Params):
    grad_scale: float = param(1.0, doc="factor of the gradient")

    any_key: ClassVar[bool] = True  # only the backward operators of MXNet look at their parameters


def _regression_shapes(p: RegressionParams, ins: Shapes, outs: Shapes):
    """data (n, …), label (n, …) of as many elements; a label unknown so far is (n,) for data (n, 1)."""
    (data,), _ = same_shape(p, ins[:1], outs)
    label = ins[1]
    if not data:
        return [data, label], [data]
    if label:
        batch = known(data[0], label[0])
        data, label = (batch, *data[1:]), (known(label[0], batch), *label[1:])
        if None not in data and label.count(None) == 1:
            data, label = solve_sizes(data, label)
        fits = None in (*data, *label) or (label[0] == data[0] and size_of(label) == size_of(data))
        return [data, label if fits else data], [data]
    if len(data) == 2 and data[1] is None:
        return [data, None], [data]
    return [data, data[:1] if data[1:] == (1,) else data], [data]


def _difference(prediction: NodeEntry, label: NodeEntry) -> NodeEntry:
    return apply("elemwise_sub", prediction, apply("reshape_like", label, prediction))


def _regression_gradient(node: Node, residual: Elements):
    """dX = residual · grad_scale / outputs per sample."""
    data, label = node.inputs
    scale = node.attrs.parsed.grad_scale
    return [apply("_backward_per_count", residual(data, _fixed(label)), scale=scale, count="outputs"), None]


def _regression_loss(node: Node, elements: Elements) -> NodeEntry:
    """grad_scale times the sum over samples of the mean of the elements."""
    data, label = node.inputs
    means = apply("mean", elements(data, _fixed(label)), axis=(0,), exclude=True)
    return _times(_total(means), node.attrs.parsed.grad_scale)


def _sign(data: NodeEntry, label: NodeEntry) -> NodeEntry:
    """1 where data exceeds label, else -1: at 0 it is -1."""
    above = apply("_greater_scalar", _difference(data, label), scalar=0.0)
    return apply("_minus_scalar", apply("_mul_scalar", above, scalar=2.0), scalar=1.0)


def _cross_entropy_of_logits(data: NodeEntry, label: NodeEntry) -> NodeEntry:
    """log(1 + exp X) - label X."""
    softplus = apply("negative", apply("log", apply("sigmoid", apply("negative", data))))
    return apply("elemwise_sub", softplus, apply("elemwise_mul", apply("reshape_like", label, data), data))


for _name, _residual, _elements, _flops, _prediction, _doc in (
    (
        "LinearRegressionOutput",
        _difference,
        lambda data, label: _times(apply("square", _difference(data, label)), 0.5),
        0,
        the_data,
        "The data, with the gradient of half the squared error, (X - label)",
    ),
    (
        "MAERegressionOutput",
        _sign,
        lambda data, label: apply("abs", _difference(data, label)),
        0,
        the_data,
        "The data, with the gradient of the absolute error, 1 where X > label, else -1,",
    ),
    (
        "LogisticRegressionOutput",
        lambda data, label: _difference(apply("sigmoid", data), label),
        _cross_entropy_of_logits,
        1,
        lambda head, name, rank: apply("sigmoid", head.inputs[0], name=name),
        "The sigmoid of data, with the gradient of its cross entropy, (sigmoid(X) - label)",
    ),
):
    register_op(
        _name,
        aliases=(f"_sparse_{_name}",),
        params=RegressionParams,
        inputs=("data", "label"),
        infer_shape=_regression_shapes,
        infer_type=float_type,
        gradient=lambda node, ograds, residual=_residual: _regression_gradient(node, residual),
        loss=lambda node, elements=_elements: _regression_loss(node, elements),
        inplace=((0, 0),),
        flops=_flops,
        prediction=_prediction,
        doc=f"{_doc} · grad_scale / outputs per sample.",
    )

# -- MakeLoss, make_loss ---------------------------------------------------------------------------------------------


class MakeLossParams(Params):
    grad_scale: float = param(1.0, doc="factor of the gradient")
    valid_thresh: float = param(0.0, doc="elements above it are valid")
    normalization: Literal["batch", "null", "valid"] = param(
        "null", doc="divisor: the number of rows (the batch size of data (n, k)), of valid elements, or 1"
    )


def _valid_count(p: MakeLossParams, data: NodeEntry) -> NodeEntry:
    """Number of elements above the threshold, at least 1; every axis kept."""
    valid = apply("sum", apply("_greater_scalar", data, scalar=p.valid_thresh), keepdims=True)
    return apply("_maximum_scalar", valid, scalar=1.0)


def _make_loss_gradient(node: Node, ograds: Entries):
    """dX = grad_scale / divisor, for every head gradient."""
    p: MakeLossParams = node.attrs.parsed
    (data,) = node.inputs
    ones = apply("ones_like", data)
    match p.normalization:
        case "batch":
            return [apply("_backward_per_count", ones, scale=p.grad_scale, count="rows")]
        case "valid":
            return [apply("broadcast_div", _times(ones, p.grad_scale), _valid_count(p, data))]
        case "null":
            return [_times(ones, p.grad_scale)]


def _make_loss_equivalent(node: Node) -> NodeEntry:
    """Sum of data · grad_scale / divisor."""
    p: MakeLossParams = node.attrs.parsed
    (data,) = node.inputs
    scaled = _times(data, p.grad_scale)
    match p.normalization:
        case "batch":
            return _total(apply("mean", scaled, axis=(-1,), exclude=True))
        case "valid":
            return _total(apply("broadcast_div", scaled, _fixed(_valid_count(p, data))))
        case "null":
            return _total(scaled)


register_op(
    "MakeLoss",
    params=MakeLossParams,
    inputs=("data",),
    infer_shape=same_shape,
    gradient=_make_loss_gradient,
    loss=_make_loss_equivalent,
    inplace=((0, 0),),
    flops=0,
    prediction=the_data,
    doc="The data, to be minimised: the gradient is grad_scale / divisor. As in MXNet, batch divides by the "
    "product of all dimensions but the last.",
)
register_op(
    "make_loss",
    aliases=("_sparse_make_loss",),
    outputs=("loss",),
    infer_shape=same_shape,
    gradient=lambda node, ograds: [apply("ones_like", node.inputs[0])],
    loss=lambda node: _total(node.inputs[0]),
    inplace=((0, 0),),
    flops=0,
    storage=storage_of_data,
    prediction=the_data,
    doc="The data, to be minimised: the gradient is 1.",
)

# -- SVMOutput -------------------------------------------------------------------------------------------------------


class SVMOutputParams(Params):
    margin: float = param(1.0, doc="how far on its side of 0 a score has to be")
    regularization_coefficient: float = param(1.0, doc="factor of the gradient")
    use_linear: bool = param(False, doc="hinge loss; else squared hinge loss")


def _svm_shapes(p: SVMOutputParams, ins: Shapes, outs: Shapes):
    """data (n, …, k), label (n, …)."""
    (data,), _ = same_shape(p, ins[:1], outs)
    if data is not None and len(data) < 2:
        raise InferenceError(
            "Samples and classes need an axis each", expected="at least 2 axes", got=format_shape(data)
        )
    if data is None:
        return ins, outs
    data = labelled(data, ins[1])
    return [data, data[:-1]], [data]


def _slack(node: Node, label: NodeEntry) -> tuple[NodeEntry, NodeEntry]:
    """(side, slack): side is 1 for the label's class and -1 for others; slack = margin - side ⊙ X."""
    p: SVMOutputParams = node.attrs.parsed
    data = node.inputs[0]
    target = apply("_backward_softmax_target", data, label, preserve_shape=True)
    side = apply("_minus_scalar", apply("_mul_scalar", target, scalar=2.0), scalar=1.0)
    return side, apply("_rminus_scalar", apply("elemwise_mul", side, data), scalar=p.margin)


def _svm_gradient(node: Node, ograds: Entries):
    """dX = -C side where slack > 0; -2 C side max(slack, 0) for the squared hinge."""
    p: SVMOutputParams = node.attrs.parsed
    side, slack = _slack(node, node.inputs[1])
    factor = -p.regularization_coefficient * (1 if p.use_linear else 2)
    steep = apply("_greater_scalar", slack, scalar=0.0) if p.use_linear else apply("relu", slack)
    return [_times(apply("elemwise_mul", side, steep), factor), None]


def _svm_loss(node: Node) -> NodeEntry:
    """C times the sum of max(slack, 0), or of its square."""
    p: SVMOutputParams = node.attrs.parsed
    hinge = apply("relu", _slack(node, _fixed(node.inputs[1]))[1])
    total = _total(hinge if p.use_linear else apply("square", hinge))
    return _times(total, p.regularization_coefficient)


register_op(
    "SVMOutput",
    params=SVMOutputParams,
    inputs=("data", "label"),
    infer_shape=_svm_shapes,
    gradient=_svm_gradient,
    loss=_svm_loss,
    inplace=((0, 0),),
    flops=0,
    prediction=the_data,
    numbers=(1, lambda p, shapes: shapes[0][-1]),
    doc="The data, with the gradient of a one-against-all support vector machine's loss.",
)
