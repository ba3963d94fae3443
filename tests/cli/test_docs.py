"""The transcripts of docs/command.md are what the command prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import symjax_nnvm as nn
from symjax_nnvm.cli import main
from tests.cli.conftest import FILES
from tests.cli.networks import resnet

PAGE = Path(__file__).parents[2] / "docs" / "command.md"


def transcripts() -> list[tuple[str, str]]:
    """(command, what it printed): notes on stderr first, as the command writes them."""
    found = re.findall(r"^```console\n\$ symjax-nnvm ([^\n]*)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(found) >= 5
    return found


def folder(path: Path) -> None:
    """The models that the page speaks of: one that MXNet wrote, the same with other biases, a broken one, ResNet-50."""
    symbol, args, aux = nn.load_checkpoint(FILES / "net", 3)
    nn.save_checkpoint(path / "net", 3, symbol, args, aux)
    nn.save_checkpoint(path / "tuned", 4, symbol, {**args, "fc_bias": args["fc_bias"] + 0.25}, aux)
    broken = (path / "net-symbol.json").read_text().replace('"Pooling"', '"_contrib_quantized_pooling"')
    (path / "broken-symbol.json").write_text(broken)
    resnet().save(path / "resnet50-symbol.json")


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
