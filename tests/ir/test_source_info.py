"""Nodes remember the line that made them, where that is asked for, and errors say it."""

import inspect

import pytest

import lowering
import symjax_nnvm as nn
from lowering import mx
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError


def line() -> int:
    """The number of the line that calls this."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_nothing_is_remembered_unless_it_is_asked_for():
    assert sym.exp(sym.Variable("x")).outputs[0].node.attrs.source is None


def test_nodes_say_the_line_of_the_caller():
    with nn.source_info():
        x = sym.Variable("x")
        made = [sym.exp(x), x + x, mx.sym.exp(x)]
    assert [one.outputs[0].node.attrs.source for one in made] == [f"{__file__}:{line() - 1}"] * 3
    assert x.outputs[0].node.attrs.source == f"{__file__}:{line() - 3}"


@pytest.mark.slow("compiles")
def test_errors_say_it_and_so_does_what_passes_made():
    with nn.source_info():
        net = sym.Convolution(sym.Variable("data"), num_filter=2, kernel=(9, 9), name="conv")
    where = f"made at {__file__}:{line() - 1}"
    with pytest.raises(InferenceError, match=where):
        net.infer_shape(data=(1, 1, 4, 4))
    with pytest.raises(InferenceError, match=where):
        lowering.Predictor(net, *[{"conv_weight": [[[[0.0] * 9] * 9]] * 2, "conv_bias": [0.0] * 2}])(data=[[[[0.0]]]])


def test_files_do_not_keep_it():
    with nn.source_info():
        net = sym.exp(sym.Variable("x"))
    assert "test_source_info" not in net.tojson()
