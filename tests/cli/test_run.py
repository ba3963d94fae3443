"""`symjax-nnvm run`: where inputs come from, and what is printed of outputs."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.cli import main


def largest(out: str) -> list[list[tuple[int, float]]]:
    (output,) = json.loads(out)["outputs"]
    return [[(item["class"], item["value"]) for item in row] for row in output["largest"]]


@pytest.mark.slow("runs the command")
def test_a_model_predicts_what_mxnet_predicted(net: Path, capsys: pytest.CaptureFixture[str]):
    expected = np.load(f"{net}_expected.npz")
    saved = net.with_name("out.npz")
    assert main(["run", str(net), f"data={net}_expected.npz", "--json", "--output", str(saved)]) == 0
    rows = largest(capsys.readouterr().out)
    np.testing.assert_allclose(np.load(saved)["softmax_output"], expected["output"], rtol=1e-5)
    assert [row[0][0] for row in rows] == list(np.argmax(expected["output"], axis=1))
    assert all(len(row) == 3 for row in rows)  # of three classes, not five


@pytest.mark.slow("compiles")
def test_a_model_runs_as_a_predictor_does_unless_it_draws(
    net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """What is drawn is drawn by the seed, as by `lowering.compile`."""
    monkeypatch.setattr(lowering, "compile", None)
    assert main(["run", str(net), "random", "--shape", "data=2,1,8,8"]) == 0
    monkeypatch.undo()
    drawing = sym.Dropout(sym.Variable("data"), mode="always", name="drop")
    drawing.save(tmp_path / "draws-symbol.json")
    np.save(tmp_path / "x.npy", np.ones((2, 8), "float32"))
    command = ["run", str(tmp_path / "draws"), str(tmp_path / "x.npy"), "--seed", "3"]
    assert main([*command, "--output", str(tmp_path / "out.npz")]) == 0
    expected = lowering.compile(drawing)({"data": np.ones((2, 8), "float32")}, key=jax.random.key(3))[0][0]
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["drop_output"], expected)
    capsys.readouterr()


@pytest.mark.slow("computes much")
def test_the_name_of_the_one_input_may_be_left_out(net: Path, capsys: pytest.CaptureFixture[str]):
    np.save(net.with_name("x.npy"), np.load(f"{net}_expected.npz")["data"].astype(np.float64))
    labels = net.with_name("synset.txt")
    labels.write_text("cat\ndog\nbird\n")
    command = ["run", str(net), str(net.with_name("x.npy")), "--topk", "1", "--labels", str(labels), "--time", "3"]
    assert main([*command, "--backend", "onnxruntime"]) == 0
    by_onnxruntime = [line.split()[:3] for line in capsys.readouterr().out.splitlines() if line[:3] in ("0  ", "1  ")]
    assert main(command) == 0
    out, err = capsys.readouterr()
    found = [line.split() for line in out.splitlines() if line.startswith(("0  ", "1  "))]
    assert [row[2] for row in found] == [["cat", "dog", "bird"][int(row[1])] for row in found]
    assert len(found) == 2
    assert [row[:3] for row in found] == by_onnxruntime
    assert "median of 3" in out
    assert "not given, zeros: softmax_label" in err


@pytest.mark.slow("computes much")
def test_random_inputs_are_those_of_the_seed(net: Path, capsys: pytest.CaptureFixture[str]):
    def run(seed: str) -> list:
        assert main(["run", str(net), "random", "--shape", "data=2,1,8,8", "--seed", seed, "--json"]) == 0
        return largest(capsys.readouterr().out)

    assert run("1") == run("1") != run("2")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["random"], "The shape of 'data' is not known, (?, 1, ?, ?): give --shape data=…"),
        ([], "Input 'data' is missing: give data=FILE"),
        (["image=random"], "The model has no input 'image'; inputs are data, softmax_label"),
        (["data=cat.txt", "--shape", "data=1,1,8,8"], "expected random, zeros, an array (.npy, .npz) or an image"),
        (["data=none.npy"], "No such file"),
    ],
)
def test_errors_say_what_to_give(
    net: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(net.parent)
    assert main(["run", str(net), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_parameters_are_made_up_only_when_asked_to(net: Path, capsys: pytest.CaptureFixture[str]):
    Path(f"{net}-0003.params").unlink()
    command = ["run", str(net), "random", "--shape", "data=2,1,8,8", "--json"]
    assert main(command) == 2
    assert "give --params, or --random-params" in capsys.readouterr().err
    assert main([*command, "--random-params"]) == 0
    assert np.isfinite([value for row in largest(capsys.readouterr().out) for _, value in row]).all()


IMAGE = ["--shape", "data=1,1,8,8", "--json"]


@pytest.mark.slow("computes much")
def test_an_image_is_resized_and_normalised(net: Path, capsys: pytest.CaptureFixture[str]):
    image = pytest.importorskip("PIL.Image", reason="the extra `image` is not installed")
    pixels = np.zeros((16, 32), np.uint8)
    pixels[:, 6:26] = 200  # the centre, which is what cropping leaves, and what its edge is mixed with
    image.fromarray(pixels).save(net.with_name("square.png"))
    np.save(net.with_name("x.npy"), np.full((1, 1, 8, 8), (200 * 0.5 - 40) / 20, np.float32))

    def run(*arguments: str) -> list:
        assert main(["run", str(net), *arguments, *IMAGE]) == 0
        return largest(capsys.readouterr().out)

    picture = ["data=" + str(net.with_name("square.png")), "--scale", "0.5", "--mean", "40", "--std", "20"]
    assert run(*picture) == run("data=" + str(net.with_name("x.npy")))
    assert run(*picture, "--stretch") != run(*picture)


def test_channels_go_where_the_shape_has_them(tmp_path: Path):
    image = pytest.importorskip("PIL.Image", reason="the extra `image` is not installed")
    from argparse import Namespace

    from lowering.cli.model_inputs import _image

    path = tmp_path / "red.png"
    image.new("RGB", (5, 4), (255, 10, 0)).save(path)
    options = Namespace(scale=1.0, mean=(5.0, 0.0, 0.0), std=(1.0,), bgr=False, stretch=True)
    first = _image(path, (1, 3, 4, 5), options)
    np.testing.assert_array_equal(first[0, :, 0, 0], [250, 10, 0])
    np.testing.assert_array_equal(_image(path, (1, 4, 5, 3), options), first.transpose(0, 2, 3, 1))
    options.bgr, options.mean = True, (0.0,)
    np.testing.assert_array_equal(_image(path, (1, 3, 4, 5), options)[0, :, 0, 0], [0, 10, 255])


def test_what_is_no_image_is_told(net: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("PIL.Image", reason="the extra `image` is not installed")
    net.with_name("cat.jpg").write_bytes(b"<html>404</html>")
    assert main(["run", str(net), f"data={net.with_name('cat.jpg')}", *IMAGE]) == 2
    assert "cannot be read as an image" in capsys.readouterr().err
