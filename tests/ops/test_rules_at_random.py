"""Every operator's rules asked directly, with drawn parameters and shapes of any rank: an answer or one of our errors.

Whatever a file says comes to these functions, so nothing else may come out of them: no IndexError for an array without
axes, no endless loop for a number of 2⁶³. The parameters are those of the fuzz grammar.
"""

import contextlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from symjax_nnvm.errors import NNVMError
from symjax_nnvm.inspect.footprint import estimate
from symjax_nnvm.ir.attributes import FGradient, FInferShape, FInferType, FInputGraph
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, create_variable_node
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.types import DTYPE_CODES
from symjax_nnvm.symbol import Symbol
from tests.fuzz.contract import RUN_MEMORY, Hang, contract
from tests.fuzz.grammar import draw_attrs
from tests.support.walk import operator_rung

DRAWS = 12
"""Sets of parameters for each operator."""

SIGNATURES = 4
"""Sets of shapes, and of dtypes, for each set of parameters."""


def has_no_graph(op: Op) -> bool:
    """Rules of control flow read subgraphs; the grammar's files have those."""
    return op not in FInputGraph and op.name != "Custom"


ABOUT_NODES = ("FInplaceOption", "FIgnoreInputs", "FNumVisibleOutputs", "FDraws", "FDeviation", "FNotDerivative")
ABOUT_NODES += ("FListInputNames", "FListOutputNames", "FMutateInputs", "FNumFileOutputs")
"""Attributes that are functions of a node's parameters alone."""


def _draw_shape(rng: random.Random, rank: int | None) -> tuple[int | None, ...] | None:
    rank = rng.choice([rank, rank, rng.choice([0, 1, 2, 3, 4, 5, None])])
    return None if rank is None else tuple(rng.choice([None, 1, 2, 3, 7, 10**9]) for _ in range(rank))


def _questions(rng: random.Random, op: Op, attrs: NodeAttrs, ins: int, outs: int) -> list[Callable[[], Any]]:
    """Calls of the operator's rules."""
    asked: list[Callable[[], Any]] = [
        lambda rule=rule: rule(attrs) for rule in (Op.get_attr(key).get(op) for key in ABOUT_NODES) if rule is not None
    ]
    node = Node(attrs, [NodeEntry(create_variable_node(f"x{i}")) for i in range(ins)])
    net = Symbol([NodeEntry(node, i) for i in range(outs)])
    shape_rule, type_rule, gradient = FInferShape.get(op), FInferType.get(op), FGradient.get(op)
    for _ in range(SIGNATURES):
        rank, dtype = rng.choice([0, 1, 2, 3, 4, 5, None]), rng.choice([None, *DTYPE_CODES])
        shapes = [_draw_shape(rng, rank) for _ in range(ins)]
        out_shapes = [rng.choice([None, None, _draw_shape(rng, rank)]) for _ in range(outs)]
        dtypes = [rng.choice([dtype, dtype, rng.choice([None, *DTYPE_CODES])]) for _ in range(ins)]
        out_dtypes = [rng.choice([None, dtype]) for _ in range(outs)]
        sizes = {f"x{i}": tuple(dim or 1 for dim in shape or ()) for i, shape in enumerate(shapes)}
        asked.append(lambda sizes=sizes: estimate(net, sizes))
        if shape_rule is not None:
            asked.append(lambda a=shapes, b=out_shapes: [list(x) for x in shape_rule(attrs, list(a), list(b))])
        if type_rule is not None:
            asked.append(lambda a=dtypes, b=out_dtypes: [list(x) for x in type_rule(attrs, list(a), list(b))])
    if gradient is not None:
        heads = [NodeEntry(create_variable_node(f"g{i}")) for i in range(outs)]
        asked.append(lambda: list(gradient(node, heads)))
    return asked


@operator_rung(has_no_graph, one_in=6)
def rules_answer_or_refuse_whatever_a_file_may_ask(op: Op):
    rng = random.Random(op.name)
    for _ in range(DRAWS):
        attrs = draw_attrs(rng, op, 3)
        if attrs is None:
            continue
        ins, outs = op.num_inputs(attrs), op.num_outputs(attrs)
        ins = rng.choice([1, 2, 3]) if ins is None else ins
        if ins > 50 or outs > 50:
            continue
        for ask in _questions(rng, op, attrs, ins, outs):
            try:
                with contract(0, RUN_MEMORY):
                    ask()
            except NNVMError:
                continue
            except (Exception, Hang) as error:
                pytest.fail(f"{op.name}({attrs.dict}): {ask.__defaults__}: {error!r}")


FOUND: dict[str, tuple[str, dict[str, str], list[Any], list[Any]]] = {
    "PReLU of a number": ("LeakyReLU", {"act_type": "prelu"}, [(), ()], [None]),
    "statistics of a number": ("_backward_BatchNorm_mean", {}, [(2, 3), ()], [None]),
    "a correlation whose output is a number": ("Correlation", {}, [(1, 2, 3, 3), None], [None, (1, 3, 3, 2), ()]),
    "offsets of no class": (
        "_contrib_DeformablePSROIPooling",
        {"spatial_scale": "1", "output_dim": "5", "group_size": "2", "pooled_size": "3"},
        [None, None, (2, 0, 3, 3)],
        [None, None],
    ),
    "probabilities without an axis": ("_sample_multinomial", {}, [()], [None]),
    "the length of a row as a number": ("softmax", {"use_length": "True"}, [(3,), ()], [None]),
}


@pytest.mark.parametrize("case", FOUND)
def test_shapes_without_axes_and_empty_ones_are_answered_or_refused(case: str):
    name, params, ins, outs = FOUND[case]
    attrs = NodeAttrs(Op.get(name), "op", params)
    attrs.parse()
    with contextlib.suppress(NNVMError):
        inputs, outputs = FInferShape[Op.get(name)](attrs, ins, outs)
        assert (len(list(inputs)), len(list(outputs))) == (len(ins), len(outs))
