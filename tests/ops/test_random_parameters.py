"""Random parameters and shapes at every operator: a result of the inferred shape and dtype, or one of our errors.

What does not fit must be refused while the graph is built or inferred, in the operator's own terms; an error that a
lowering rule meets while JAX traces it counts as a defect.
"""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import random
import types
import typing
import warnings
from typing import Any, Literal, get_args, get_origin

import jax
import numpy as np

import lowering
from symjax_nnvm.errors import NNVMError
from symjax_nnvm.ir.attributes import FInputGraph
from symjax_nnvm.ir.node import NodeAttrs
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.params import ParamField, value_to_text
from symjax_nnvm.symbol import Symbol, Variable
from symjax_nnvm.symbol.symbol import create_operator
from tests.cases import Case
from tests.ops.test_schemas import MXNET
from tests.support import ladder
from tests.support.walk import operator_rung

DRAWS = 40
"""Parameter sets for each operator."""

EXCEPTIONS: dict[str, str] = {
    **dict.fromkeys(
        ("_npi_unique", "_npx_nonzero", "_npi_delete", "_npi_bincount"),
        "its output's shape may depend on values, which tracing lacks",
    ),
    "_contrib_boolean_mask": "its output's shape depends on values, which tracing does not have",
}

CASES: dict[Op, list[Case]] = {}
for _, _case in ladder.all_cases():
    CASES.setdefault(Op.get(_case.op), []).append(_case)


def is_mxnets(op: Op) -> bool:
    """Of MXNet's operators; those that only gradients are made of are never given parameters by hand."""
    return op.name in MXNET and op.name != "Custom" and op not in FInputGraph and op.name not in EXCEPTIONS


