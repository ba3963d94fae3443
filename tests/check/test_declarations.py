"""What operators declare about themselves agrees with the rules that run them."""

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import lowering
from lowering.core.rules import FLowering
from symjax_nnvm import pipeline
from symjax_nnvm.ir.attributes import (
    FCorrectLayout,
    FDeviation,
    FDraws,
    FFlops,
    FSamples,
    THasDeterministicOutput,
    TUncounted,
)
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, altered
from symjax_nnvm.ir.op import Op, list_unique_ops
from symjax_nnvm.ir.register import Deviations
from symjax_nnvm.ir.rules.layout_rules import AGNOSTIC, ChannelsLast, Corrected
from symjax_nnvm.symbol.symbol import Symbol
from tests.cases import Case, families
from tests.support import ladder
from tests.support.traced import evaluated
from tests.support.walk import Walk, first, rung

CASES: dict[Op, list[Case]] = {}
for _cases in families().values():
    for _case in _cases:
        CASES.setdefault(Op.get(_case.op), []).append(_case)


def parsed(case: Case) -> NodeAttrs:
    if case.graph is not None:  # whose parameters are those of its node
        nodes = Graph(ladder.build(case).outputs).nodes()
        return next(node.attrs for node in nodes if node.op is Op.get(case.op))
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


def test_only_rules_that_need_values_ask_whether_they_have_them():
    """Others would compute one thing inside jit and another outside, for parameters that no case has."""
    asks = re.compile(r"Tracer|[Cc]oncret|is_traced|trace_state_clean|\bis_constant\b")
    folder = Path(lowering.__file__).parent
    files = [*folder.glob("ops/**/*.py"), *folder.glob("convolutions/**/*.py"), folder / "norms.py"]
    found = {str(path.relative_to(folder)) for path in files if asks.search(path.read_text(encoding="utf-8"))}
    assert len(files) > 100
    of_values = {"ops/control/constraint_check.py", "ops/indexing/boolean_mask.py"}
    assert found == of_values | {"ops/control/flow.py"}  # loops that run Python step by step


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


def _corrected(case: Case) -> Corrected | None:
    """What the operator of a case says of channels last, if its data have an axis to be moved."""
    node = ladder.build(case).outputs[0].node
    if node.op not in FCorrectLayout or not case.inputs or len(case.inputs[0].shape) < 3:
        return None
    return FCorrectLayout[node.op](node.attrs.parsed, ChannelsLast(len(case.inputs[0].shape)))


def _is_movable(case: Case) -> bool:
    corrected = _corrected(case)
    return corrected is not None and len({len(t.shape) for t in case.inputs[: corrected.inputs]}) == 1


@rung(first(_is_movable, 4))
def an_operator_with_channels_last_gives_what_it_gave(walk: Walk):
    case, net = walk.case, walk.symbol
    args, aux, _ = walk.given
    node, corrected = net.outputs[0].node, _corrected(case)
    assert corrected is not None
    order = ChannelsLast(len(case.inputs[0].shape))
    moved = Symbol(
        NodeEntry(Node(altered(node.attrs, **corrected.params), list(node.inputs)), e.index) for e in net.outputs
    )
    turned = {e.node.name for e in node.inputs[: corrected.inputs]}
    with pipeline.without("AlterOpLayout"):
        straight, _ = evaluated(lowering.to_jax(net, is_train=False), args, aux, None)
        inputs = {name: value.transpose(order.forth) if name in turned else value for name, value in args.items()}
        results, _ = evaluated(lowering.to_jax(moved, is_train=False), inputs, aux, None)
    last = len(results) if corrected.outputs is None else corrected.outputs
    for i, (one, other) in enumerate(zip(straight, results, strict=True)):
        back = other.transpose(order.back) if i < last else other
        np.testing.assert_allclose(np.asarray(back, np.float64), np.asarray(one, np.float64), rtol=1e-3, atol=1e-6)


def _split(case: Case) -> list[int]:
    """The numbers of the inputs that hold samples, if the operator of a case does not mix them; of those with two."""
    net = ladder.build(case)
    node = net.outputs[0].node
    shapes = [t.shape for t in case.inputs]
    if node.op not in FSamples or not shapes or len(shapes[0]) < 2 or shapes[0][0] < 2:
        return []
    outs = net.infer_shape(**dict(zip(net.list_inputs(), shapes, strict=False)))[1]
    if any(out[:1] != shapes[0][:1] for out in outs) or not FSamples[node.op](node.attrs, shapes, outs):
        return []
    assert node.op is not None
    alike = FCorrectLayout.get(node.op) is AGNOSTIC or node.op.key_var_num_args is not None
    return [i for i, shape in enumerate(shapes) if i == 0 or (alike and shape[:1] == shapes[0][:1])]


@rung(first(_split, 3), one_in=3)
def an_operator_that_does_not_mix_samples_gives_parts_for_parts(walk: Walk):
    case, net = walk.case, walk.symbol
    args, aux, _ = walk.given
    names = [net.list_inputs()[i] for i in _split(case)]
    run = partial(evaluated, lowering.to_jax(net, is_train=False))
    whole = run(args, aux, None)[0]
    size = case.inputs[0].shape[0]
    if any(args[name].shape[0] != size for name in names):
        pytest.skip("operands are broadcast along samples")
    if case.params.get("shape", (0,))[0] == size:
        pytest.skip("the result's shape holds the batch")
    parts = [run({**args, **{name: args[name][i : i + 1] for name in names}}, aux, None)[0] for i in range(size)]
    for i, one in enumerate(whole):
        joined = np.concatenate([np.asarray(part[i], np.float64) for part in parts])
        np.testing.assert_allclose(joined, np.asarray(one, np.float64), rtol=1e-3, atol=1e-6)


def test_operators_around_convolutions_can_have_channels_last():
    known = {op.name for op in list_unique_ops() if op in FCorrectLayout}
    assert {"Pooling", "BatchNorm", "Concat", "Activation", "elemwise_add", "Deconvolution", "mean", "softmax"} <= known
