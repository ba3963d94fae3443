"""docs/training.md: its blocks run, in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.test_docs import blocks


def test_training_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for code in blocks("docs/training.md", "python"):
        exec(compile(code, "docs/training.md", "exec"), names)
    assert (tmp_path / "circle-0015.params").exists()
    assert "finite" in capsys.readouterr().out
