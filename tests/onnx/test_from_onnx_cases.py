"""Every operator case of the one table, written as an ONNX model, read, and written again: the same results.

Both models run in onnxruntime, which costs no compilation; that the first has MXNet's results `test_cases.py` says.
"""

from __future__ import annotations

import numpy as np
import pytest

import symjax_nnvm as nn
from symjax_nnvm.errors import OnnxError
from tests.cases import Case
from tests.onnx.not_back import NOT_BACK
from tests.onnx.not_run import NO_FORM, has_form, has_no_file, why_not_run
from tests.onnx.runtime import again, exported, run
from tests.support import ladder
from tests.support.comparison import assert_close

OPERATORS: dict[str, list[Case]] = {}
for _, _case in ladder.all_cases():
    if has_form(_case) and not has_no_file(_case) and _case.id not in NO_FORM and not why_not_run(_case):
        OPERATORS.setdefault(_case.op, []).append(_case)


def test_the_list_names_cases():
    ids = {case.id for cases in OPERATORS.values() for case in cases}
    assert [name for name in NOT_BACK if name not in ids] == []


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("op", OPERATORS)
def test_a_case_comes_back(op: str):
    for case in OPERATORS[op]:
        model, inputs = exported(case)
        if case.id in NOT_BACK:
            with pytest.raises(OnnxError) as caught:
                nn.from_onnx(model)
            assert NOT_BACK[case.id] in str(caught.value)
            continue
        expected, found = run(model, inputs), run(again(model, inputs), inputs)
        for i, (output, other) in enumerate(zip(found, expected, strict=True)):
            assert_close(output, other, 1e-6, f"output {i} of {case.id}")
            assert np.asarray(output).dtype == np.asarray(other).dtype, f"output {i} of {case.id}"
