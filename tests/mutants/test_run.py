"""The script that makes mutants: what it changes, where, and which tests it asks."""

import ast
import json
from pathlib import Path

import pytest

from tests.mutants import run

FILE = "symjax_nnvm/passes/print_ir.py"


def test_a_mutant_is_one_expression_changed():
    data = (run.ROOT / FILE).read_bytes()
    found = list(run.mutants_of(FILE))
    assert len(found) > 5
    for mutant in found:
        assert data[mutant.start : mutant.end].decode() == mutant.before
        made = data[: mutant.start] + mutant.after.encode() + data[mutant.end :]
        assert ast.dump(ast.parse(made)) != ast.dump(ast.parse(data)), mutant


@pytest.mark.slow("has many cases")
def test_every_module_has_tests_that_are_asked():
    assert run.tests_of(FILE)[0][0] == "tests/passes/test_print_ir.py"
    cases, own, *_ = run.tests_of("lowering/ops/nn/pooling.py")
    assert cases[:2] == ["tests/ops/test_ladder.py", "-k"]
    assert own[0] == "tests/ops/nn/test_pooling.py"
    assert run.tests_of("symjax_nnvm/onnx/ops/nn/pooling.py")[0][:2] == ["tests/ops/test_ladder.py", "-k"]
    unnamed = "/".join(("symjax_nnvm", "onnx", "imports", "ops", "product.py"))  # which this file must not name either
    assert {test.rpartition("/")[0] for test in run.tests_of(unnamed)[0][:-2]} == {"tests/onnx"}


def test_the_quick_tests_of_a_line_are_those_that_run_it(tmp_path: Path):
    coverage = pytest.importorskip("coverage", reason="the extra `dev` is not installed")
    data = coverage.CoverageData(str(tmp_path / "recorded"))
    lines = (run.ROOT / FILE).read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines, 1) if line.startswith("def "))
    data.set_context("")
    data.add_lines({FILE: [1, start]})
    data.set_context("tests/a.py::test_b[x|y]@group|run")
    data.add_lines({FILE: [start + 1]})
    data.set_context("tests/c.py::test_d|setup")
    data.add_lines({FILE: [start + 1, len(lines)]})
    data.write()
    quick = run.QuickTests(tmp_path / "recorded")
    assert quick.of(FILE, start + 1) == ["tests/a.py::test_b[x|y]", "tests/c.py::test_d"]
    assert quick.of(FILE, start) == quick.of(FILE, start + 1)  # it runs at import: those of its function
    assert quick.of(FILE, 1) == ["tests/a.py", "tests/c.py"]
    assert quick.of("lowering/ops/nn/pooling.py", 1) == []


def test_mutants_of_an_earlier_run_are_found_where_they_are_now(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    everything = [*run.mutants_of(FILE)]
    same, moved = everything[0], next(m for m in everything[1:] if [n.before for n in everything].count(m.before) == 1)
    lost = same._replace(before="what was there", start=0)
    rows = [same._asdict(), moved._replace(start=0, end=1)._asdict(), lost._asdict() | {"fate": "killed", "by": ""}]
    (tmp_path / "rows").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    assert run.drawn_before(tmp_path / "rows", everything) == [same, moved]
    assert capsys.readouterr().out == f"{FILE}:{same.line}  what was there  is not there any more\n"
