"""No parameter decides alone how much building a node, or its gradient, takes: what counts is bounded."""

import signal
import typing
from collections.abc import Iterator

from symjax_nnvm.errors import NNVMError
from symjax_nnvm.ir.attributes import (
    FGradient,
    FIgnoreInputs,
    FInplaceOption,
    FListInputNames,
    FListOutputNames,
    FMutateInputs,
    FNumFileOutputs,
    FNumVisibleOutputs,
)
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, create_variable_node
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.params import MAX_COUNT, ParamField
from tests.support import ladder
from tests.support.walk import operator_rung

SECONDS = 2.0
HUGE = "1000000000"
LARGEST = 9 * MAX_COUNT  # nine inputs for each of MAX_COUNT weights: mp_lamb's

PARAMS: dict[Op, dict[str, object]] = {}
"""The parameters of an operator's first case."""
for _, _case in ladder.all_cases():
    PARAMS.setdefault(Op.get(_case.op), _case.params)


def numeric(op: Op) -> list[ParamField]:
    """The parameters of an operator that are whole numbers."""
    fields = op.params.fields.values() if op.params is not None else ()
    return [field for field in fields if field.type.startswith(("int", "tuple of int"))]


def _texts(field: ParamField, given: object) -> Iterator[str]:
    """Huge values of a parameter."""
    if field.type.startswith("int"):
        yield from (HUGE, f"-{HUGE}", str(MAX_COUNT))
    else:
        length = len(given) if isinstance(given, tuple) and given else 2
        yield from (f"({', '.join([text] * length)},)" for text in (HUGE, f"-{HUGE}"))


def _any_value(field: ParamField) -> str:
    if "one of" in field.type:
        return str(typing.get_args(field.annotation)[0])
    return "(1, 1)" if field.type.startswith("tuple") else "1"


def _hang(signum, frame):
    raise TimeoutError


def _ask_everything(op: Op, texts: dict[str, str]) -> None:
    attrs = NodeAttrs(op, "op", texts)
    attrs.parse()
    counts = [op.num_inputs(attrs) or 0, op.num_outputs(attrs)]
    assert max(counts) <= LARGEST, f"{counts} inputs and outputs"
    for attribute in (FListInputNames, FListOutputNames, FMutateInputs, FIgnoreInputs, FInplaceOption):
        listing = attribute.get(op)
        assert listing is None or len(list(listing(attrs))) <= LARGEST
    for attribute in (FNumVisibleOutputs, FNumFileOutputs):
        count = attribute.get(op)
        assert count is None or count(attrs) <= LARGEST
    gradient = FGradient.get(op)
    if gradient is not None and max(counts) < 100:
        node = Node(attrs, [NodeEntry(create_variable_node(f"x{i}"), 0, 0) for i in range(counts[0])])
        heads = [NodeEntry(create_variable_node(f"dy{i}"), 0, 0) for i in range(counts[1])]
        list(gradient(node, heads))


@operator_rung(numeric, one_in=3)
def a_huge_parameter_is_refused_or_costs_nothing(op: Op):
    assert op.params is not None
    given = PARAMS.get(op, {})
    base = {f.name: _any_value(f) for f in op.params.fields.values() if f.required}
    base |= {key: str(value) for key, value in given.items()}
    previous = signal.signal(signal.SIGALRM, _hang)
    try:
        for field, text in ((f, text) for f in numeric(op) for text in _texts(f, given.get(f.name))):
            signal.setitimer(signal.ITIMER_REAL, SECONDS, 0.1)
            try:
                _ask_everything(op, {**base, field.name: text})
            except NNVMError:
                continue  # refused
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
