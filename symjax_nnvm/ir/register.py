"""`register_op`: declare an operator with all its attributes in one call."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from types import FrameType
from typing import Any, ClassVar

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.attributes import Precision, Recompute, When
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry
from symjax_nnvm.ir.op import GROUP_PLEVEL, ArgumentInfo, Deviation, Op, register
from symjax_nnvm.ir.params import Params, ParamSchema, schema_of
from symjax_nnvm.ir.rules.axes import completed
from symjax_nnvm.ir.rules.costs import FlopsRule, Sizes, WorkspaceRule, per_output
from symjax_nnvm.ir.rules.layout_rules import AGNOSTIC, Layout
from symjax_nnvm.ir.rules.samples import Samples
from symjax_nnvm.ir.rules.storage import StorageRule
from symjax_nnvm.ir.types import DType, Shape, is_float

Entries = list[NodeEntry]
Shapes = Sequence[Shape | None]
Types = Sequence[DType | None]
ShapeRule = Callable[[Any, Shapes, Shapes], tuple[Iterable[Shape | None], Iterable[Shape | None]]]
"""(parameters, known input shapes, known output shapes) → proposed (inputs, outputs)."""

TypeRule = Callable[[Any, Types, Types], tuple[Iterable[DType | None], Iterable[DType | None]]]
"""(parameters, known input dtypes, known output dtypes) → proposed (inputs, outputs)."""

DrawsRule = Callable[[Any], When]
DeviationRule = str | Deviation | Sequence[Deviation]
Prediction = Callable[[Node, str, Callable[[], int | None]], NodeEntry]
Numbers = tuple[int, Callable[[Any, list[tuple[int, ...]]], int | None]]


class NoParams(Params):
    """Holds parameters of an operator that has none: MXNet takes any key, which means nothing."""

    any_key: ClassVar[bool] = True


def same_type(p: Any, ins: Types, outs: Types) -> tuple[Types, Types]:
    """Every input and output has one dtype: the first known among the outputs, else among the inputs."""
    dtype = next((t for t in (*outs, *ins) if t is not None), None)
    return [dtype] * len(ins), [dtype] * len(outs)


def same_shape(p: Any, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
    """Every input and output has one shape, merged from all that is known."""
    # Each is proposed to all others in turn; the pass words the conflict when two of them contradict each other.
    merged = completed(*ins, *outs)
    return [merged] * len(ins), [merged] * len(outs)


def first_type(p: Any, ins: Types, outs: Types) -> tuple[Types, Types]:
    """The first input and every output have one dtype; further inputs (indices, models of a shape) are free."""
    dtype = next((t for t in (*outs, ins[0]) if t is not None), None)
    return [dtype, *ins[1:]], [dtype] * len(outs)


def float_type(p: Any, ins: Types, outs: Types) -> tuple[Types, Types]:
    """Every input and output has one dtype, and that is a floating-point one."""
    inputs, outputs = same_type(p, ins, outs)
    need_float(next(iter((*inputs, *outputs)), None))
    return inputs, outputs


def need_float(dtype: DType | None) -> None:
    """Raise InferenceError for a dtype that is known and no floating-point one."""
    if dtype is not None and not is_float(dtype):
        problem = f"This operation only support floating point types, not {dtype}"
        raise InferenceError(problem, expected="a floating-point dtype", got=dtype)


def type_of_readers(*dtypes: DType, unset: DType | None = "float32") -> dict[str, Any]:
    """Return `infer_type` and FInferDefaultType of operators that make an array of the dtype in parameter `dtype`.

    The value `unset` means that the user chose no dtype, as does float32 where MXNet's functions write it by
    themselves: the array has that one of `dtypes` that the operators reading it need, else float32. MXNet refuses
    graphs where they need another. Inputs, if any, are of one dtype of their own.
    """

    def rule(p: Any, ins: Types, outs: Types) -> tuple[Types, Types]:
        inputs, _ = same_type(p, ins, ())
        gives_way = p.dtype == unset and (outs[0] is None or outs[0] in dtypes)
        return inputs, [outs[0] if gives_way else p.dtype or "float32"]

    def default(attrs: NodeAttrs, ins: Types, outs: Types) -> tuple[Types, Types]:
        return ins, [outs[0] or attrs.parsed.dtype or "float32"]

    return {"infer_type": rule, "FInferDefaultType": default}


def check_number(param: str, value: float, dtype: DType | None) -> None:
    """Refuse infinity and NaN as a parameter beside integers; numbers that they do not hold are cast as in C.

    Raises InferenceError.
    """
    if dtype is not None and not is_float(dtype) and dtype != "bool" and not math.isfinite(value):
        problem = f"{value:g} is not a number of dtype {dtype}"
        raise InferenceError(problem, param=param, expected="a finite number", got=value)


def register_op(
    name: str,
    *,
    params: type = NoParams,
    inputs: Sequence[str] | None = None,
    unlisted_inputs: bool | None = None,
    inputs_used: Callable[[Any], Sequence[str]] | None = None,
    variadic: str | None = None,
    list_inputs: Callable[[NodeAttrs], Sequence[str]] | None = None,
    outputs: Sequence[str] | None = None,
    num_outputs: int | Callable[[Any], int] | None = None,
    visible_outputs: int | Callable[[Any], int] | None = None,
    mutates: Sequence[int] = (),
    infer_shape: ShapeRule | None = None,
    infer_type: TypeRule | None = same_type,
    gradient: Callable[[Node, Entries], Iterable[NodeEntry | None]] | None = None,
    loss: Callable[[Node], NodeEntry] | None = None,
    aliases: Sequence[str] = (),
    doc: str = "",
    inplace: Sequence[tuple[int, int]] = (),
    flops: FlopsRule | int | str | None = None,
    workspace: WorkspaceRule | None = None,
    precision: Precision | None = None,
    draws: DrawsRule | When = None,
    deviation: DeviationRule = (),
    not_derivative: str | Callable[[Any], str | None] | None = None,
    layout: Layout | None = None,
    samples: Samples | None = None,
    storage: StorageRule | None = None,
    drawing: str | None = None,
    recompute: Recompute | None = None,
    shape_parameters: tuple[str, ...] | None = None,
    prediction: Prediction | None = None,
    numbers: Numbers | None = None,
    same_values: bool | None = None,
    own: bool | None = None,
    broadcasts: bool | None = None,
    stops_gradient: bool | None = None,
    out_grads_read: int | None = None,
    twin_of: str | None = None,
    **attributes: Any,
) -> Op:
    """Declare an operator with everything that is known about it, in one call instead of many of `Op.set_attr`.

    Rules with a name such as FGradient or TOwn are described in `ir/attributes.py`; an argument sets the attribute.

    Args:
        name: the operator's name.
        params: a frozen dataclass of the typed parameters.
        inputs: names of all tensor inputs; None for one input `data` that MXNet's operator does not list.
        unlisted_inputs: TUnlistedInputs, for an operator that gives names in `inputs` all the same.
        inputs_used: a function of the parameters that returns the names in use, where parameters switch inputs off.
        variadic: the parameter with the number of inputs, whose names are `arg0`, `arg1`, … or come from `list_inputs`.
        list_inputs: a function of the node's attributes that returns the names of the inputs, where neither `inputs`
            nor parameters name them.
        outputs: names of all outputs, where they are not `output`.
        num_outputs: the number of outputs, or a function of the parameters.
        visible_outputs: the number of outputs that a user sees, or a function of the parameters.
        mutates: numbers of the inputs that the operator writes.
        infer_shape: a rule (parameters, ins, outs) → proposed (ins, outs); None where `FInferShape` replaces it.
        infer_type: a rule of the same form; None where `FInferType` replaces it.
        gradient: FGradient.
        loss: FLossEquivalent, for a head that defines its own gradient.
        aliases: other names of the operator.
        doc: the description, for its page.
        inplace: pairs of FInplaceOption.
        flops: a rule (parameters, input shapes, output shapes) → `Flops`; the number of operations for each element of
            the first output; or a text with the reason why they are not counted.
        workspace: a rule of the same form that returns the number of elements in memory beyond inputs and outputs; None
            for no elements.
        precision: TPrecision; None for `"float32"`.
        draws: `"always"`, `"training"`, or a rule parameters → one of these or None, for an operator that draws random
            numbers. Such nodes are never merged, and the lowering rule gets a key.
        deviation: how the operator differs from MXNet 1.9.1: a text, a `Deviation`, or several.
        not_derivative: why the gradient is intentionally not the derivative of the outputs: a text, or a rule
            parameters → text or None.
        layout: FCorrectLayout: `"agnostic"` or a rule of `ir/rules/layout_rules.py`.
        samples: FSamples: `"each"` or a rule of `ir/rules/samples.py`, for an operator that does not mix samples; an
            operator with layout `"agnostic"` does not mix them.
        storage: FInferStorageType, a rule of `ir/rules/storage.py`.
        drawing: TDrawing; None for the folder of the operator's file.
        recompute: TRecompute.
        shape_parameters: TShapeParameters.
        prediction: FPrediction.
        numbers: TNumbers.
        same_values: TSameValues.
        own: TOwn, for an operator that MXNet does not have.
        broadcasts: TBroadcasts.
        stops_gradient: TStopsGradient.
        out_grads_read: TOutGradsRead.
        twin_of: the operator whose TTwin this one is; a lowering rule and an ONNX form registered for that operator are
            those of both.
        attributes: further attributes by their keys.

    Raises:
        AttributeConflictError: an alias is another operator's name, or an attribute is set twice.
    """
    if unlisted_inputs is None:
        unlisted_inputs = inputs is None and variadic is None
    if inputs is None:
        inputs = ("data",)
    op = register(name)
    if twin_of is not None:
        Op.get(twin_of).set_attr("TTwin", name)
    for alias in aliases:
        op.add_alias(alias)
    op.describe(doc or op.description)
    schema = schema_of(params)
    op.params = schema
    op.set_attr_parser(_no_params if params is NoParams else _parser(name, schema))
    op.inputs = tuple(inputs)
    op.key_var_num_args = variadic
    op.add_arguments(ArgumentInfo(i, "NDArray-or-Symbol") for i in inputs)
    op.add_arguments(_arguments(schema))
    if variadic is not None:
        op.inputs = ()
        op.set_num_inputs(lambda attrs: getattr(attrs.parsed, variadic))
        numbered = list_inputs or (lambda attrs: [f"arg{i}" for i in range(getattr(attrs.parsed, variadic))])
        op.set_attr("FListInputNames", numbered)
        op.set_attr("key_var_num_args", variadic)
    elif list_inputs is not None:
        op.set_num_inputs(lambda attrs: len(list_inputs(attrs)))
        op.set_attr("FListInputNames", list_inputs)
    elif inputs_used is not None:
        op.set_num_inputs(lambda attrs: len(inputs_used(attrs.parsed)))
        op.set_attr("FListInputNames", lambda attrs: inputs_used(attrs.parsed))
    else:
        op.set_num_inputs(len(inputs))
        op.set_attr("FListInputNames", lambda attrs: op.inputs)
    if unlisted_inputs:
        op.set_attr("TUnlistedInputs", True)
    if outputs is not None:
        op.set_num_outputs(len(outputs))
        op.set_attr("FListOutputNames", lambda attrs: outputs)
    if callable(num_outputs):
        op.set_num_outputs(lambda attrs: num_outputs(attrs.parsed))
    elif num_outputs is not None:
        op.set_num_outputs(num_outputs)
    if callable(visible_outputs):
        op.set_attr("FNumVisibleOutputs", lambda attrs: visible_outputs(attrs.parsed))
    elif visible_outputs is not None:
        op.set_attr("FNumVisibleOutputs", lambda attrs: visible_outputs)
    if mutates:
        op.set_attr("FMutateInputs", lambda attrs: mutates)
    if infer_shape is not None:
        rule = lambda attrs, ins, outs: infer_shape(attrs.parsed, ins, outs)  # noqa: E731
        rule.__doc__ = infer_shape.__doc__  # which the operator's page shows
        op.set_attr("FInferShape", rule)
    if infer_type is not None:
        op.set_attr("FInferType", lambda attrs, ins, outs: infer_type(attrs.parsed, ins, outs))
    if gradient is not None:
        op.set_attr("FGradient", gradient)
    if loss is not None:
        op.set_attr("FLossEquivalent", loss)
    if inplace:
        op.set_attr("FInplaceOption", lambda attrs: inplace)
    _fill_card(
        op,
        flops=flops,
        workspace=workspace,
        draws=draws,
        deviation=deviation,
        not_derivative=not_derivative,
        layout=layout,
        samples=samples,
        storage=storage,
        TPrecision=precision,
        TDrawing=drawing or _folder(inspect.currentframe()),
        TRecompute=recompute,
        TShapeParameters=shape_parameters,
        FPrediction=prediction,
        TNumbers=numbers,
        TSameValues=same_values,
        TOwn=own,
        TBroadcasts=broadcasts,
        TStopsGradient=stops_gradient,
        TOutGradsRead=out_grads_read,
    )
    for key, value in attributes.items():
        op.set_attr(key, value)
    return op


def _arguments(schema: ParamSchema) -> Iterator[ArgumentInfo]:
    for field in schema.fields.values():
        default = ", required" if field.required else f", optional, default={field.default!r}"
        yield ArgumentInfo(field.name, field.expected + default, field.doc)


def _folder(frame: FrameType | None) -> str | None:
    """Return the family of the file that called a function, if it is ours: `symjax_nnvm.ops.<family>.<file>`."""
    caller = frame and frame.f_back
    package, _, tail = caller.f_globals["__name__"].partition(".ops.") if caller else ("", "", "")
    return tail.partition(".")[0] if package == "symjax_nnvm" and "." in tail else None


_NO_PARAMS = NoParams()


def _no_params(attrs: NodeAttrs) -> None:
    # MXNet's operators without parameters accept any key in files; the symbol functions are stricter.
    attrs.parsed = _NO_PARAMS


def _parser(name: str, schema: ParamSchema) -> Callable[[NodeAttrs], None]:
    parse = schema.parse

    def parser(attrs: NodeAttrs) -> None:
        attrs.parsed = parse(attrs.dict, name, attrs.name)

    return parser


class Deviations(tuple[Deviation, ...]):
    """An operator's differences from MXNet, as a value of FDeviation: a function attrs → those of a node."""

    __slots__ = ()

    def __call__(self, attrs: NodeAttrs) -> Deviation | None:
        """Join all deviations that the parameters cause; None where there are none."""
        that_apply = [one for one in self if one.when is None or one.when(attrs.parsed)]
        if not that_apply:
            return None
        affects = "outputs" if any(one.affects == "outputs" for one in that_apply) else "training"
        return Deviation("; ".join(one.what for one in that_apply), affects)


