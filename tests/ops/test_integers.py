"""Operators of floating-point data refuse integers, in words that name the operator and the node."""

import pytest

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.op import Op
from tests.support import ladder

REFUSE = {
    *("Activation", "BatchNorm", "BilinearSampler", "Convolution", "Deconvolution", "Dropout", "L2Normalization"),
    *("LRN", "LeakyReLU", "Pooling", "RNN", "UpSampling", "_adamw_update", "_contrib_box_nms", "_random_pdf_poisson"),
    *("mp_sgd_update", "sgd_update"),
}
"""Some of them, which must be among those that refuse."""

_FLOATS = [case for _, case in ladder.all_cases() if case.inputs and case.inputs[0].dtype.startswith("float")]
FIRST = {Op.get(case.op).name: case for case in reversed(_FLOATS)}


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_integers_are_taken_or_refused_by_name(dtype: str):
    refused: dict[str, str] = {}
    for name, case in FIRST.items():
        try:
            ladder.build(case).infer_type_partial(in0=dtype)
        except InferenceError as error:
            refused[name] = str(error)
    floats = {name for name, text in refused.items() if "only support floating point types" in text}
    assert floats >= REFUSE
    assert len(floats) > 100
    assert [text for name, text in refused.items() if f"'{name}'" not in text or "'op'" not in text] == []
