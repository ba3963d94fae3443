"""Reductions of MXNet's NumPy dialect: over all axes to a scalar, in a chosen dtype; mean, variance and deviation."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.params import Axes, Params, param
from symjax_nnvm.ir.register import Entries, Shapes, Types, first_type, register_op
from symjax_nnvm.ir.rules.axes import normal_axis, replaced
from symjax_nnvm.ir.rules.costs import per_input
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.types import format_shape, is_float
from symjax_nnvm.ops.elementwise.binary import div, mul, number_type
from symjax_nnvm.ops.elementwise.scalar import times
from symjax_nnvm.ops.reduce.reduction import (
    ReduceAxisParams,
    extreme_gradient,
    prod_gradient,
    reduce_shapes,
    reduced_axes,
    spread,
)

_AXES = "axes to reduce over; None: all, (): none"
_KEPT = "keep the reduced axes, with length 1"
_DTYPE = "dtype of the result; None: that of the data, {}"


class AxesParams(Params):
    numpy: ClassVar[bool] = True
    axis: Axes | None = param(None, doc=_AXES)
    keepdims: bool = param(False, doc=_KEPT)


class _Initial(Params):
    numpy: ClassVar[bool] = True

    def check(self) -> str | None:
        return None if getattr(self, "initial", None) is None else "initial is not supported yet"


class ExtremeParams(_Initial):
    axis: Axes | None = param(None, doc=_AXES)
    keepdims: bool = param(False, doc=_KEPT)
    initial: float | None = param(None, doc="must be None")


class SumParams(_Initial):
    axis: Axes | None = param(None, doc=_AXES)
    dtype: Literal["bool", "float16", "float32", "float64", "int32", "int64", "int8"] | None = param(
        None, doc=_DTYPE.format("int64 for booleans")
    )
    keepdims: bool = param(False, doc=_KEPT)
    initial: float | None = param(None, doc="must be None")


class MeanParams(_Initial):
    axis: Axes | None = param(None, doc=_AXES)
    dtype: Literal["bool", "float16", "float32", "float64", "int32", "int64", "int8"] | None = param(
        None, doc=_DTYPE.format("float32 for whole numbers")
    )
    keepdims: bool = param(False, doc=_KEPT)
    initial: float | None = param(None, doc="must be None")


class SpreadParams(Params):
    numpy: ClassVar[bool] = True
    axis: Axes | None = param(None, doc=_AXES)
    dtype: Literal["float16", "float32", "float64", "int32", "int64", "int8"] | None = param(
        None, doc=_DTYPE.format("in which the mean of whole numbers is truncated")
    )
    ddof: int = param(0, doc="what is subtracted from the number of elements, which divides")
    keepdims: bool = param(False, doc=_KEPT)


class SearchParams(ReduceAxisParams):
    numpy: ClassVar[bool] = True


def _sum_type(p: SumParams, ins: Types, outs: Types):
    if p.dtype is not None:
        return ins, [p.dtype]
    if ins[0] is None:  # int64 may be a sum of booleans
        return [None if outs[0] == "int64" else outs[0]], outs
    return ins, ["int64" if ins[0] == "bool" else ins[0]]


def _mean_type(p: MeanParams, ins: Types, outs: Types):
    if p.dtype is not None:
        return ins, [p.dtype]
    if ins[0] is None:  # float32 may be a mean of whole numbers
        return [None if outs[0] == "float32" else outs[0]], outs
    return ins, [ins[0] if is_float(ins[0]) else "float32"]


def _spread_type(p: SpreadParams, ins: Types, outs: Types):
    inputs, outputs = number_type(p, ins, [] if p.dtype else outs)
    return inputs, [p.dtype] if p.dtype else outputs


def _extreme_shapes(p: ExtremeParams, ins: Shapes, outs: Shapes):
    """data (…, d, …) → (…, …), d > 0."""
    inputs, outputs = reduce_shapes(p, ins, outs)
    if inputs[0] is not None:
        _refuse_empty(inputs[0], reduced_axes(p, len(inputs[0])))
    return inputs, outputs


def _refuse_empty(shape: tuple[int | None, ...], axes: tuple[int, ...]) -> None:
    """Raise InferenceError where no element is left to choose from."""
    if any(shape[axis] == 0 for axis in axes):
        problem = "zero-size array to reduction operation, which has no identity"
        raise InferenceError(problem, expected="elements along the axes", got=format_shape(shape))


def _search_shapes(p: SearchParams, ins: Shapes, outs: Shapes):
    """data (…, d, …) → (…, …), d > 0; without axis ()."""
    data = ins[0]
    if data is None:
        return ins, [() if p.axis is None and not p.keepdims else outs[0]]
    axes = tuple(range(len(data))) if p.axis is None else (normal_axis(p.axis, len(data) or 1),)
    _refuse_empty(data or (None,), axes)
    if p.axis is None or not data:
        return ins, [(1,) * len(data) if p.keepdims else ()]
    return ins, [replaced(data, axes[0], 1) if p.keepdims else replaced(data, axes[0])]


def _linear_gradient(name: str):
    """dX is dY, repeated, in the dtype of X."""

    def gradient(node: Node, ograds: Entries) -> Entries:
        p, a = node.attrs.parsed, node.inputs[0]
        return [apply(f"_backward{name}", apply("_cast_like", ograds[0], a), a, axis=p.axis, keepdims=p.keepdims)]

    gradient.__doc__ = _linear_gradient.__doc__
    return gradient


_CUT = "fractions are cut off, but the gradient is passed on"


def _cut(p: SumParams) -> str | None:
    return _CUT if p.dtype is not None and not is_float(p.dtype) else None


_CARD: dict[str, Any] = {"inputs": ("a",), "flops": per_input(1)}

for _name, _alias, _params, _type, _gradient, _doc in (
    ("_np_sum", (), SumParams, _sum_type, _linear_gradient("_np_sum"), "Sum over axes."),
    ("_npi_mean", (), MeanParams, _mean_type, _linear_gradient("_npi_mean"), "Mean over axes, of no elements 0."),
    (
        "_np_prod",
        ("_np_product",),
        SumParams,
        _sum_type,
        prod_gradient,
        "Product over axes, of no elements 1, where MXNet has 0. Its gradient is NaN at elements that are 0.",
    ),
):
    register_op(
        _name,
        aliases=_alias,
        params=_params,
        infer_shape=reduce_shapes,
        infer_type=_type,
        gradient=_gradient,
        not_derivative=_cut,
        deviation="the product of no elements is 1; MXNet has 0" if _name == "_np_prod" else (),
        doc=_doc,
        **_CARD,
    )

for _name in ("_np_sum", "_npi_mean"):
    linear(
        _name,
        of="a",
        adjoint=f"_backward{_name}",
        params=AxesParams,
        infer_type=first_type,
        doc=f"The gradient of {_name}: ograd, repeated over the reduced axes of a; that of a mean is divided.",
    )

for _name, _what in (("max", "Maximum"), ("min", "Minimum")):
    register_op(
        f"_np_{_name}",
        aliases=(f"_np_a{_name}",),
        params=ExtremeParams,
        infer_shape=_extreme_shapes,
        gradient=extreme_gradient,
        precision="either",
        doc=f"{_what} over axes; every element that ties receives the gradient.",
        **_CARD,
    )

for _name, _aliases, _what in (("all", (), "every element is"), ("any", ("_np_sometrue",), "an element is")):
    register_op(
        f"_np_{_name}",
        aliases=_aliases,
        params=AxesParams,
        inputs=("data",),
        infer_shape=reduce_shapes,
        infer_type=lambda p, ins, outs: (ins, ["bool"]),
        gradient=lambda node, ograds: [None],
        flops=per_input(1),
        doc=f"Whether {_what} not 0, over axes.",
    )

for _name, _what in (("argmax", "largest"), ("argmin", "smallest")):
    register_op(
        f"_npi_{_name}",
        params=SearchParams,
        inputs=("data",),
        infer_shape=_search_shapes,
        infer_type=lambda p, ins, outs: (number_type(p, ins, ())[0], ["int64"]),
        gradient=lambda node, ograds: [None],
        flops=per_input(1),
        doc=f"Where the {_what} element is, the first of equals, as int64.",
    )

# -- variance and standard deviation ---------------------------------------------------------------------------------


def _with_fewer(dy: NodeEntry, node: Node) -> NodeEntry:
    """Return dY n / (n - ddof), n the number of elements of each result."""
    p: SpreadParams = node.attrs.parsed
    if not p.ddof:
        return dy
    ones = apply("BlockGrad", apply("ones_like", node.inputs[0]))
    count = apply("_np_sum", ones, axis=p.axis, keepdims=p.keepdims)
    return div(mul(dy, count), apply("_minus_scalar", count, scalar=float(p.ddof)))


def _difference_gradient(node: Node, dy: NodeEntry, factor: float) -> Entries:
    """factor (X - mean) dY / n, dY repeated over the reduced axes."""
    p, a = node.attrs.parsed, node.inputs[0]
    axes = {"axis": p.axis, "keepdims": p.keepdims}
    mean = spread(apply("_cast_like", apply("_npi_mean", a, **axes), a), node)
    mean_grad = apply("_cast_like", apply("_backward_npi_mean", apply("_cast_like", dy, a), a, **axes), a)
    return [times(mul(mean_grad, apply("elemwise_sub", a, mean)), factor)]


def _var_gradient(node: Node, ograds: Entries):
    """dX = 2 (X - mean) dY / (n - ddof)."""
    return _difference_gradient(node, _with_fewer(ograds[0], node), 2.0)


def _std_gradient(node: Node, ograds: Entries):
    """dX = (X - mean) dY / ((n - ddof) Y), of equal elements 0."""
    y = NodeEntry(node, 0, 0)
    not_zero = apply("elemwise_add", y, apply("_equal_scalar", y, scalar=0))
    return _difference_gradient(node, _with_fewer(div(ograds[0], not_zero), node), 1.0)


for _name, _gradient, _what in (("var", _var_gradient, "Variance"), ("std", _std_gradient, "Standard deviation")):
    register_op(
        f"_npi_{_name}",
        params=SpreadParams,
        infer_shape=reduce_shapes,
        infer_type=_spread_type,
        gradient=_gradient,
        deviation=Deviation("it has its gradient, which is 0 in MXNet", "training"),
        not_derivative=_cut,
        doc=f"{_what} over axes. Its gradient is its derivative, where MXNet's is 0.",
        inputs=("a",),
        flops=per_input(4),
        FNumFileOutputs=lambda attrs: 2,  # MXNet hides the mean behind them
    )