def _fill_card(
    op: Op,
    *,
    flops: FlopsRule | int | str | None,
    workspace: WorkspaceRule | None,
    draws: DrawsRule | When,
    deviation: DeviationRule,
    not_derivative: str | Callable[[Any], str | None] | None,
    layout: Layout | None,
    samples: Samples | None,
    storage: StorageRule | None,
    **constants: Any,
) -> None:
    """Set these facts as attributes of an operator; see `register_op`. constants: attributes by their key,
    None where the operator has none."""
    if isinstance(flops, str):
        op.set_attr("TUncounted", flops, plevel=GROUP_PLEVEL)
    elif flops is not None:
        op.set_attr("FFlops", _of_attrs(_constant_flops(flops) if isinstance(flops, int) else flops), GROUP_PLEVEL)
    if workspace is not None:
        op.set_attr("FWorkspace", _of_attrs(workspace), plevel=GROUP_PLEVEL)
    if draws is not None:
        op.set_attr("FDraws", _of_parameters(draws))
        op.set_attr("THasDeterministicOutput", False, plevel=GROUP_PLEVEL)
    if deviation:
        rows = [Deviation(deviation)] if isinstance(deviation, str) else deviation
        op.set_attr("FDeviation", Deviations([rows] if isinstance(rows, Deviation) else rows))
    if not_derivative is not None:
        op.set_attr("FNotDerivative", _of_parameters(not_derivative))
    if layout is not None:
        op.set_attr("FCorrectLayout", AGNOSTIC if layout == "agnostic" else layout)
    if samples is not None or layout == "agnostic":  # an operator without an order of axes works on elements
        op.set_attr("FSamples", _of_attrs(samples if callable(samples) else _always))
    if storage is not None:
        op.set_attr("FInferStorageType", lambda attrs, ins: storage(attrs.parsed, ins))
    for key, value in constants.items():
        if value is not None:
            op.set_attr(key, value)


def _always(p: Any, ins: Sizes, outs: Sizes) -> bool:
    return True


_constant_flops = cache(per_output)


@cache
def _of_attrs(rule: Callable[[Any, Sizes, Sizes], Any]) -> Callable[[NodeAttrs, Sizes, Sizes], Any]:
    """Return a rule of parameters as one of attrs, the same for operators that share it."""
    return lambda attrs, ins, outs: rule(attrs.parsed, ins, outs)


def _of_parameters(fact: Any) -> Callable[[NodeAttrs], Any]:
    """Return a fact, or a rule from parameters to one, as a rule of attrs."""
    return (lambda attrs: fact(attrs.parsed)) if callable(fact) else (lambda attrs: fact)
