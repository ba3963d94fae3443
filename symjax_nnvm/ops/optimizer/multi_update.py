"""Optimisers' updates of many weights in one node, and the layer-wise learning rates of LARS.

A row of the table is an update of one weight, done to each: inputs are `weight_0, grad_0, …, weight_1, grad_1, …`, then
those that all share; outputs are the new weights. Learning rates and decays are parameters or, `preloaded`, inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import NodeAttrs
from symjax_nnvm.ir.op import Deviation, Op
from symjax_nnvm.ir.register import (
    DeviationRule,
    ShapeRule,
    Shapes,
    TypeRule,
    Types,
    float_type,
    register_op,
    same_shape,
)
from symjax_nnvm.ir.rules.axes import size_of
from symjax_nnvm.ir.types import Shape, format_shape
from symjax_nnvm.ops.optimizer.params import (
    UNCOUNTED,
    LarsParams,
    MultiAdamWParams,
    MultiLambParams,
    MultiSGDMomParams,
    MultiSGDParams,
    PreloadedMultiSGDMomParams,
    PreloadedMultiSGDParams,
)
from symjax_nnvm.ops.optimizer.update import floats_but_float32, one_element

T = TypeVar("T")

# -- the table -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class MultiUpdateSchema:
    """A row of the table.

    states: inputs of one weight that are updated; with `weight32` among them all are float32 for a weight of any dtype.
    shared: inputs after all weights: `lrs` and `wds` have a number for each weight and are float32, `rescale_grad` is
    one number. count: the parameter that holds the number of weights. deviation: as of `register_op`.
    """

    name: str
    params: type
    states: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    count: str = "num_weights"
    deviation: DeviationRule = ()
    doc: str

    @property
    def each(self) -> tuple[str, ...]:
        """Inputs of one weight."""
        return "weight", "grad", *self.states

    @property
    def single(self) -> tuple[str, ...]:
        """The names of those that are float32 for a weight of any dtype."""
        return self.states if "weight32" in self.states else ()

    @property
    def one_dtype(self) -> bool:
        """All inputs have one dtype; else each weight has its own."""
        return not self.single and self.shared != _RATES

    def inputs(self, p: Any) -> list[str]:
        """Names of the inputs."""
        return [*(f"{name}_{i}" for i in range(getattr(p, self.count)) for name in self.each), *self.shared]

    def split(self, p: Any, values: Sequence[T]) -> tuple[list[Sequence[T]], Sequence[T]]:
        """Something of every input, as (that of each weight's inputs, that of the shared inputs)."""
        width = len(self.each)
        size = getattr(p, self.count) * width
        return [values[start : start + width] for start in range(0, size, width)], values[size:]

    def mutates(self, p: Any) -> list[int]:
        """Numbers of the inputs that are updated."""
        states = [self.each.index(name) for name in self.states]
        return [i * len(self.each) + state for i in range(getattr(p, self.count)) for state in states]


_MASTER = " Of the float32 copies of half-precision weights."
_PRELOADED = " Learning rates and weight decays are the inputs `lrs` and `wds`."
_SKIP = " Where rescale_grad is 0, infinite or NaN everything stays as it was."
_RATES = ("lrs", "wds")


def _both(row: MultiUpdateSchema, always: str = "", plain: str = "", master: str = "") -> list[MultiUpdateSchema]:
    """An update, and that of float32 copies of the weights. More to be said: of both, and of either."""
    copies = replace(row, name=row.name.replace("multi_", "multi_mp_"), states=(*row.states, "weight32"), deviation=())
    return [replace(row, doc=row.doc + always + plain), replace(copies, doc=row.doc + _MASTER + always + master)]


_SGD = MultiUpdateSchema(
    name="multi_sgd_update", params=MultiSGDParams, doc="Stochastic gradient descent of many weights."
)
_MOM = MultiUpdateSchema(
    name="multi_sgd_mom_update",
    params=MultiSGDMomParams,
    states=("mom",),
    doc="Stochastic gradient descent with momentum of many weights.",
)

UPDATES = (
    *_both(_SGD),
    *_both(_MOM),
    *_both(replace(_SGD, name="preloaded_multi_sgd_update", params=PreloadedMultiSGDParams, shared=_RATES), _PRELOADED),
    *_both(
        replace(_MOM, name="preloaded_multi_sgd_mom_update", params=PreloadedMultiSGDMomParams, shared=_RATES),
        _PRELOADED,
    ),
    *_both(
        MultiUpdateSchema(
            name="_multi_adamw_update",
            params=MultiAdamWParams,
            states=("mean", "var"),
            shared=("rescale_grad",),
            deviation=Deviation(
                "learning rates are float32 for weights of every dtype; MXNet misreads them for weights that are not "
                "float32",
                "training",
            ),
            doc="Adam with decoupled weight decay, of many weights.",
        ),
        always=_SKIP,
        plain=" MXNet misreads learning rates of weights that are not float32.",
    ),
    *_both(
        MultiUpdateSchema(
            name="_multi_lamb_update",
            params=MultiLambParams,
            states=("mean", "var"),
            count="num_tensors",
            doc="LAMB, of many weights.",
        ),
        master=" The norm in its step is that of the half-precision weight.",
    ),
)

# -- shapes and dtypes -----------------------------------------------------------------------------------------------


def _one_for_each(shape: Shape | None, name: str, count: int) -> Shape:
    """The shape of an input with a number for each weight: (n,) unless its own is another. Raises InferenceError."""
    if shape is None:
        return (count,)
    if size_of(shape) not in (None, count):
        problem = "One number for each weight is needed"
        raise InferenceError(problem, input=name, expected=f"{count} elements", got=format_shape(shape))
    return shape


def _shapes(row: MultiUpdateSchema) -> ShapeRule:
    """All inputs of one weight have the shape of its output."""

    def rule(p: Any, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        of_weights, shared = row.split(p, ins)
        per_weight = [same_shape(p, of_weight, [out]) for of_weight, out in zip(of_weights, outs, strict=True)]
        count = len(of_weights)
        numbers = [
            _one_for_each(shape, name, count) if name in _RATES else one_element(shape, name)
            for shape, name in zip(shared, row.shared, strict=True)
        ]
        return [*(shape for inputs, _ in per_weight for shape in inputs), *numbers], [new for _, (new,) in per_weight]

    return rule


def _types(row: MultiUpdateSchema) -> TypeRule:
    """One floating-point dtype for all, where the row declares it; else one for each weight, and float32 numbers."""
    if row.one_dtype:
        return float_type
    of_one = floats_but_float32(row.each, row.single)

    def rule(p: Any, ins: Types, outs: Types) -> tuple[Types, Types]:
        of_weights, shared = row.split(p, ins)
        per_weight = [of_one(p, of_weight, [out]) for of_weight, out in zip(of_weights, outs, strict=True)]
        return [*(t for inputs, _ in per_weight for t in inputs), *["float32"] * len(shared)], [
            t for _, (t,) in per_weight
        ]

    return rule


def _register(row: MultiUpdateSchema) -> Op:
    def inplace(attrs: NodeAttrs) -> list[tuple[int, int]]:
        return [(i * len(row.each), i) for i in range(getattr(attrs.parsed, row.count))]

    op = register_op(
        row.name,
        params=row.params,
        inputs=(),
        inputs_used=row.inputs,
        num_outputs=lambda p: getattr(p, row.count),
        infer_shape=_shapes(row),
        infer_type=_types(row),
        flops=UNCOUNTED,
        deviation=row.deviation,
        doc=row.doc,
        FInplaceOption=inplace,
        FMutateInputs=lambda attrs: row.mutates(attrs.parsed),
    )
    return op.add_argument("data", "NDArray-or-Symbol[]", f"{', '.join(row.each)} of each weight")


for _row in UPDATES:
    _register(_row)

# -- LARS ------------------------------------------------------------------------------------------------------------


register_op(
    "multi_lars",
    params=LarsParams,
    inputs=("lrs", "weights_sum_sq", "grads_sum_sq", "wds"),
    infer_shape=same_shape,
    infer_type=float_type,
    inplace=((0, 0), (1, 0), (2, 0), (3, 0)),
    flops=UNCOUNTED,
    doc="The learning rates of LARS, one for each layer, from the sums of the squares of its weights and gradients: "
    "lr · eta · |w| / (rescale_grad · |g| + wd · |w| + eps); lr where a norm is 0. MXNet takes float32 only.",
)
