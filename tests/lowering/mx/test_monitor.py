"""`mx.mon.Monitor` of modules tells the arrays that MXNet's tells, under its names and in its order."""

import json
from pathlib import Path

import pytest

from lowering import mx
from tests.lowering.mx.monitors import MONITORS, told

THEIRS = json.loads((Path(__file__).parents[2] / "goldens" / "module_monitor.json").read_text())

ONEDNN = {"pool_workspace", "zeros_without_dtype_output"}
"""What the pooling of oneDNN, which MXNet runs on a CPU, keeps for its gradient."""


def without_gradients_inputs(names: list[str]) -> list[str]:
    """The names without those of the inputs of gradients; a variable among them has its own name before."""
    kept: list[str] = []
    kinds = ("data", "label", "weight", "bias", "gamma", "beta", "moving_mean", "moving_var")
    for name in names:
        if "_backward_input" not in name:
            kept.append(name)
        elif kept[-1].endswith(kinds):
            kept.pop()
    return kept


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", MONITORS)
def test_arrays_are_mxnets(name: str):
    theirs = [[called for called in batch if called not in ONEDNN] for batch in THEIRS[name]]
    ours = told(mx, name)
    if MONITORS[name][2]["monitor_all"]:
        theirs, ours = ([without_gradients_inputs(batch) for batch in side] for side in (theirs, ours))
    assert ours == theirs


@pytest.mark.slow("computes much")
def test_the_statistic_is_right_near_the_ends_of_the_range():
    for scale, dtype in ((3e4, "float16"), (1e20, "float32"), (1e-25, "float32")):
        (statistic,) = mx.mon.Monitor(1).stat_func(mx.nd.full((4,), scale, dtype=dtype)).asnumpy()
        assert statistic == pytest.approx(scale, rel=1e-3)


def test_inputs_of_gradients_are_mxnets_where_both_read_the_same():
    """All of the perceptron but the weight of the first layer, by which no gradient of the data is asked for."""
    ours, theirs = told(mx, "mlp, all")[0], list(THEIRS["mlp, all"][0])
    at = theirs.index("fc1_backward_input2")
    assert ours == theirs[: at - 1] + theirs[at + 1 :]


def test_a_statistic_is_told_with_the_digits_of_its_dtype():
    ex = mx.sym.Activation(mx.sym.Variable("data"), act_type="relu", name="act").simple_bind(mx.cpu(), data=(1,))
    monitor = mx.mon.Monitor(1, stat_func=lambda x: x)
    monitor.install(ex)
    monitor.tic()
    ex.forward(data=mx.nd.array([0.8750305]))
    assert {name: text for _, name, text in monitor.toc()}["act_output"] == "0.8750305\t"
