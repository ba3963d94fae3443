"""SoftmaxOutput, the loss head of classifiers, and softmax_cross_entropy, the same loss as a plain operator."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Literal

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Entries, NoParams, Shapes, register_op, same_shape
from symjax_nnvm.ir.rules.axes import known, size_of
from symjax_nnvm.ir.rules.costs import per_input
from symjax_nnvm.ir.types import Shape, format_shape

Normalization = Literal["batch", "null", "valid"]

# -- SoftmaxOutput ---------------------------------------------------------------------------------------------------


class SoftmaxOutputParams(Params):
    grad_scale: float = param(1.0, doc="factor of the gradient")
    ignore_label: float = param(-1.0, doc="the label without gradient (use_ignore), not counted as valid")
    multi_output: bool = param(False, doc="data (n, k, …), one label for each place of a sample; softmax over axis 1")
    use_ignore: bool = param(False, doc="give no gradient where the label is ignore_label")
    preserve_shape: bool = param(False, doc="softmax over the last axis; else over all axes but the first")
    normalization: Normalization = param("null", doc="divisor: the batch size, the number of valid labels, or 1")
    out_grad: bool = param(False, doc="multiply the gradient with the head gradient, which is ignored otherwise")
    smooth_alpha: float = param(0.0, ge=0, le=1, doc="share of a label that goes to the other classes in equal parts")

    def class_axes(self, ndim: int) -> range:
        """The axes of data over which the softmax is taken."""
        return range(1, 2) if self.multi_output else range(ndim - 1 if self.preserve_shape else 1, ndim)

    @property
    def is_plain(self) -> bool:
        """Whether every label has weight 1."""
        return not (self.multi_output or self.use_ignore) and self.normalization == "null" and self.grad_scale == 1


def _softmax_output_shapes(p: SoftmaxOutputParams, ins: Shapes, outs: Shapes):
    """data (n, …, k), label (n, …); with multi_output data (n, k, a, b…), label (n, ab…), (n, a, b…) or (n, 1, a, b…).

    A label of data's shape holds probabilities; one that may yet be either, classes.
    """
    (data,), (out,) = same_shape(p, ins[:1], outs)
    label = ins[1]
    if data is None:
        return ins, outs
    if len(data) < 2:
        raise InferenceError(
            "Samples and classes need an axis each", expected="at least 2 axes", got=format_shape(data)
        )
    if label is not None and _agrees(label, data) and not (p.multi_output and _form(data, label)):
        (data, label), outputs = same_shape(p, [data, label], [out])
        return [data, label], outputs
    if p.multi_output:
        data = (known(data[0], label[0] if label else None), *data[1:])
        return [data, _places(data, label)], [data]
    data = labelled(data, label)
    return [data, data[:-1]], [data]


def labelled(data: Shape, label: Shape | None) -> Shape:
    """The shape of data (n, …, k), completed from a label (n, …)."""
    if label is None or len(label) != len(data) - 1:
        return data
    return (*(known(*pair) for pair in zip(data[:-1], label, strict=True)), data[-1])


def _agrees(a: Shape, b: Shape) -> bool:
    return len(a) == len(b) and all(x == y or None in (x, y) for x, y in zip(a, b, strict=True))


def _places(data: Shape, label: Shape | None) -> Shape | None:
    """The label's shape when each place of a sample has one: one of three forms; flat unless it is given."""
    if label is None:
        return _forms(data)[0]
    form = _form(data, label)
    if form is None:
        expected = " or ".join(format_shape(form) for form in dict.fromkeys(_forms(data)))
        raise InferenceError("Label does not fit data", input="label", expected=expected, got=format_shape(label))
    return form


def _forms(data: Shape) -> list[Shape]:
    n, _, *places = data
    return [(n, size_of(places)), (n, *places), (n, 1, *places)]


def _form(data: Shape, label: Shape) -> Shape | None:
    """The first of the forms that agrees with a label."""
    return next((form for form in _forms(data) if _agrees(label, form)), None)


def _probabilities(p: SoftmaxOutputParams, data: NodeEntry) -> NodeEntry:
    """The forward result again, as a smooth function of data."""
    if p.multi_output or p.preserve_shape:
        return apply("softmax", data, axis=1 if p.multi_output else -1)
    return apply("reshape_like", apply("softmax", apply("Flatten", data)), data)


def _target(p: SoftmaxOutputParams, data: NodeEntry, label: NodeEntry) -> tuple[NodeEntry, NodeEntry]:
    """(the probabilities that the label asks for, the weight of each label)."""
    target = apply(
        "_backward_softmax_target",
        data,
        label,
        grad_scale=p.grad_scale,
        ignore_label=p.ignore_label,
        multi_output=p.multi_output,
        use_ignore=p.use_ignore,
        preserve_shape=p.preserve_shape,
        normalization=p.normalization,
        smooth_alpha=p.smooth_alpha,
    )
    return target, target._replace(index=1)


def _softmax_output_gradient(node: Node, ograds: Entries):
    """dX = weight ⊙ (softmax(X) - target), times dY with out_grad."""
    p: SoftmaxOutputParams = node.attrs.parsed
    data, label = node.inputs
    target, weight = _target(p, data, label)
    gradient = apply("elemwise_sub", _probabilities(p, data), target)
    if not p.is_plain:
        gradient = apply("broadcast_mul", gradient, weight)
    return [apply("elemwise_mul", gradient, ograds[0]) if p.out_grad else gradient, None]


