"""The command as a whole: which files MODEL means, exit codes, errors of one line, and no JAX where none is needed."""

import importlib.metadata
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from symjax_nnvm.cli import COMMANDS, main
from symjax_nnvm.cli.model_argument import shape_of
from symjax_nnvm.errors import ModelNotFoundError
from symjax_nnvm.mxnet.model_files import find_model
from tests.support import warm


@pytest.mark.parametrize("form", ["net", "net-symbol.json", "net-0003.params"])
def test_model_is_a_prefix_or_either_file(net: Path, form: str):
    model = find_model(str(net.with_name(form)))
    assert (model.symbol_path, model.params_path) == (Path(f"{net}-symbol.json"), Path(f"{net}-0003.params"))


def test_the_highest_epoch_unless_another_is_asked_for(net: Path):
    for epoch in (12, 10000, 9):
        shutil.copy(f"{net}-0003.params", f"{net}-{epoch:04d}.params")
    assert find_model(str(net)).params_path == Path(f"{net}-10000.params")
    assert find_model(str(net), epoch=9).params_path == Path(f"{net}-0009.params")
    with pytest.raises(ModelNotFoundError, match="no parameters of epoch 4"):
        find_model(str(net), epoch=4)


def test_a_symbol_needs_no_parameters(net: Path):
    Path(f"{net}-0003.params").unlink()
    assert find_model(str(net)).params_path is None


@pytest.mark.parametrize("text", ["data=1,3,8,8", "data=1x3x8x8", "data=(1, 3, 8, 8)", "data=[1,3,8,8,]"])
def test_shapes_are_written_as_people_write_them(text: str):
    assert shape_of(text) == ("data", (1, 3, 8, 8))


@pytest.mark.parametrize("arguments", [["inspect", "x", "--shape", "data"], ["inspect"], ["nonsense"], []])
def test_wrong_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert "usage: symjax-nnvm" in capsys.readouterr().err


def test_errors_are_one_line_and_exit_with_2(net: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["inspect", str(net.with_name("nett"))]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("symjax-nnvm: error: No model")
    assert f"Did you mean {str(net)!r}? In {net.parent}: net." in line


def test_a_traceback_on_demand(net: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["inspect", str(net), "--shape", "data=1,2,8,8", "--traceback"]) == 2
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "Shape inconsistent" in err.splitlines()[-1]


@pytest.mark.parametrize("content", [b"{}", b"\xff\x00\x80", b""])
def test_unreadable_files_exit_with_2(tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "bad-symbol.json").write_bytes(content)
    assert main(["inspect", str(tmp_path / "bad")]) == 2
    assert capsys.readouterr().err.startswith("symjax-nnvm: error: ")


def test_every_subcommand_explains_itself(capsys: pytest.CaptureFixture[str]):
    for name in COMMANDS:
        with pytest.raises(SystemExit) as stop:
            main([name, "--help"])
        assert stop.value.code == 0
        out = capsys.readouterr().out
        assert "--json" in out
        assert "--traceback" in out


LIGHT = """
import sys
from symjax_nnvm.cli import main
net = sys.argv[1]
assert main(["inspect", net, "--shape", "data=1,1,8,8", "--json"]) == 0
assert main(["check", net, "--shape", "data=1,1,8,8"]) == 0
assert main(["plot", net, "-"]) == 0
assert main(["diff", net, net]) == 0
assert main(["records", "list", sys.argv[2]]) == main(["records", "verify", sys.argv[2]]) == 0
assert "jax" not in sys.modules and "lowering" not in sys.modules and "rich" not in sys.modules
"""


@pytest.mark.slow("starts processes")
def test_what_needs_no_jax_imports_none(net: Path):
    records = shutil.copy(Path(__file__).parents[1] / "goldens" / "records" / "seven.rec", net.parent)
    subprocess.run([sys.executable, "-c", LIGHT, str(net), records], check=True, capture_output=True)


@pytest.mark.slow("starts processes")
@pytest.mark.parametrize("package", ["symjax_nnvm", "lowering"])
def test_the_command_in_a_process_of_its_own(net: Path, package: str):
    done = warm.run(["-m", package, "inspect", str(net), "--json"])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["parameters"] == 159


def test_the_console_script_is_the_same_function():
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="symjax-nnvm")
    assert script.load() is main
