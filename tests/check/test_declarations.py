"""What operators declare about themselves agrees with the rules that run them."""

from __future__ import annotations

from lowering.registry import FLowering
from symjax_nnvm.check.deviations import DEVIATIONS
from symjax_nnvm.check.draws import DRAWS
from symjax_nnvm.ir.node import NodeAttrs
from symjax_nnvm.ir.op import FDraws, Op, list_unique_ops
from tests.cases import Case, families

CASES: dict[Op, list[Case]] = {}
for _cases in families().values():
    for _case in _cases:
        CASES.setdefault(Op.get(_case.op), []).append(_case)


def parsed(case: Case) -> NodeAttrs:
    attrs = NodeAttrs(Op.get(case.op), "", {key: str(value) for key, value in case.params.items()})
    attrs.parse()
    return attrs


def test_an_operator_draws_when_its_rule_needs_a_key():
    drawing = [
        op.name
        for op in list_unique_ops()
        if op in FLowering and "key" in FLowering[op].needs and "programs" not in FLowering[op].needs
    ]
    ours = ("_backward_", "_test_", "Custom:")  # and those of other tests
    assert {name for name in drawing if not name.startswith(ours)} == set(DRAWS)


def test_when_it_draws_is_when_the_rule_draws():
    for name in DRAWS:
        op = Op.get(name)
        for case in CASES[op]:
            attrs = parsed(case)
            draws = FLowering[op].draws or (lambda p, is_train: True)
            when = "always" if draws(attrs.parsed, False) else "training" if draws(attrs.parsed, True) else None
            assert FDraws[op](attrs) == when, case.id


def test_every_condition_of_a_deviation_reads_the_operators_parameters():
    for row in DEVIATIONS:
        verdicts = [row.when(parsed(case).parsed) for case in CASES[Op.get(row.op)] if row.when is not None]
        if row.when is not None:
            assert all(isinstance(verdict, bool) for verdict in verdicts)
            assert False in verdicts, row


def test_deviations_are_in_the_operators_descriptions_or_cases():
    for row in DEVIATIONS:
        op = Op.get(row.op)
        told = "MXNet" in op.description or any(case.no_mxnet for case in CASES[op])
        assert told, row