def _softmax_output_loss(node: Node) -> NodeEntry:
    """Sum of weight · (log sum exp X - <target, X>): cross entropy, up to a constant, for any target."""
    p: SoftmaxOutputParams = node.attrs.parsed
    data, label = node.inputs
    parts = [data, *_target(p, data, apply("BlockGrad", label))]
    if not (p.multi_output or p.preserve_shape):
        parts = [apply("Flatten", part) for part in parts]
    x, target, weight = parts
    axis = 1 if p.multi_output else -1
    spread = apply("elemwise_sub", x, apply("log_softmax", x, axis=axis))
    log_sum = apply("mean", spread, axis=(axis,), keepdims=True)
    score = apply("sum", apply("elemwise_mul", target, x), axis=(axis,), keepdims=True)
    return apply("sum", apply("broadcast_mul", apply("elemwise_sub", log_sum, score), weight))


def _softmax_target_shapes(p: SoftmaxOutputParams, ins: Shapes, outs: Shapes):
    """data, label as SoftmaxOutput's → target of data's shape; weight with 1 for the axes of the classes."""
    inputs, (target,) = _softmax_output_shapes(p, ins, outs[:1])
    if target is None:
        return inputs, outs
    axes = p.class_axes(len(target))
    return inputs, [target, tuple(1 if i in axes else dim for i, dim in enumerate(target))]


def _prediction(head: Node, name: str, rank: Callable[[], int | None]) -> NodeEntry:
    """The softmax over axis 1, over the last axis, or over all axes but the first."""
    p, data = head.attrs.parsed, head.inputs[0]
    if p.multi_output:
        return apply("softmax", data, name=name, axis=1)
    if p.preserve_shape or rank() == 2:
        return apply("softmax", data, name=name, axis=-1)
    flat = apply("Flatten", data, name=f"{name}_flatten")
    return apply("reshape_like", apply("softmax", flat, name=f"{name}_flat", axis=-1), data, name=name)


def _classes(p: SoftmaxOutputParams, shapes: list[tuple[int, ...]]) -> int | None:
    data, label = shapes
    if data == label:  # probabilities, not classes
        return None
    if p.multi_output:
        return data[1]
    return data[-1] if p.preserve_shape else prod(data[1:])


register_op(
    "SoftmaxOutput",
    aliases=("Softmax",),
    params=SoftmaxOutputParams,
    inputs=("data", "label"),
    infer_shape=_softmax_output_shapes,
    gradient=_softmax_output_gradient,
    loss=_softmax_output_loss,
    inplace=((0, 0),),
    flops=5,
    deviation=Deviation(
        "out_grad multiplies with the head gradient; MXNet 1.9 multiplies with the output",
        "training",
        lambda p: p.out_grad,
    ),
    not_derivative=lambda p: (
        "a head gradient for each element makes it the derivative of nothing" if p.out_grad else None
    ),
    prediction=_prediction,
    numbers=(1, _classes),
    doc="Softmax with the gradient of cross entropy. With multi_output the gradient is divided by the number of places "
    "unless normalization is valid, and smooth_alpha has no effect. A label of data's shape holds probabilities, of "
    "which only grad_scale changes the gradient. Unlike in MXNet 1.9, out_grad multiplies with the head gradient, and "
    "data of one axis are refused.",
)
register_op(
    "_backward_softmax_target",
    params=SoftmaxOutputParams,
    inputs=("data", "label"),
    outputs=("target", "weight"),
    infer_shape=_softmax_target_shapes,
    gradient=lambda node, ograds: [None, None],
    FIgnoreInputs=lambda attrs: (0,),
    doc="What SoftmaxOutput's label says: the probabilities it asks for, and the weight of each label.",
)

# -- softmax_cross_entropy -------------------------------------------------------------------------------------------


def _cross_entropy_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """data (n, k), label (n,) → (1,)."""
    data, label = ins
    n = known(data[0] if data else None, label[0] if label else None)
    return [(n, data[1] if data is not None and len(data) == 2 else None), (n,)], [(1,)]


def _cross_entropy_gradient(node: Node, ograds: Entries):
    """dX = dY (softmax(X) - one hot label)."""
    data, label = node.inputs
    target = apply("_backward_softmax_target", data, label)
    residual = apply("elemwise_sub", apply("softmax", data), target)
    return [apply("broadcast_mul", residual, apply("Reshape", ograds[0], shape=(1, 1))), None]


register_op(
    "softmax_cross_entropy",
    inputs=("data", "label"),
    infer_shape=_cross_entropy_shapes,
    gradient=_cross_entropy_gradient,
    flops=per_input(5),
    not_derivative="probabilities are clipped at 1e-8, which the gradient disregards",
    numbers=(1, lambda p, shapes: shapes[0][-1]),
    doc="Sum over rows of -log softmax(data)[label]. As in MXNet probabilities below 1e-8 count as 1e-8, which the "
    "gradient disregards. The label's gradient is zero. A label that is not a class counts as probability 0.",
)
