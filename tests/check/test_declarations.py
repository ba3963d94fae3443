"""What operators declare about themselves agrees with the rules that run them."""

from __future__ import annotations

import numpy as np
import pytest

import lowering
from lowering.registry import FLowering
from symjax_nnvm.ir.attributes import FDeviation, FDraws, THasDeterministicOutput
from symjax_nnvm.ir.card import Deviations, FFlops, FLayout, TUncounted
from symjax_nnvm.ir.node import NodeAttrs
from symjax_nnvm.ir.op import Op, list_unique_ops
from tests import ladder
from tests.cases import Case, families

CASES: dict[Op, list[Case]] = {}
for _cases in families().values():
    for _case in _cases:
        CASES.setdefault(Op.get(_case.op), []).append(_case)


def parsed(case: Case) -> NodeAttrs:
    attrs = NodeAttrs(Op.get(case.op), "", {key: str(value) for key, value in case.params.items()})
    attrs.parse()
    return attrs


OURS = [op for op in list_unique_ops() if not op.name.startswith(("_test_", "Custom:"))]  # not those of other tests
DEVIATIONS = [(op, row) for op in OURS if isinstance(found := FDeviation.get(op), Deviations) for row in found]


def test_a_rule_gets_a_key_where_the_card_says_that_the_operator_draws():
    with_key = {op.name for op in OURS if op in FLowering and "key" in FLowering[op].needs}
    holding_programs = {op.name for op in OURS if op in FLowering and "programs" in FLowering[op].needs}
    assert with_key - holding_programs == {op.name for op in OURS if op in FDraws}


def test_the_rule_draws_when_the_card_says_so():
    drawing = [op for op in CASES if op in FDraws]
    assert len(drawing) > 20
    for op in drawing:
        draws = FLowering[op].draws
        assert draws is not None
        for case in CASES[op]:
            attrs = parsed(case)
            when = "always" if draws(attrs.parsed, False) else "training" if draws(attrs.parsed, True) else None
            assert FDraws[op](attrs) == when, case.id


def test_what_draws_is_never_merged():
    assert [op.name for op in OURS if op in FDraws and THasDeterministicOutput.get(op, True)] == []


def test_every_condition_of_a_deviation_reads_the_operators_parameters():
    for op, row in DEVIATIONS:
        verdicts = [row.when(parsed(case).parsed) for case in CASES[op] if row.when is not None]
        if row.when is not None:
            assert all(isinstance(verdict, bool) for verdict in verdicts)
            assert False in verdicts, row


def test_deviations_are_in_the_operators_descriptions_or_cases():
    assert len(DEVIATIONS) > 30
    for op, row in DEVIATIONS:
        told = "MXNet" in op.description or any(case.no_mxnet for case in CASES[op])
        assert told, row


def test_every_operator_is_counted_or_says_why_not():
    public = [op for op in OURS if not op.name.startswith("_backward_") and op.name != "Custom"]
    assert [op.name for op in public if (op in FFlops) == (op in TUncounted)] == []


def _layout(op: Op, case: Case) -> str | None:
    node = ladder.build(case).outputs[0].node
    return FLayout[op](node.attrs) if op in FLayout and node.op is op else None


def _agnostic_cases() -> list[Case]:
    """One of each operator that says so, of inputs with an order of axes that can be turned round."""
    found = {}
    for op, cases in CASES.items():
        for case in cases:
            ranks = {len(tensor.shape) for tensor in case.inputs}
            if op not in found and _layout(op, case) == "agnostic" and len(ranks) == 1 and max(ranks) > 1:
                found[op] = case
    return list(found.values())


@pytest.mark.parametrize("case", _agnostic_cases(), ids=lambda case: case.id)
def test_an_operator_of_any_layout_gives_turned_results_for_turned_inputs(case: Case):
    net = ladder.build(case)
    args, aux = ladder.arrays(case, net)
    run = lowering.to_jax(net, is_train=False)
    straight, _ = run(args, aux, None)
    turned, _ = run({name: value.T for name, value in args.items()}, aux, None)
    for one, other in zip(straight, turned, strict=True):
        np.testing.assert_allclose(np.asarray(other, np.float64), np.asarray(one, np.float64).T, rtol=1e-3)


def test_an_operator_with_an_axis_or_a_layout_has_the_parameter_that_says_it():
    parameters = {"axis": {"axis", "axes", "dim", "dim1"}, "parameter": {"layout"}}
    seen = set()
    for op, cases in CASES.items():
        for layout in {str(_layout(op, case)) for case in cases} & parameters.keys():
            seen.add(layout)
            assert op.params is not None
            assert parameters[layout] & op.params.fields.keys(), op
    assert seen == parameters.keys()
