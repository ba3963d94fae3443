"""`symjax-nnvm convert m out.onnx`, `verify m.onnx --against m`, `check m --target onnx`."""

import json
from pathlib import Path

import onnx
import pytest

import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.cli import main

SHAPE = ["--shape", "data=batch,1,8,8"]


def test_a_model_is_converted_and_verified(net: Path, capsys: pytest.CaptureFixture[str]):
    out = str(net.with_name("new") / "net.onnx")
    assert main(["convert", str(net), out, *SHAPE]) == 0
    assert "input data  float32 (batch, 1, 8, 8)\noutput softmax_output  float32 (batch, 3)" in capsys.readouterr().out
    assert main(["verify", out, "--against", str(net)]) == 0
    assert "agrees" in capsys.readouterr().out
    assert main(["verify", out, "--against", str(net), "--shape", "data=5,1,8,8", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["output"], row["shape"]) == ("softmax_output", [5, 3])
    assert row["difference"] < 1e-5


@pytest.mark.slow("runs the command")
def test_a_model_is_converted_as_the_options_say(net: Path, capsys: pytest.CaptureFixture[str]):
    out = net.with_name("half.onnx")
    assert main(["convert", str(net), str(out), *SHAPE, "--float16", "--fold-batch-norm", "--opset", "20"]) == 0
    model = onnx.load(out)
    assert (model.opset_import[0].version, "BatchNormalization" in {node.op_type for node in model.graph.node}) == (
        20,
        0,
    )
    assert main(["verify", str(out), "--against", str(net), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out.partition("\n{")[2].join(("{", "")))["rows"]
    assert 1e-6 < row["difference"] < 1e-2


def test_another_model_differs(net: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["convert", str(net), f"{net}.onnx", *SHAPE]) == 0
    symbol, args, aux = nn.load_checkpoint(net, 3)
    nn.save_checkpoint(
        net.with_name("other"), 0, symbol, {**args, "fc_bias": args["fc_bias"] + 1e-3 * args["fc_weight"][:, 0]}, aux
    )
    assert main(["verify", f"{net}.onnx", "--against", str(net.with_name("other"))]) == 1
    assert "DIFFERS" in capsys.readouterr().out


def test_the_two_models_may_be_exchanged(net: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["convert", str(net), f"{net}.onnx", *SHAPE]) == 0
    assert main(["verify", str(net), "--against", f"{net}.onnx"]) == 0
    assert "agrees" in capsys.readouterr().out
    assert main(["verify", str(net), "--against", str(net)]) == 2
    assert "verify MODEL.onnx --against MODEL" in capsys.readouterr().err


def test_what_is_no_model_of_onnx_takes_no_names(net: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["convert", str(net), f"{net}.mlir", *SHAPE]) == 2
    assert "sizes have names in ONNX files" in capsys.readouterr().err
    assert main(["convert", str(net), f"{net}.onnx"]) == 2
    assert "shape of the input 'data'" in capsys.readouterr().err


def test_a_check_says_what_is_in_the_way(net: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["check", str(net), "--target", "onnx", *SHAPE]) == 0
    assert "No problem" in capsys.readouterr().out
    sym.CTCLoss(sym.Variable("x"), sym.Variable("y"), name="ctc").save(net.with_name("ctc-symbol.json"))
    assert main(["check", str(net.with_name("ctc")), "--target", "onnx"]) == 1
    out = capsys.readouterr().out
    assert "no ONNX form" in out
    assert "symjax_nnvm.cut" in out


def test_an_onnx_file_is_a_model(net: Path, capsys: pytest.CaptureFixture[str]):
    """Its way back to MXNet's files, and what looks at models."""
    out, back = f"{net}.onnx", net.with_name("back")
    assert main(["convert", str(net), out, *SHAPE]) == 0
    assert main(["convert", out, str(back)]) == 0
    symbol, args, aux = nn.load_checkpoint(back, 0)
    _, first, states = nn.load_checkpoint(net, 3)
    assert symbol.list_outputs() == ["softmax_output"]
    assert aux.keys() == states.keys()
    assert (args["fc_weight"] == first["fc_weight"]).all()
    assert main(["verify", out, "--against", str(back)]) == 0
    assert "agrees" in capsys.readouterr().out
    for command in (["inspect", out], ["check", out, "--shape", "data=2,1,8,8"]):
        assert main(command) == 0
    assert "Convolution" in capsys.readouterr().out


def test_a_malformed_onnx_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "net.onnx").write_bytes(b"\x08\x08")
    assert main(["inspect", str(tmp_path / "net.onnx")]) != 0
    assert "net.onnx is not an ONNX model" in capsys.readouterr().err
