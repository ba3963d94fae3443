"""`symjax-nnvm tune`: the user's own table of a model's convolutions."""

import json
from pathlib import Path

import pytest

from lowering.api import tuning as tune_module
from lowering.convolutions import choose
from lowering.convolutions.timings_table import read_table
from symjax_nnvm.cli import main


@pytest.fixture(autouse=True)
def _quickly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A table of its own, and algorithms that take as long as their names are."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tune_module, "measure", lambda functions, *_: {name: len(name) / 1000 for name in functions})
    choose.forget()
    yield
    choose.forget()


@pytest.mark.slow("compiles")
def test_every_convolution_is_measured_and_kept(net: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["tune", str(net), "--shape", "data=2,1,8,8", "--train", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [(row["direction"], row["size"], row["filters"]) for row in report["rows"]] == [
        (direction, "8×8", 4) for direction in ("forward", "data", "weight")
    ]
    assert {row["fastest"] for row in report["rows"]} == {"xla"}
    assert len(read_table(report["table"]).rows) == 3


@pytest.mark.slow("runs the command")
def test_the_table_is_for_people_too(net: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["tune", str(net), "--shape", "data=2,1,8,8"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[2].split()[:5] == ["forward", "2", "8×8", "1", "4"]
    assert "1 convolutions in" in err


def test_shapes_that_do_not_fit_are_told(net: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["tune", str(net), "--shape", "data=2,3,8"]) == 2
    assert "conv" in capsys.readouterr().err
