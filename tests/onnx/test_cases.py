"""Every operator case of the one table as an ONNX model in onnxruntime: MXNet 1.9.1's results.

Cases without MXNet's are compared with our own, where these are compiled anyway: a rung of `tests/ops/test_ladder.py`.
"""

from __future__ import annotations

import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as states  # pyright: ignore[reportAttributeAccessIssue]

from symjax_nnvm.errors import OnnxError
from symjax_nnvm.ir.attributes import TMadeBy
from symjax_nnvm.ir.op import Op, list_unique_ops
from symjax_nnvm.onnx.forms import FOnnx
from symjax_nnvm.onnx.writer import form_of
from tests.cases import Case
from tests.onnx.not_run import NO_FORM, NOT_RUN, has_form, has_no_file, is_empty, why_not_run
from tests.onnx.runtime import exported, run
from tests.support import ladder
from tests.support.comparison import assert_close

CASES = ladder.all_cases()
OPERATORS = [op for op in list_unique_ops() if not op.name.startswith(("_test_", "Custom:"))]
REFUSALS = (
    RuntimeError,
    states.RuntimeException,
    states.Fail,
    states.InvalidArgument,
    states.InvalidGraph,
    states.NotImplemented,
)
"""What onnxruntime raises of a model that it cannot run."""

written = [(family, case) for family, case in CASES if has_form(case) and not has_no_file(case)]


def test_every_operator_has_a_form_or_a_reason():
    assert [op.name for op in OPERATORS if op not in FOnnx and op not in TMadeBy] == []
    assert [op.name for op in OPERATORS if form_of(op).form is None and not form_of(op).reason] == []


def test_the_lists_name_cases():
    ids = {case.id for _, case in written}
    assert [name for name in (*NOT_RUN, *NO_FORM) if name not in ids] == []


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    ("family", "case"),
    [pytest.param(f, c, id=c.id) for f, c in written if not c.no_mxnet or why_not_run(c) or c.id in NO_FORM],
)
def test_onnxruntime_computes_what_mxnet_does(family: str, case: Case):
    if case.id in NO_FORM:
        with pytest.raises(OnnxError, match="No ONNX form"):
            exported(case)
        return
    model, inputs = exported(case)
    if why_not_run(case):
        with pytest.raises(REFUSALS):
            run(model, inputs)
        return
    stored = ladder.golden(family, case)
    outputs = run(model, inputs)
    assert [output for output in stored if output.startswith("out")] == [f"out{i}" for i in range(len(outputs))]
    for i, output in enumerate(outputs):
        assert_close(output, stored[f"out{i}"], case.rtol, f"output {i}")
        assert output.dtype == stored[f"out{i}"].dtype


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for _, c in CASES if not has_form(c) and not is_empty(c)])
def test_a_refusal_says_why(case: Case):
    with pytest.raises(OnnxError) as caught:
        exported(case)
    assert form_of(Op.get(case.op)).reason in str(caught.value)
