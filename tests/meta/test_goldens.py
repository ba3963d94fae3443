"""The golden files are those of their manifest: each with the command that made it, from one wheel of MXNet."""

import datetime
from pathlib import Path

import pytest

from tests.goldens import manifest
from tests.support.import_graph import imports_of, modules

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


@pytest.mark.slow("reads the whole project")
def test_what_runs_in_mxnets_environment_needs_no_jax():
    """Neither the commands nor anything that they import, all cases of operators among it, imports JAX."""
    files = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in (ROOT / "tests").rglob("*.py")}
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}
    known = modules() | files | {"jax": Path()}
    commands = {row["command"].split()[0] for row in MADE["files"].values()}
    reached: set[str] = set()
    waiting = commands | {name for name in files if name.startswith("tests.cases.")}  # which `families` imports
    while waiting:
        name = waiting.pop()
        reached.add(name)
        if name in files:
            waiting |= {found.target for found in imports_of(name, files[name].read_text(encoding="utf-8"), known)}
        waiting -= reached
    assert "tests.goldens.make" in reached
    assert not {name for name in reached if name.partition(".")[0] in ("jax", "lowering")}


def test_each_file_has_its_command_and_a_date():
    for name, row in MADE["files"].items():
        assert row["command"] == manifest.command(name)
        assert datetime.date.fromisoformat(row["date"]) >= datetime.date(2026, 11, 21)
    assert MADE["mxnet"] == manifest.WHEEL
