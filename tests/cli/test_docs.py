"""The transcripts of docs/guide/command.md are what the command prints, and its other commands run."""

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.cli import main
from symjax_nnvm.mxnet.record_file import RecordFile
from tests.cli.conftest import FILES
from tests.cli.networks import resnet
from tests.support.pages import blocks, blocks_of, commands

PAGE = "docs/guide/command.md"


def transcripts() -> list[tuple[str, str]]:
    """(command, what it printed): notes on stderr first, as the command writes them."""
    found = [re.fullmatch(r"\$ symjax-nnvm ([^\n]*)\n(.*)", text, re.DOTALL) for text in blocks(PAGE, "console")]
    assert None not in found
    transcripts = [(match[1], match[2]) for match in found if match is not None]
    assert len(transcripts) >= 5
    return transcripts


def folder(path: Path) -> None:
    """What the page speaks of: a model of MXNet, the same with other biases, a broken one, ResNet-50, images."""
    symbol, args, aux = nn.load_checkpoint(FILES / "net", 3)
    nn.save_checkpoint(path / "net", 3, symbol, args, aux)
    nn.save_checkpoint(path / "tuned", 4, symbol, {**args, "fc_bias": args["fc_bias"] + 0.25}, aux)
    broken = (path / "net-symbol.json").read_text().replace('"Pooling"', '"_contrib_dgl_subgraph"')
    (path / "broken-symbol.json").write_text(broken)
    resnet().save(path / "resnet50-symbol.json")
    shutil.copy(FILES.parent / "records" / "images.rec", path / "train.rec")


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize(("command", "printed"), transcripts(), ids=[command for command, _ in transcripts()])
def test_the_page_shows_what_is_printed(
    command: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    main(shlex.split(command))
    out, err = capsys.readouterr()
    lines = re.sub(r"^.*: \d+\.\d s\n", "", err, flags=re.MULTILINE) + out  # progress depends on the machine
    assert lines == printed


def small_models(path: Path) -> None:
    """What the commands without a transcript speak of, of their names and shapes, and small."""
    pixels = sym.Pooling(sym.Variable("data"), kernel=(16, 16), stride=(16, 16), pool_type="avg", name="pool")
    scores = sym.FullyConnected(pixels.mean(axis=(2, 3)), num_hidden=6, name="fc")
    random = np.random.RandomState(0)
    args = {"fc_weight": random.normal(size=(6, 3)).astype("float32"), "fc_bias": np.zeros(6, "float32")}
    (path / "old").mkdir()
    for prefix in ("resnet50", "old/model"):
        nn.save_checkpoint(path / prefix, 0, sym.SoftmaxOutput(scores, name="softmax"), args, {})
    np.save(path / "x.npy", random.normal(size=(1, 3, 224, 224)).astype("float32"))
    (path / "synset.txt").write_text("\n".join(f"animal {i}" for i in range(6)))
    image = pytest.importorskip("PIL.Image", reason="the extra `image` is not installed")
    image.fromarray(random.randint(256, size=(40, 50, 3)).astype("uint8")).save(path / "cat.jpg")
    (path / "photos" / "cats").mkdir(parents=True)
    shutil.copy(path / "cat.jpg", path / "photos" / "cats")


def other_commands() -> list[str]:
    lines = [c for block in blocks_of(PAGE) if block.language == "indented" for c in commands(block)]
    return [line for line in lines if line.startswith("symjax-nnvm ")]


@pytest.mark.slow("compiles")
def test_commands_without_a_transcript_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    small_models(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert {line.split()[1] for line in other_commands()} == {"run", "verify", "tune", "env", "convert", "records"}
    for line in other_commands():
        assert main(shlex.split(line)[1:]) == 0, f"{line}: {capsys.readouterr().err}"
    assert "animal" in capsys.readouterr().out
    assert (tmp_path / "resnet50.mlir").read_text().startswith("module @")
    assert len(RecordFile(tmp_path / "photos.rec")) == len(RecordFile(tmp_path / "again.rec")) == 1
    assert {path.name for path in (tmp_path / "new").iterdir()} > {"model-symbol.json", "model-0000.params"}


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize(
    ("command", "made"),
    [
        ("convert net new/er/net.mlir --shape data=2,1,8,8", "new/er/net.mlir"),
        ("convert net new/net.stablehlo --shape data=2,1,8,8", "new/net.stablehlo"),
        ("convert net new/net.safetensors", "new/net-symbol.json"),
        ("convert net new/net", "new/net-0003.params"),
        ("plot net new/net.dot", "new/net.dot"),
        ("run net zeros --shape data=2,1,8,8 --output new/out.npz", "new/out.npz"),
    ],
)
def test_a_folder_that_is_written_into_is_made(
    command: str, made: str, net: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(net.parent)
    assert main(command.split()) == 0
    assert Path(made).is_file()
    assert main(command.replace("new/", "net-symbol.json/").split()) == 2  # a file stands where the folder would
    assert "Traceback" not in capsys.readouterr().err


def test_a_conversion_that_fails_makes_no_folder(net: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["convert", str(net), str(net.with_name("new") / "net.mlir")]) == 2
    assert "give --shape NAME=" in capsys.readouterr().err
    assert not net.with_name("new").exists()
