"""Every operator case of the one table, written as an ONNX model, read, and written again: the same results.

Both models run in onnxruntime, which costs no compilation; that the first has MXNet's results `test_cases.py` says.
"""

import numpy as np

import symjax_nnvm as nn
from symjax_nnvm.errors import OnnxError
from tests.cases import Case
from tests.onnx.not_back import NOT_BACK
from tests.onnx.not_run import NO_FORM, OVERFLOW, SUMS_OVERFLOW, has_form, has_no_file, why_not_run
from tests.onnx.runtime import again, exported_once, ran_once, run
from tests.support import ladder
from tests.support.comparison import assert_close
from tests.support.refusals import refused
from tests.support.walk import Walk, every, rung


def comes_back(case: Case) -> bool:
    return has_form(case) and not has_no_file(case) and case.id not in NO_FORM and not why_not_run(case)


def test_the_list_names_cases():
    ids = {case.id for _, case in ladder.all_cases() if comes_back(case)}
    assert [name for name in NOT_BACK if name not in ids] == []


@rung(every(comes_back), one_in=2)
def an_onnx_file_comes_back(walk: Walk):
    model, inputs = exported_once(walk)
    if walk.case.id in NOT_BACK:
        with refused(OnnxError, NOT_BACK[walk.case.id]):
            nn.from_onnx(model)
        return
    if SUMS_OVERFLOW and walk.case.id in OVERFLOW:
        return
    for i, (output, other) in enumerate(zip(run(again(model, inputs), inputs), ran_once(walk), strict=True)):
        assert_close(output, other, 1e-6, f"output {i}")
        assert np.asarray(output).dtype == np.asarray(other).dtype, f"output {i}"
