"""Every operator case of the one table as an ONNX model in onnxruntime: MXNet 1.9.1's results, or where it has none our
own."""

import numpy as np
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as states  # pyright: ignore[reportAttributeAccessIssue]

from symjax_nnvm.errors import OnnxError
from symjax_nnvm.ir.attributes import TMadeBy
from symjax_nnvm.ir.op import Op, list_unique_ops
from symjax_nnvm.onnx.forms import FOnnx
from symjax_nnvm.onnx.writer import form_of
from tests.cases import Case
from tests.onnx.not_run import (
    A_LEVEL_OFF,
    NO_FORM,
    NOT_RUN,
    OVERFLOW,
    SUMS_OVERFLOW,
    has_form,
    has_no_file,
    is_empty,
    why_not_run,
)
from tests.onnx.runtime import exported, exported_once, ran_once, run
from tests.support import ladder
from tests.support.comparison import assert_close
from tests.support.walk import Walk, every, rung

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
    assert [name for name in (*NOT_RUN, *NO_FORM, *A_LEVEL_OFF, *OVERFLOW) if name not in ids] == []


def has_a_file(case: Case) -> bool:
    return has_form(case) and not has_no_file(case)


@rung(
    every(lambda case: has_a_file(case) and bool(not case.no_mxnet or why_not_run(case) or case.id in NO_FORM)),
    quick=True,
)
def onnxruntime_computes_what_mxnet_does(walk: Walk):
    case = walk.case
    if case.id in NO_FORM:
        with pytest.raises(OnnxError, match="No ONNX form"):
            exported(case)
        return
    if why_not_run(case):
        with pytest.raises(REFUSALS):
            run(*exported_once(walk))
        return
    outputs = ran_once(walk)
    if SUMS_OVERFLOW and case.id in OVERFLOW:
        return
    assert [name for name in walk.golden if name.startswith("out")] == [f"out{i}" for i in range(len(outputs))]
    for i, output in enumerate(outputs):
        is_level = case.id in A_LEVEL_OFF and output.dtype == np.uint8
        golden = walk.golden[f"out{i}"]
        assert_close(output, golden, 1 / golden.max() if is_level else case.rtol, f"output {i}")
        assert output.dtype == golden.dtype


@rung(every(lambda case: has_a_file(case) and bool(case.no_mxnet) and not (why_not_run(case) or case.id in NO_FORM)))
def an_onnx_file_computes_the_same(walk: Walk):
    for i, (found, output) in enumerate(zip(ran_once(walk), walk.values[0], strict=True)):
        step = 2**-10 if found.dtype == np.float16 else 1e-5  # sums of another order may end on the next number
        assert_close(found, output, max(walk.case.rtol, step), f"output {i}")


@rung(every(lambda case: not has_form(case) and not is_empty(case)), quick=True)
def a_refusal_of_onnx_says_why(walk: Walk):
    with pytest.raises(OnnxError) as caught:
        exported(walk.case)
    assert form_of(Op.get(walk.case.op)).reason in str(caught.value)
