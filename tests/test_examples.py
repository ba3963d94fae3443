"""Every example runs and does what it says, on fewer steps than it takes by default."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch):
    """Import an example as its command does: with its own folder on the path."""
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    return load


def test_digits(example, capsys):
    assert example("digits").main(epochs=4) > 0.93
    printed = capsys.readouterr().out
    assert "verdict" in printed
    assert "equal bit for bit" in printed


def test_optax_loop(example, capsys):
    assert example("optax_loop").main(steps=60) > 0.9
    assert "test accuracy" in capsys.readouterr().out


def test_lenet(example, capsys):
    assert example("lenet").main(epochs=4) > 0.93
    assert "the exported model, loaded again" in capsys.readouterr().out


def test_lenet_executor(example, capsys):
    assert example("lenet_executor").main(epochs=6) > 0.93
    assert "test accuracy" in capsys.readouterr().out


def test_char_lstm(example, capsys):
    assert example("char_lstm").main(steps=80, length=20) < 14
    assert "You may " in capsys.readouterr().out


def test_fine_tune(example, capsys):
    assert example("fine_tune").main(epochs=3) > 0.85
    printed = capsys.readouterr().out
    assert "trained further: new_fc_weight, new_fc_bias" in printed
    assert "Nothing in the way" in printed


@pytest.mark.slow
def test_two_processes(example, capfd, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES.parent))
    monkeypatch.setattr("sys.argv", ["two_processes.py"])
    with pytest.raises(SystemExit, match="0"):
        example("two_processes").main()
    assert "2 processes, 2 devices: accuracy 0.9" in capfd.readouterr().out
