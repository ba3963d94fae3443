"""Every example runs and does what it says, on fewer steps than it takes by default."""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch):
    """Import an example as its command does: with its own folder on the path."""
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    return load


@pytest.mark.nightly("compiles")
def test_digits(example, capsys):
    assert example("digits").main(epochs=4) > 0.93
    printed = capsys.readouterr().out
    assert "verdict" in printed
    assert "equal bit for bit" in printed


@pytest.mark.nightly("compiles")
def test_leave(example, capsys):
    assert example("leave").main(steps=60) > 0.8
    assert "def forward(params, data):" in capsys.readouterr().out


@pytest.mark.slow("compiles")
def test_optax_loop(example, capsys):
    assert example("optax_loop").main(steps=60) > 0.9
    assert "test accuracy" in capsys.readouterr().out


@pytest.mark.slow("compiles")
def test_lenet(example, capsys):
    assert example("lenet").main(epochs=4) > 0.93
    assert "the exported model, loaded again" in capsys.readouterr().out


@pytest.mark.nightly("compiles")
def test_lenet_executor(example, capsys):
    assert example("lenet_executor").main(epochs=6) > 0.93
    assert "test accuracy" in capsys.readouterr().out


@pytest.mark.slow("compiles")
@pytest.mark.nightly("tests/lowering/training/test_training_parity.py trains a recurrent network, too")
def test_char_lstm(example, capsys):
    assert example("char_lstm").main(steps=80, length=20) < 14
    assert "You may " in capsys.readouterr().out


@pytest.mark.nightly("compiles")
def test_fine_tune(example, capsys):
    assert example("fine_tune").main(epochs=3) > 0.85
    printed = capsys.readouterr().out
    assert "trained further: new_fc_weight, new_fc_bias" in printed
    assert "No problem" in printed


def printed_by(name: str, *options: str) -> str:
    """What an example prints that forces devices, for which it needs a process of its own."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *options]
    env = os.environ | {"PYTHONPATH": str(EXAMPLES.parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow("compiles")
@pytest.mark.nightly("tests on eight devices have other networks on meshes")
def test_data_parallel():
    printed = printed_by("data_parallel", "--epochs=1", "--sharding=fsdp")
    assert "each device holds (64, 72) of fc0_weight (64, 576)" in printed


@pytest.mark.nightly("compiles")
def test_tensor_parallel():
    printed = printed_by("tensor_parallel", "--steps=30")
    assert "a device holds (64, 64) of up_weight" in printed
    assert float(printed.rsplit(maxsplit=1)[1]) < 1e-5


@pytest.mark.slow("compiles")
@pytest.mark.nightly("tests/lowering/training/test_processes.py has other processes that train together")
def test_two_processes(example, capfd, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES.parent))
    monkeypatch.setattr("sys.argv", ["two_processes.py"])
    with pytest.raises(SystemExit, match="0"):
        example("two_processes").main()
    assert "2 processes, 2 devices: accuracy 0.9" in capfd.readouterr().out
