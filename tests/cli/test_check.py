"""`symjax-nnvm check`: a report and a verdict, of files that cannot even be loaded, too."""

import json
from pathlib import Path

import pytest

from symjax_nnvm.cli import main


def test_a_model_that_runs(net: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["check", str(net), "--shape", "data=2,1,8,8"]) == 0
    assert "No problem" in capsys.readouterr().out


def test_a_model_that_does_not_run_exits_with_1(net: Path, capsys: pytest.CaptureFixture[str]):
    path = Path(f"{net}-symbol.json")
    path.write_text(path.read_text().replace('"Pooling"', '"Puddling"'))
    assert main(["check", str(net), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert not report["ok"]
    assert [(p["kind"], p["nodes"]) for p in report["problems"] if p["severity"] == "error"] == [
        ("unknown operator", ["pool"])
    ]
    assert main(["inspect", str(net)]) == 2
