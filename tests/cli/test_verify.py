"""`symjax-nnvm verify`: gradients of a real model."""

import json
from pathlib import Path

import pytest

from lowering.core.rules import lowers
from symjax_nnvm import symbol as sym
from symjax_nnvm.cli import main
from symjax_nnvm.ir.register import register_op, same_shape

SHAPE = ["--shape", "data=2,1,8,8"]

register_op(
    "_test_cli_wrong",
    infer_shape=same_shape,
    gradient=lambda node, ograds: [ograds[0]],
    doc="Twice its input, with the gradient of once.",
)
lowers("_test_cli_wrong")(lambda p, x: 2 * x)


@pytest.mark.slow("computes much")
def test_every_parameter_is_compared(net: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["verify", str(net), *SHAPE]) == 0
    out = capsys.readouterr().out
    verdicts = {line.split()[0] for line in out.splitlines() if line.endswith("agrees")}
    assert verdicts == {"data", "conv_weight", "conv_bias", "bn_gamma", "bn_beta", "fc_weight", "fc_bias"}


@pytest.mark.slow("computes much")
def test_a_large_model_is_projected(net: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["verify", str(net), *SHAPE, "--directions", "2", "--wrt", "fc_weight,conv_weight", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"]
    assert (len(report["rows"]), report["arguments"], report["elements"]) == (2, 2, 3 * 36 + 4 * 9)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("how", [["--full"], ["--directions", "2"]])
def test_a_wrong_gradient_exits_with_1(tmp_path: Path, how: list[str], capsys: pytest.CaptureFixture[str]):
    symbol = sym._test_cli_wrong(sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc"))
    symbol.save(tmp_path / "wrong-symbol.json")
    command = ["verify", str(tmp_path / "wrong"), "--shape", "data=2,4", "--random-params", *how]
    assert main(command) == 1
    assert "DIFFERS" in capsys.readouterr().out
    assert main([*command, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False
