"""Updates of one weight by optimisers: (weight, gradient, states) → the new weight; the states are updated in place.

The states are auxiliary. The forms called `mp_…` keep a float32 copy of a half-precision weight, `weight32`, as a state
and calculate with that. Half precision is calculated in float32 and rounded once, where MXNet rounds every step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import NodeAttrs
from symjax_nnvm.ir.op import Deviation
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
    AdamParams,
    AdamWParams,
    FTMLParams,
    FtrlParams,
    LambPhase1Params,
    LambPhase2Params,
    NAGMomParams,
    RMSPropAlexParams,
    RMSPropParams,
    SGDMomParams,
    SGDParams,
    SignSGDParams,
    SignumParams,
)

# -- shapes and dtypes -----------------------------------------------------------------------------------------------


def one_element(shape: Shape | None, input_name: str) -> Shape:
    """The shape of an input that holds one number: (1,) unless its own is another. Raises InferenceError."""
    if shape is None:
        return (1,)
    if size_of(shape) not in (None, 1):
        raise InferenceError("One number is needed", input=input_name, expected="one element", got=format_shape(shape))
    return shape


def shapes_but_numbers(inputs: Sequence[str], numbers: Sequence[str]) -> ShapeRule:
    """All inputs and the output have one shape, but for inputs of one element."""

    def rule(p: Any, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        alike, (out,) = same_shape(p, [s for s, name in zip(ins, inputs, strict=True) if name not in numbers], outs)
        shape = iter(alike)
        return [
            one_element(in_shape, name) if name in numbers else next(shape)
            for in_shape, name in zip(ins, inputs, strict=True)
        ], [out]

    return rule


def floats_but_float32(inputs: Sequence[str], single: Sequence[str]) -> TypeRule:
    """All inputs and outputs have one floating-point dtype, but for those that are always float32."""

    def rule(p: Any, ins: Types, outs: Types) -> tuple[Types, Types]:
        fixed = "output" in single
        free = [t for t, name in zip(ins, inputs, strict=True) if name not in single]
        alike, inferred = float_type(p, free, [] if fixed else outs)
        dtype = iter(alike)
        types = ["float32" if name in single else next(dtype) for name in inputs]
        return types, ["float32"] * len(outs) if fixed else inferred

    return rule


# -- the operators ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class UpdateSchema:
    """A row of the table.

    states: inputs that are updated. numbers: inputs of one element. given: all inputs, where they are not weight,
    gradient, states and numbers. single: inputs that are always float32, and `output` where the result
    is. rows: FUpdatesRows. deviation: as of `register_op`.
    """

    name: str
    params: type
    states: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    single: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    rows: Callable[[NodeAttrs, Sequence[str]], bool] | None = None
    deviation: DeviationRule = ()
    doc: str

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return self.given or ("weight", "grad", *self.states, *self.numbers)


_MASTER = " Of the float32 copy of a half-precision weight."


def _both(row: UpdateSchema, always: str = "", master: str = "") -> tuple[UpdateSchema, UpdateSchema]:
    """An update, and that of a float32 copy of the weight. always, master: more to be said of both, and of the latter.

    The copy and the other states are float32.
    """
    states = (*row.states, "weight32")
    name = ("_mp" if row.name.startswith("_") else "mp_") + row.name
    copies = replace(row, name=name, states=states, single=states + row.single, aliases=(), rows=None)
    return replace(row, doc=row.doc + always), replace(copies, doc=row.doc + _MASTER + always + master)


def _if_lazy(attrs: NodeAttrs, ins: Sequence[str]) -> bool:
    """Whether the weight and its states are stored alike, and a row_sparse gradient updates them lazily."""
    return attrs.parsed.lazy_update and ins[1] == "row_sparse" and len({ins[0], *ins[2:]}) == 1


UPDATES = (
    *_both(
        UpdateSchema(
            name="sgd_update",
            params=SGDParams,
            aliases=("_sparse_sgd_update",),
            rows=_if_lazy,
            doc="Stochastic gradient descent.",
        )
    ),
    *_both(
        UpdateSchema(
            name="sgd_mom_update",
            params=SGDMomParams,
            states=("mom",),
            aliases=("_sparse_sgd_mom_update",),
            rows=_if_lazy,
            doc="Stochastic gradient descent with momentum.",
        )
    ),
    *_both(
        UpdateSchema(
            name="nag_mom_update", params=NAGMomParams, states=("mom",), doc="Nesterov's accelerated gradient."
        ),
        master=" Decay is by the old weight, as in nag_mom_update.",
    ),
    UpdateSchema(name="signsgd_update", params=SignSGDParams, doc="Steps of one size against the gradient's sign."),
    UpdateSchema(
        name="signum_update",
        params=SignumParams,
        states=("mom",),
        doc="Steps of one size along the sign of the momentum.",
    ),
    UpdateSchema(
        name="adam_update",
        params=AdamParams,
        states=("mean", "var"),
        aliases=("_sparse_adam_update",),
        rows=_if_lazy,
        doc="Adam; the weight decay is part of the gradient, and clipped with it. The caller corrects the bias of the "
        "moving averages, in lr.",
    ),
    *_both(
        UpdateSchema(
            name="_adamw_update",
            params=AdamWParams,
            states=("mean", "var"),
            numbers=("rescale_grad",),
            single=("rescale_grad",),
            doc="Adam with decoupled weight decay.",
        ),
        always=" Where rescale_grad is 0, infinite or NaN everything stays as it was.",
    ),
    UpdateSchema(name="ftml_update", params=FTMLParams, states=("d", "v", "z"), doc="Follow the moving leader."),
    UpdateSchema(
        name="ftrl_update",
        params=FtrlParams,
        states=("z", "n"),
        aliases=("_sparse_ftrl_update",),
        rows=lambda attrs, ins: set(ins) == {"row_sparse"},
        doc="Follow the regularised leader.",
    ),
    UpdateSchema(
        name="rmsprop_update", params=RMSPropParams, states=("n",), doc="RMSProp, as Tieleman and Hinton have it."
    ),
    UpdateSchema(
        name="rmspropalex_update",
        params=RMSPropAlexParams,
        states=("n", "g", "delta"),
        doc="RMSProp with a centred second moment and momentum, as Graves has it.",
    ),
    _PHASE1 := UpdateSchema(
        name="lamb_update_phase1",
        params=LambPhase1Params,
        states=("mean", "var"),
        doc="The first half of LAMB: the direction of the step.",
    ),
    _PHASE2 := UpdateSchema(
        name="lamb_update_phase2",
        params=LambPhase2Params,
        given=("weight", "g", "r1", "r2"),
        numbers=("r1", "r2"),
        doc="The second half of LAMB: a step along the direction g, times the ratio of the norms r1 of the weight and "
        "r2 of g.",
    ),
    replace(
        _PHASE1,
        name="mp_lamb_update_phase1",
        given=(*_PHASE1.inputs, "weight32"),
        single=("mean", "var", "weight32", "output"),
        doc=_PHASE1.doc + _MASTER,
    ),
    replace(
        _PHASE2,
        name="mp_lamb_update_phase2",
        given=(*_PHASE2.inputs, "weight32"),
        states=("weight32",),
        single=("g", "r1", "r2", "weight32"),
        deviation=Deviation("the float32 copy of the weight is updated; MXNet forgets it", "training"),
        doc=_PHASE2.doc + _MASTER + " The copy is updated, which MXNet forgets.",
    ),
)

for _row in UPDATES:
    _op = register_op(
        _row.name,
        aliases=_row.aliases,
        params=_row.params,
        inputs=_row.inputs,
        unlisted_inputs=True,
        mutates=[_row.inputs.index(state) for state in _row.states],
        infer_shape=shapes_but_numbers(_row.inputs, _row.numbers),
        infer_type=floats_but_float32(_row.inputs, _row.single),
        inplace=((0, 0),) if "output" not in _row.single else (),
        flops=UNCOUNTED,
        deviation=_row.deviation,
        doc=_row.doc,
    )
    if _row.rows is not None:
        _op.set_attr("FUpdatesRows", _row.rows)
