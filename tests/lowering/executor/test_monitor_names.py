"""What a monitor calls inputs and outputs: as MXNet 1.9.1's does (tests/goldens/monitor.json)."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowering
from lowering.core.cache import Programs
from lowering.executor.gradient_names import Place
from lowering.executor.jitted_functions import ExecutorFunctions
from symjax_nnvm import symbol as sym
from symjax_nnvm.pipeline import Options
from tests.cases import Case
from tests.support.ladder import all_cases, build

GOLDEN: dict[str, dict[str, object]] = json.loads((Path(__file__).parents[2] / "goldens" / "monitor.json").read_text())

HIDDEN_OUTPUTS = {
    "IdentityAttachKLSparseReg": "the average that its gradient reads is an output here",
    "InstanceNorm": "keeps the deviation, op_std, where MXNet keeps the variance, op_var",
    "_contrib_hawkesll": "keeps what its gradient reads",
    "Pooling": "oneDNN's workspace",
    "_contrib_BatchNormWithReLU": "oneDNN's workspace",
}
"""Operators whose hidden outputs are not MXNet's, and why; the other names are compared."""


def seen(case: Case, visible: bool) -> list[str]:
    """The names that a monitor of the case sees, in order."""
    symbol = build(case)
    functions = ExecutorFunctions(Programs(symbol), Options(is_train=True, wrt=()))
    shown = len(symbol.list_outputs()) if visible else math.inf
    names: list[str] = []
    for called, value in functions.calls(forward=True):
        assert isinstance(value, Place)
        names += called if value.of_input or value.place < shown else ()
    return names


@pytest.mark.slow("computes much")
def test_inputs_and_outputs_of_every_operator_have_mxnets_names():
    wrong: dict[str, object] = {}
    cases = {case.id: case for _, case in all_cases()}
    for op, row in GOLDEN.items():
        case = cases[str(row["case"])]
        ours, theirs = seen(case, op in HIDDEN_OUTPUTS), row["names"]
        assert isinstance(theirs, list)
        if ours != (theirs[: len(ours)] if op in HIDDEN_OUTPUTS else theirs):
            wrong[op] = (ours, theirs)
    assert not wrong
    assert len(GOLDEN) > 300


def test_inputs_that_mxnet_does_not_name_are_numbered():
    x = sym.Variable("x")
    net = sym.SoftmaxActivation(sym.Activation(x, act_type="tanh", name="act") * 2.0, name="softmax")
    executor = lowering.simple_bind(net, grad_req="null", x=(2, 3))
    called: dict[str, Any] = {}
    executor.set_monitor_callback(called.__setitem__, monitor_all=True)
    executor.forward(x=np.ones((2, 3), np.float32))
    assert [name for name in called if "scalar" not in name] == [
        "x",
        "act_input0",
        "act_output",
        "softmax_input0",
        "softmax_output",
    ]
    np.testing.assert_allclose(called["softmax_input0"], 2 * np.tanh(np.ones((2, 3))), rtol=1e-6)


def test_loops_are_monitored_where_mxnets_monitor_fails():
    sums, last = sym.contrib.foreach(lambda a, b: (a + b, a + b), sym.Variable("x"), sym.Variable("s"))
    loop = sums.name
    executor = lowering.simple_bind(sym.Group([sums, last]), grad_req="null", x=(3, 2), s=(2,))
    called: list[str] = []
    executor.set_monitor_callback(lambda name, array: called.append(name), monitor_all=True)
    executor.forward()
    assert called == ["x", f"{loop}_data0", "s", f"{loop}_data1", f"{loop}_output0", f"{loop}_output1"]


def test_gradients_have_mxnets_names():
    """As MXNet 1.9.1 tells them: one for each input of an operator, none of what is computed within one."""
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc1")
    net = sym.softmax(sym.LeakyReLU(net, act_type="prelu", name="act"), name="probabilities")
    net = sym.LinearRegressionOutput(sym.Embedding(sym.round(net), input_dim=4, output_dim=2, name="emb"), name="loss")
    executor = lowering.simple_bind(net, data=(2, 4))
    called: dict[str, Any] = {}
    executor.set_monitor_callback(called.__setitem__)
    executor.forward(is_train=True)
    called.clear()
    executor.backward()
    names = ["loss_backward_output0", "loss_backward_output1", "emb_backward_output1"]
    assert [name for name in called if name.startswith(("loss", "emb"))] == names
    assert called["emb_backward_output1"].shape == (4, 2)


def test_gradients_that_nothing_asks_for_are_told_as_zeros():
    net = sym.SoftmaxOutput(sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc"), name="softmax")
    requests = {name: "write" if name.startswith("fc") else "null" for name in net.list_arguments()}
    executor = lowering.simple_bind(net, grad_req=requests, data=(2, 4))
    called: dict[str, Any] = {}
    executor.forward(is_train=True)
    executor.set_monitor_callback(called.__setitem__)
    executor.backward()
    assert sorted(called) == [
        *("fc_backward_output0", "fc_backward_output1", "fc_backward_output2"),
        *("softmax_backward_output0", "softmax_backward_output1"),
    ]
    for name, shape in (("softmax_backward_output1", (2,)), ("fc_backward_output0", (2, 4))):
        np.testing.assert_array_equal(called[name], np.zeros(shape))
