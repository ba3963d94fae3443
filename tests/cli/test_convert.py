"""`symjax-nnvm convert`: the converted model is the same model."""

import json
import shutil
from pathlib import Path
from typing import Any

import jax
import jax.export
import numpy as np
import pytest

import symjax_nnvm as nn
from symjax_nnvm.cli import main
from tests.cli.conftest import FILES

SHAPE = ["--shape", "data=2,1,8,8"]


@pytest.mark.slow("runs the command")
def test_stablehlo_runs_without_this_library(net: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("flatbuffers", reason="the extra `export` is not installed")
    out = net.with_name("net.stablehlo")
    assert main(["convert", str(net), str(out), *SHAPE]) == 0
    printed = capsys.readouterr().out
    assert "args['data']  float32 (2, 1, 8, 8)" in printed
    assert "label" not in printed
    _, args, aux = nn.load_checkpoint(net, 3)
    with np.load(f"{net}_expected.npz") as archive:
        expected = dict(archive)
    given = {n: np.asarray(a) for n, a in args.items()} | {"data": expected["data"]}
    function = jax.export.deserialize(bytearray(out.read_bytes()))
    outputs, _ = function.call(given, {n: np.asarray(a) for n, a in aux.items()}, jax.random.key(0))
    np.testing.assert_allclose(outputs[0], expected["output"], rtol=1e-5)


def test_stablehlo_as_text(net: Path):
    out = net.with_name("net.mlir")
    assert main(["convert", str(net), str(out), *SHAPE]) == 0
    assert "stablehlo.convolution" in out.read_text()
    assert "[b, f, 0, 1]" not in out.read_text()
    assert main(["convert", str(net), str(out), *SHAPE, "--platforms", "cuda"]) == 0
    assert "[b, f, 0, 1]" in out.read_text()  # channels last is for CPUs


def test_stablehlo_in_training_keeps_the_labels(net: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["convert", str(net), str(net.with_name("net.mlir")), *SHAPE, "--train"]) == 0
    assert "args['softmax_label']  float32 (2,)" in capsys.readouterr().out


def test_stablehlo_asks_for_shapes(net: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["convert", str(net), str(net.with_name("net.mlir"))]) == 2
    assert "give --shape NAME=" in capsys.readouterr().err


def test_mxnets_files_come_out_as_they_went_in(net: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["convert", str(net), str(net.with_name("copy")), "--json"]) == 0
    files = [Path(name).name for name in json.loads(capsys.readouterr().out)["files"]]
    assert files == ["copy-symbol.json", "copy-0003.params"]
    assert net.with_name("copy-0003.params").read_bytes() == Path(f"{net}-0003.params").read_bytes()
    assert main(["diff", str(net), str(net.with_name("copy"))]) == 0


def test_an_old_symbol_is_upgraded(tmp_path: Path):
    assert main(["convert", str(FILES / "legacy_08.json"), str(tmp_path / "new-0007.params")]) == 0
    assert json.loads((tmp_path / "new-symbol.json").read_text())["attrs"]["mxnet_version"] == ["int", 10901]
    assert main(["diff", str(FILES / "legacy_08.json"), str(tmp_path / "new")]) == 0


def test_the_epoch_may_stand_before_out(net: Path, capsys: pytest.CaptureFixture[str]):
    out = net.with_name("source")
    assert main(["convert", str(net), "3", "--to", "jax", str(out), *SHAPE]) == 0
    assert main(["convert", str(net), "3", str(net.with_name("copy")), "--epoch", "3"]) == 0
    for words, message in ((["7"], "epoch 7"), (["x"], "'x' between MODEL and OUT is not an epoch"), (["1"], "behind")):
        assert main(["convert", str(net), *words, str(out), *["--epoch", "3"] * (words == ["1"])]) == 2
        assert message in capsys.readouterr().err


def test_a_model_is_converted_in_its_place(net: Path):
    before = Path(f"{net}-0003.params").read_bytes()
    assert main(["convert", str(net), str(net)]) == 0
    assert Path(f"{net}-0003.params").read_bytes() == before
    shutil.copy(FILES / "legacy_08.json", net.with_name("old-symbol.json"))
    assert main(["convert", str(net.with_name("old")), str(net.with_name("old"))]) == 0
    assert json.loads(net.with_name("old-symbol.json").read_text())["attrs"]["mxnet_version"] == ["int", 10901]


def test_what_is_no_model_does_not_take_a_models_place(net: Path, capsys: pytest.CaptureFixture[str]):
    files = {path: path.read_bytes() for path in net.parent.iterdir()}
    assert main(["convert", str(net), f"{net}-symbol.json", "--to", "mlir", *SHAPE]) == 2
    assert main(["convert", str(net), f"{net}-0003.params", "--to", "stablehlo", *SHAPE]) == 2
    assert main(["run", str(net), "data=random", *SHAPE, "--output", f"{net}-0003.params"]) == 2
    assert capsys.readouterr().err.count("is part of the model that is read: write to another name") == 3
    assert {path: path.read_bytes() for path in net.parent.iterdir()} == files


def test_safetensors_and_back(net: Path):
    pytest.importorskip("safetensors", reason="the extra `safetensors` is not installed")
    assert main(["convert", str(net), str(net.with_name("st.safetensors"))]) == 0
    assert main(["diff", str(net), str(net.with_name("st"))]) == 0
    before = net.with_name("st.safetensors").read_bytes()
    assert main(["convert", str(net.with_name("st.safetensors")), str(net.with_name("st.safetensors"))]) == 0
    assert net.with_name("st.safetensors").read_bytes() == before
    assert main(["convert", str(net.with_name("st.safetensors")), str(net.with_name("back"))]) == 0
    assert main(["diff", str(net), str(net.with_name("back"))]) == 0


def test_a_model_of_integers_is_converted_to_the_one_of_floats(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    network = nn.symbol.FullyConnected(nn.Variable("data"), num_hidden=4, name="fc1")
    args = {"fc1_weight": np.eye(4, dtype=np.float32), "fc1_bias": np.array([1, 2, 3, 4], np.float32)}
    nn.quantize(network, args, mode="none").save(tmp_path / "int8")
    main(["check", str(tmp_path / "int8")])
    assert "convert MODEL OUT --float" in capsys.readouterr().out
    assert main(["convert", str(tmp_path / "int8"), str(tmp_path / "net1.0_floats"), "--float"]) == 0
    floats = nn.Model.load(tmp_path / "net1.0_floats")
    assert not nn.compare_symbols(floats.net, network)
    np.testing.assert_allclose(floats.args["fc1_bias"], args["fc1_bias"], atol=4 / 127)
    # Parameters of floats beside a network of integers: an error with the way out, which takes them.
    nn.save_arrays(tmp_path / "int8-0000.params", {f"arg:{name}": array for name, array in args.items()})
    with pytest.raises(nn.ParamsMismatchError, match=r"the arrays are floats: .*symjax_nnvm.dequantized\(symbol\)"):
        nn.Model.load(tmp_path / "int8")
    assert main(["convert", str(tmp_path / "int8"), str(tmp_path / "net1.0_floats"), "--float"]) == 0
    np.testing.assert_array_equal(nn.Model.load(tmp_path / "net1.0_floats").args["fc1_bias"], args["fc1_bias"])


@pytest.mark.slow("compiles")
def test_source_code_and_weights_go_into_a_folder(net: Path, capsys: pytest.CaptureFixture[str]):
    folder = net.with_name("plain")
    assert main(["convert", str(net), str(folder), "--to", "jax", "--shape", "data=batch,1,8,8"]) == 0
    assert "plain.py" in capsys.readouterr().err
    with np.load(f"{net}_expected.npz") as archive:
        expected = dict(archive)
    module: dict[str, Any] = {"__name__": "plain"}
    exec((folder / "plain.py").read_text(), module)
    outputs = module["forward"](module["load"](folder / "weights.npz"), jax.numpy.asarray(expected["data"]))
    np.testing.assert_allclose(outputs, expected["output"], rtol=1e-5)
