"""`symjax-nnvm inspect`, and the summary behind it."""

import json
from pathlib import Path

import pytest

import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.cli import main


def test_a_table_of_layers_with_totals(net: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["inspect", str(net), "--shape", "data=2,1,8,8"]) == 0
    out, err = capsys.readouterr()
    rows = {line.split()[0]: line.split() for line in out.splitlines()[2:8]}
    assert list(rows) == ["conv", "bn", "relu", "pool", "fc", "softmax"]
    assert rows["conv"][1:] == ["Convolution", "(2,", "4,", "6,", "6)", "40", "2,592", "5,472"]
    assert "parameters: 159, elements of auxiliary states: 8" in out
    assert "net-0003.params" in err


def test_json_says_the_same(net: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["inspect", f"{net}-symbol.json", "--shape", "data=2,1,8,8", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["parameters"] == sum(layer["parameters"] for layer in report["layers"]) == 159
    assert report["inputs"] == {"data": [2, 1, 8, 8], "softmax_label": [2]}
    assert report["flops"] == sum(layer["flops"] for layer in report["layers"])


def test_without_shapes_it_says_which_are_missing(net: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["inspect", str(net)]) == 0
    out = capsys.readouterr().out
    assert "some shapes are unknown: give those of data" in out
    assert "MACs," not in out


def test_parameters_are_told_from_inputs_without_a_file():
    x, state = sym.Variable("x"), sym.Variable("h")
    rnn = sym.RNN(x, sym.Variable("w"), state, state_size=3, num_layers=1, mode="rnn_tanh", name="rnn")
    summary = nn.summarize(sym.FullyConnected(rnn, num_hidden=2, name="fc"), {"x": (4, 2, 5)})
    assert sorted(summary.inputs) == ["h", "x"]
    assert summary.parameters == 3 * 5 + 3 * 3 + 2 * 3 + 4 * 0 + 2 * 6 + 2


def test_a_shared_parameter_counts_once():
    weight = sym.Variable("w")
    first = sym.FullyConnected(sym.Variable("x"), weight, num_hidden=4, no_bias=True, name="a")
    summary = nn.summarize(sym.FullyConnected(first, weight, num_hidden=4, no_bias=True, name="b"), {"x": (1, 4)})
    assert [layer.parameters for layer in summary.layers] == [16, 0]


def test_names_cannot_command_the_terminal(capsys: pytest.CaptureFixture[str]):
    nn.print_summary(sym.relu(sym.Variable("x"), name="\x1b[31mred\nline"), {"x": (1,)})
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\\x1b[31mred\\nline" in out


def test_stages_are_printed_and_left_out(net: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["inspect", str(net), "--stages", "--without", "EliminateCommonExpr", "--json"]) == 0
    plans = json.loads(capsys.readouterr().out)
    ran = {purpose: [row["stage"] for row in plan if row["ran"]] for purpose, plan in plans.items()}
    assert ran == {
        "inference": ["SimplifyInference", "HoistInvariants"],
        "prediction": ["SimplifyInference", "FoldScaleAxis", "HoistInvariants", "PrecomputePrune"],
        "training": ["HoistInvariants", "MXGradient"],
    }
    assert main(["inspect", str(net), "--without", "EliminateCommonExpr"]) == 0
    assert capsys.readouterr().out.count("left out") == len(plans)
