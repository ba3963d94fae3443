"""What the documents show is what happens: README's example, CONTRIBUTING's operator."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.node import apply
from symjax_nnvm.ir.params import param
from symjax_nnvm.ir.register import register_op, same_shape

ROOT = Path(__file__).parent.parent


def blocks(document: str, language: str) -> list[str]:
    """Fenced code blocks of a language, in order."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL)
    return [code for name, code in found if name == language]


def without_rounding(text: str) -> str:
    """Rounding errors differ between machines: 3.3e-17 and 0.0e+00 both read `#`; columns may shift with them."""
    return re.sub(r"[ \-]+", " ", re.sub(r"\d\.\de-\d\d|0\.0e\+00", "#", text)).strip()


def test_readme_example_prints_what_it_says():
    (code,) = blocks("README.md", "python")
    (expected,) = blocks("README.md", "")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert without_rounding(printed.getvalue()) == without_rounding(expected)


def test_migrating_runs_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for code in blocks("docs/migrating.md", "python"):
        exec(compile(code, "docs/migrating.md", "exec", dont_inherit=True), names)
    assert "Nothing in the way" in capsys.readouterr().out
    assert names["probabilities"].shape == (200, 2)


def test_contributing_operator_works_as_written():
    declaration, rule, _ = blocks("CONTRIBUTING.md", "python")
    names: dict[str, Any] = {
        "__name__": __name__, "dataclass": dataclass, "param": param, "apply": apply, "register_op": register_op,
        "same_shape": same_shape, "lowers": lowering.lowers, "jax": jax,
    }  # fmt: skip
    code = declaration.replace("scaled_shift", "_test_scaled_shift") + rule.replace(
        "scaled_shift", "_test_scaled_shift"
    )
    exec(compile(code, "CONTRIBUTING.md", "exec", dont_inherit=True), names)
    net = sym._test_scaled_shift(sym.Variable("x"), scale=2, shift=1)
    report = lowering.check_gradients(net, {"x": np.array([1.0, 2.0])})
    assert report.ok
    np.testing.assert_array_equal(lowering.to_jax(net)({"x": np.array([1.0, 2.0])})[0][0], [3.0, 5.0])