def draw_value(rng: random.Random, annotation: Any) -> Any:
    """A value of a parameter's type, often a sensible one, sometimes a hostile one."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return rng.choice(args)
    if origin in (typing.Union, types.UnionType):
        return None if rng.random() < 0.3 else draw_value(rng, next(arg for arg in args if arg is not type(None)))
    if origin is tuple:
        return tuple(draw_value(rng, args[0]) for _ in range(rng.choice([0, 1, 1, 2, 2, 2, 3, 4])))
    if annotation is bool:
        return rng.random() < 0.5
    if annotation is int:
        return rng.choice([-3, -1, 0, 0, 1, 1, 1, 2, 2, 3, 4, 1000])
    if annotation is float:
        return rng.choice([-1.0, 0.0, 0.1, 0.5, 1.0, 2.5, 1e10, float("nan")])
    return rng.choice(["", "x", "(1,)"])


def draw_params(rng: random.Random, op: Op, case: Case | None) -> dict[str, str]:
    """Text of some parameters, required ones always; or those of a case, some of them changed."""
    fields: list[ParamField] = list(op.params.fields.values()) if op.params is not None else []
    if case is None:
        chosen = [field for field in fields if field.required or rng.random() < 0.5]
        values: dict[str, Any] = {}
    else:
        chosen = rng.sample(fields, min(rng.choice([0, 0, 1, 1, 2]), len(fields)))
        values = dict(case.params)
    values |= {field.name: draw_value(rng, field.annotation) for field in chosen}
    if op.key_var_num_args and (case is None or op.key_var_num_args not in values):
        values[op.key_var_num_args] = rng.choice([1, 2, 3]) if case is None else len(case.inputs)
    return {name: value_to_text(value) for name, value in values.items()}


def draw_shapes(rng: random.Random, count: int, case: Case | None) -> list[tuple[int, ...]]:
    """Shapes that are often alike, so that some of them fit; or those of a case, one of them changed at times."""
    if case is not None and len(case.inputs) == count:
        shapes = [tensor.shape for tensor in case.inputs]
        if shapes and rng.random() < 0.3:
            i = rng.randrange(count)
            shapes[i] = rng.choice([shapes[i][1:] or (1,), (*shapes[i], 2), tuple(dim + 1 for dim in shapes[i])])
        return shapes
    first = tuple(rng.choice([1, 2, 3, 4]) for _ in range(rng.choice([1, 2, 2, 3, 3, 4, 4, 5])))
    shapes = [first]
    while len(shapes) < count:
        other = tuple(rng.choice([1, 2, 3]) for _ in range(rng.choice([1, 1, 2, 3, 4])))
        shapes.append(rng.choice([first, first, first[1:2] or (1,), other]))
    return shapes


def build(op: Op, params: dict[str, str]) -> tuple[Symbol, list[str]] | None:
    """The operator on variables; None when the parameters are refused."""
    try:
        attrs = NodeAttrs(op, "op", dict(params))
        attrs.parse()
        names = [f"in{i}" for i in range(op.num_inputs(attrs) or 0)]
        return create_operator(op, [Variable(name) for name in names], {}, dict(params), "op", "op"), names
    except NNVMError:
        return None


def check(op: Op, rng: random.Random) -> bool:
    """One draw; whether a result came of it."""
    case = rng.choice(CASES[op]) if op in CASES and rng.random() < 0.6 else None
    params = draw_params(rng, op, case)
    built = build(op, params)
    if built is None:
        return False
    symbol, names = built
    shapes = dict(zip(names, draw_shapes(rng, len(names), case), strict=False))
    types_in = {names[0]: rng.choice(["float32", "float32", "float16", "int32", "uint8"])} if names else {}
    if case is not None and len(case.inputs) == len(names):
        types_in = {name: tensor.dtype for name, tensor in zip(names, case.inputs, strict=True)}
    aux = set(symbol.list_auxiliary_states())
    try:
        # Inputs after the first are mostly left to inference, so that they fit when it knows them.
        given = {name: shape for i, (name, shape) in enumerate(shapes.items()) if i == 0 or case or rng.random() < 0.4}
        arguments, outputs, states = symbol.infer_shape_partial(**given)
        inferred = dict(
            zip([*symbol.list_arguments(), *symbol.list_auxiliary_states()], [*arguments, *states], strict=True)
        )
        complete = {name: inferred[name] if inferred[name] and all(inferred[name]) else shapes[name] for name in names}
        _, outputs, _ = symbol.infer_shape_partial(**complete)
        argument_types, _, state_types = symbol.infer_type_partial(**types_in)
    except NNVMError:
        return False
    dtypes = dict(
        zip(
            [*symbol.list_arguments(), *symbol.list_auxiliary_states()],
            [*(argument_types or []), *(state_types or [])],
            strict=False,
        )
    )
    values = {name: jax.ShapeDtypeStruct(complete[name], np.dtype(dtypes.get(name) or np.float32)) for name in names}
    args = {name: value for name, value in values.items() if name not in aux}
    shown = f"{op.name}({params}) on {values}"
    try:
        output_types = symbol.infer_type_partial(**{name: value.dtype for name, value in values.items()})[1]
        function = lowering.to_jax(symbol, is_train=rng.random() < 0.7)
        with jax.enable_x64(True):  # 64-bit dtypes are only themselves there
            traced, _ = jax.eval_shape(function, args, {n: values[n] for n in aux}, jax.random.key(0))
    except NNVMError as error:
        assert "Lowering failed" not in str(error), f"{shown}\n{error}"  # noqa: PT017
        return False
    for result, shape, dtype in zip(traced, outputs or [], output_types or [], strict=True):
        assert dtype is None or result.dtype == np.dtype(dtype), f"{shown}\ninferred {dtype}"
        # A shape of which nothing or only part is known may turn out as anything that fits.
        assert not shape or len(shape) == len(result.shape), f"{shown}\ninferred {outputs}, got {traced}"
        assert all(want in (0, got) for want, got in zip(shape, result.shape, strict=False)), (
            f"{shown}\ninferred {outputs}, got {traced}"
        )
    return True


@operator_rung(is_mxnets, one_in=24)
def random_parameters_give_a_result_or_one_of_our_errors(op: Op):
    rng = random.Random(op.name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = sum(check(op, rng) for _ in range(DRAWS))
    assert results, "every draw was refused: the test says nothing"
