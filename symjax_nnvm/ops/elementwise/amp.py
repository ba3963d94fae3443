"""Training in half precision: casts that leave other dtypes alone, and a test whether a gradient overflowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from symjax_nnvm.ir.node import Node, apply
from symjax_nnvm.ir.params import MAX_COUNT, Params, param
from symjax_nnvm.ir.register import (
    Entries,
    ShapeRule,
    Shapes,
    TypeRule,
    Types,
    float_type,
    need_float,
    register_op,
    same_shape,
    same_type,
)
from symjax_nnvm.ir.types import DType
from symjax_nnvm.ops.elementwise.unary import ROUNDED, cast_again

# -- casts -----------------------------------------------------------------------------------------------------------

CASTABLE = frozenset({"float32", "float16", "bfloat16"})
"""What the casts convert; they leave arrays of any other dtype as they are."""


class AmpCastParams(Params):
    dtype: Literal["bfloat16", "float16", "float32", "float64", "int32", "int64", "int8", "uint8"] = param(
        doc="the result's dtype, where data are float32, float16 or bfloat16"
    )


def _cast_back(node: Node, ograds: Entries) -> Entries:
    """Every head gradient in the dtype of its input."""
    return [apply("_cast_like", ograd, data) for ograd, data in zip(ograds, node.inputs, strict=True)]


def _amp_cast_types(p: AmpCastParams, ins: Types, outs: Types) -> tuple[Types, Types]:
    data = ins[0]
    return ins, [p.dtype if data in CASTABLE else data]


register_op(
    "amp_cast",
    params=AmpCastParams,
    infer_shape=same_shape,
    infer_type=_amp_cast_types,
    gradient=_cast_back,
    inplace=((0, 0),),
    flops=0,
    not_derivative=ROUNDED,
    layout="agnostic",
    same_values=True,
    FInference=cast_again,
    doc="float32, float16 or bfloat16 data in another dtype; any other data as they are. The gradient is cast back.",
)


class AmpMulticastParams(Params):
    num_outputs: int = param(ge=1, le=MAX_COUNT, doc="number of inputs, and of outputs")
    cast_narrow: bool = param(False, doc="cast to the narrowest of the dtypes, not to the widest")


def common_dtype(dtypes: Types, narrow: bool) -> DType | None:
    """The dtype that the castable ones among `dtypes` are cast to; None where there is none.

    float16 and bfloat16 have 16 bits each, and neither holds the other: the wider of the two is float32.
    """
    castable = {dtype for dtype in dtypes if dtype in CASTABLE}
    halves = castable - {"float32"}
    if narrow:
        return next((dtype for dtype in ("float16", "bfloat16", "float32") if dtype in castable), None)
    return "float32" if len(halves) != 1 or "float32" in castable else halves.pop()


def _like_inputs(rule: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """A rule of one input and one output, for each pair of them."""

    def of_pairs(p: Any, ins: Any, outs: Any) -> Any:
        pairs = [rule(p, [data], [out]) for data, out in zip(ins, outs, strict=True)]
        return [data for (data,), _ in pairs], [out for _, (out,) in pairs]

    return of_pairs


def _multicast_types(p: AmpMulticastParams, ins: Types, outs: Types) -> tuple[Types, Types]:
    if None in ins:
        return ins, outs  # the input still unknown may be the widest
    common = common_dtype(ins, p.cast_narrow)
    return ins, [common if dtype in CASTABLE else dtype for dtype in ins]


register_op(
    "amp_multicast",
    params=AmpMulticastParams,
    inputs=(),
    inputs_used=lambda p: [f"data_{i}" for i in range(p.num_outputs)],
    num_outputs=lambda p: p.num_outputs,
    infer_shape=_like_inputs(same_shape),
    infer_type=_multicast_types,
    gradient=_cast_back,
    FInplaceOption=lambda attrs: [(i, i) for i in range(attrs.parsed.num_outputs)],
    flops=0,
    deviation="arrays that are neither float32, float16 nor bfloat16 do not influence the dtype; in MXNet the first "
    "array may",
    not_derivative=ROUNDED,
    layout="agnostic",
    doc="Arrays of float32, float16 and bfloat16, cast to the widest (or narrowest) of their dtypes; float16 with "
    "bfloat16 makes float32. Arrays of any other dtype stay as they are and do not influence it; MXNet may cast to the "
    "dtype of the first array, be it int32.",
).add_argument("data", "NDArray-or-Symbol[]", "the arrays")

# -- sums and checks over many arrays --------------------------------------------------------------------------------


class AllFiniteParams(Params):
    init_output: bool = param(True, doc="start from 1; without effect, as a graph has no earlier value to go on from")


class MultiAllFiniteParams(Params):
    num_arrays: int = param(1, ge=1, le=MAX_COUNT, doc="number of arrays")
    init_output: bool = param(True, doc="start from 1; without effect, as a graph has no earlier value to go on from")


class NumArraysParams(Params):
    num_arrays: int = param(ge=1, le=MAX_COUNT, doc="number of arrays")


def _array_names(p: Any) -> list[str]:
    return [f"array_{i}" for i in range(p.num_arrays)]


def _one_number(p: Any, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
    """Arrays of any shape → (1,)."""
    return ins, [(1,)]


def _each_float(p: Any, ins: Types, outs: Types) -> tuple[Types, Types]:
    """Arrays of floating-point dtypes, each of its own → float32."""
    for dtype in ins:
        need_float(dtype)
    return ins, ["float32"]


def _one_float_type(p: Any, ins: Types, outs: Types) -> tuple[Types, Types]:
    """Arrays of one floating-point dtype → float32."""
    inputs, _ = float_type(p, ins, [])
    return inputs, ["float32"]


register_op(
    "all_finite",
    params=AllFiniteParams,
    inputs=("data",),
    infer_shape=_one_number,
    infer_type=_each_float,
    flops="a look at gradients, in training",
    doc="1 if every element is finite, 0 if one is infinite or NaN.",
)


def _register_of_arrays(
    name: str, params: type, shapes: ShapeRule, types: TypeRule, doc: str, **attributes: Any
) -> None:
    register_op(
        name,
        params=params,
        inputs=(),
        inputs_used=_array_names,
        infer_shape=shapes,
        infer_type=types,
        doc=doc,
        **attributes,
    ).add_argument("data", "NDArray-or-Symbol[]", "the arrays")


_register_of_arrays(
    "multi_all_finite",
    MultiAllFiniteParams,
    _one_number,
    _each_float,
    "1 if every element of every array is finite, 0 if one is infinite or NaN. Arrays may have different dtypes.",
    flops="a look at gradients, in training",
)
_register_of_arrays(
    "multi_sum_sq",
    NumArraysParams,
    lambda p, ins, outs: (ins, [(p.num_arrays,)]),
    _one_float_type,
    "The sum of the squares of each array, summed in float32 at least; MXNet sums float16 in float16.",
    flops="a look at weights and gradients, in training",
    deviation="float16 is summed in float32; MXNet sums it in float16",
)
_register_of_arrays(
    "reset_arrays",
    NumArraysParams,
    _like_inputs(same_shape),
    _like_inputs(same_type),
    "Sets arrays to 0. They are auxiliary states; the outputs are their new values, by which a graph can refer to the "
    "node. MXNet's operator has no outputs, and its graphs crash.",
    num_outputs=lambda p: p.num_arrays,
    flops=0,
    FMutateInputs=lambda attrs: range(attrs.parsed.num_arrays),
    FIgnoreInputs=lambda attrs: range(attrs.parsed.num_arrays),
)
