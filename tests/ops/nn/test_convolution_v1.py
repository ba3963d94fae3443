"""Convolution_v1: where it is not Convolution."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import pytest

from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError

DATA = sym.Variable("data")


def test_refusals_are_named():
    with pytest.raises(ParamError, match="1D convolution not supported, expected 2 or 3 sizes"):
        sym.Convolution_v1(DATA, kernel=(3,), num_filter=2)
    with pytest.raises(ParamError, match="layout"):
        sym.Convolution_v1(DATA, kernel=(3, 3), num_filter=2, layout="NCW")
    with pytest.raises(ParamError, match="num_group"):
        sym.Convolution_v1(DATA, kernel=(3, 3), num_filter=3, num_group=2)
    with pytest.raises(InferenceError, match="kernel size exceed input"):
        sym.Convolution_v1(DATA, kernel=(7, 2), num_filter=3).infer_shape(data=(1, 2, 5, 6))


def test_inference():
    net = sym.Convolution_v1(DATA, kernel=(3, 2), num_filter=4, num_group=2, name="conv")
    assert net.infer_shape(data=(1, 6, 5, 5)) == ([(1, 6, 5, 5), (4, 3, 3, 2), (4,)], [(1, 4, 3, 4)], [])
    assert net.list_arguments() == ["data", "conv_weight", "conv_bias"]
