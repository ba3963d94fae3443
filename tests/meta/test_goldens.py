"""The golden files are those of their manifest: each with the command that made it, from one wheel of MXNet."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from tests.goldens import manifest

ROOT = Path(__file__).parents[2]
MADE = manifest.read()


def test_every_golden_file_is_in_the_manifest_as_it_is():
    now = {name: manifest.digest(path) for name, path in manifest.goldens().items()}
    then = {name: row["sha256"] for name, row in MADE["files"].items()}
    assert now == then, "run python -m tests.goldens.manifest"


@pytest.mark.parametrize("module", sorted({row["command"].split()[0] for row in MADE["files"].values()}))
def test_the_command_is_there(module: str):
    text = (ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    assert f"mxnet-env/bin/python -m {module}\n" in text.replace(" [", "\n[")  # as its docstring says
    assert 'if __name__ == "__main__":' in text


def test_each_file_has_its_command_and_a_date():
    for name, row in MADE["files"].items():
        assert row["command"] == manifest.command(name)
        assert datetime.date.fromisoformat(row["date"]) >= datetime.date(2026, 11, 21)
    assert MADE["mxnet"] == manifest.WHEEL
