"""The script that makes mutants: what it changes, where, and which tests it asks."""

from __future__ import annotations

import ast

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


def test_every_module_has_tests_that_are_asked():
    assert run.tests_of(FILE)[0][0] == "tests/passes/test_print_ir.py"
    cases, own, everything = run.tests_of("lowering/ops/nn/pooling.py")
    assert cases[:2] == ["tests/ops/test_ladder.py", "-k"]
    assert own[0] == "tests/ops/nn/test_pooling.py"
    assert everything == ["-m", "quick"]
    assert run.tests_of("symjax_nnvm/onnx/ops/nn/pooling.py")[0][:2] == ["tests/onnx/test_cases.py", "-k"]
    unnamed = "/".join(("symjax_nnvm", "onnx", "imports", "ops", "product.py"))  # which this file must not name either
    assert run.tests_of(unnamed)[-1] == everything
    assert {test.rpartition("/")[0] for test in run.tests_of(unnamed)[0]} == {"tests/onnx"}
