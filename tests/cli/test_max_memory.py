"""`--max-memory`: what needs too much is refused before it is made, and long work is announced."""

from pathlib import Path

import pytest

from lowering.cli import run_budget as budget
from symjax_nnvm import symbol as sym
from symjax_nnvm.cli import main
from symjax_nnvm.symbol import Symbol

X = sym.Variable("data")


def _doubled() -> Symbol:
    y = X
    for i in range(31):
        y = sym.Concat(y, y, dim=0, name=f"twice{i}")
    return y


def _counter() -> Symbol:
    outputs, _ = sym.contrib.while_loop(lambda i: i < 10, lambda i: (i * 2, [i + 1]), [X], max_iterations=10**9)
    return outputs if isinstance(outputs, Symbol) else outputs[0]


SMALL_FILES = {
    "doubled": (_doubled(), "data=1", "twice30"),
    "zeros": (sym.broadcast_add(sym.sum(sym.zeros((10**9,), name="many")), X), "data=1", "many"),
    "loop": (_counter(), "data=1", "_while_loop"),
    "correlation": (sym.Correlation(X, X, max_displacement=10**6, pad_size=10**6, name="corr"), "data=1,1,4,4", "corr"),
}


@pytest.fixture(params=SMALL_FILES)
def small(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str, str]:
    """(prefix, shape, the node that needs the memory) of a small file that would swell the process."""
    symbol, shape, node = SMALL_FILES[request.param]
    symbol.save(str(tmp_path / "small-symbol.json"))
    return tmp_path / "small", shape, node


@pytest.mark.parametrize("command", ["run", "verify", "convert"])
def test_small_files_that_need_much_are_refused(command, small, capsys: pytest.CaptureFixture[str]):
    prefix, shape, node = small
    inputs = [str(prefix.with_name("out.stablehlo"))] if command == "convert" else ["data=random"]
    assert main([command, str(prefix), *inputs, "--shape", shape, "--max-memory", "2G"]) == 2
    out, err = capsys.readouterr()
    assert not out
    (line,) = err.splitlines()
    assert f"node '{node}" in line
    assert "at most 2 GiB, which is allowed" in line
    assert "--max-memory" in line
    assert not prefix.with_name("out.stablehlo").exists()


def test_the_default_is_what_is_free(net: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    free = budget.free_memory()
    assert free is not None
    assert free > 1 << 20
    monkeypatch.setattr(budget, "free_memory", lambda: 1000)
    command = ["run", str(net), "random", "--shape", "data=2,1,8,8"]
    assert main(command) == 2
    assert "at most 1000 B, which is free" in capsys.readouterr().err
    monkeypatch.setattr(budget, "free_memory", lambda: None)
    assert main(command) == 0


@pytest.mark.slow("runs the command")
def test_a_proof_takes_more_than_a_run(net: Path, capsys: pytest.CaptureFixture[str]):
    shape = ["--shape", "data=2,1,8,8", "--max-memory", "8K"]
    assert main(["run", str(net), "random", *shape]) == 0
    assert main(["verify", str(net), *shape]) == 2
    assert "at most 8 KiB" in capsys.readouterr().err


@pytest.mark.slow("runs the command")
def test_long_work_is_announced(net: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    command = ["run", str(net), "random", "--shape", "data=2,1,8,8"]
    assert main(command) == 0
    assert "estimated" not in capsys.readouterr().err
    monkeypatch.setattr(budget, "LONG", 1000)
    assert main(command) == 0
    assert "estimated arithmetic: 7.09 kFLOPs, 5.47 kFLOPs of it in node 'conv'" in capsys.readouterr().err


def test_what_is_no_size(net: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main(["run", str(net), "random", "--max-memory", "much"])
    assert caught.value.code == 2
    assert "not a size of memory" in capsys.readouterr().err
