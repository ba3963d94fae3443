"""The examples of docs/internals/extending.md: each is put in its place, does what the page says, and is removed."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from lowering.optim import update_rules
from symjax_nnvm import cli, pipeline
from symjax_nnvm import symbol as sym
from symjax_nnvm.io import formats
from tests.support.pages import blocks, text_of

PAGE = "docs/internals/extending.md"
Patch = pytest.MonkeyPatch


def _add_stage(row: Any, file: ModuleType, patch: Patch) -> None:
    """The row has registered the stage, and is what removes it; set again, the stage goes when the test ends."""
    with_it = pipeline.stages()
    row()
    assert pipeline.stages() == pipeline.STAGES
    patch.setattr(pipeline, "_order", with_it)


def _add_rule(row: Any, file: ModuleType, patch: Patch) -> None:
    for name, rule in row.items():
        patch.setitem(update_rules.RULES, name, rule)


def _keep_format(row: Any, file: ModuleType, patch: Patch) -> None:
    """The row has registered itself; set again by the patch, it is taken out when the test ends."""
    patch.setitem(formats.FORMATS, row.name, formats.FORMATS.pop(row.name))


def _add_command(row: Any, file: ModuleType, patch: Patch) -> None:
    for name, (module, about) in row.items():
        patch.setitem(sys.modules, module, file)
        patch.setitem(cli.COMMANDS, name, (module, about))


EXAMPLES: dict[str, tuple[ModuleType, Callable[[Any, ModuleType, Patch], None]]] = {
    "A pass": (pipeline, _add_stage),
    "An optimiser": (update_rules, _add_rule),
    "A file format": (formats, _keep_format),
    "A subcommand": (cli, _add_command),
}
"""Heading → the module in whose words the row is written, what puts the row into its table."""


SECTIONS = dict(re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", text_of(PAGE), re.MULTILINE | re.DOTALL))
NAMES = {"jax": jax, "np": np, "lowering": lowering, "nn": nn, "sym": sym, "main": cli.main}
"""What the lines that use an example name."""


def test_every_section_is_an_example_and_short():
    assert list(SECTIONS) == list(EXAMPLES)
    assert [heading for heading, text in SECTIONS.items() if sum(map(bool, text.splitlines())) >= 40] == []
    assert len(blocks(PAGE, "python")) == 3 * len(EXAMPLES)


@pytest.mark.parametrize("heading", EXAMPLES)
def test_an_example_does_what_the_page_says(
    heading: str, tmp_path: Path, monkeypatch: Patch, capsys: pytest.CaptureFixture[str]
):
    """The file, its row, the lines that use it."""
    monkeypatch.chdir(tmp_path)
    words, add = EXAMPLES[heading]
    text, row, use = re.findall(r"^```python\n(.*?)^```", SECTIONS[heading], re.MULTILINE | re.DOTALL)
    file = ModuleType("example")
    exec(compile(text, PAGE, "exec", dont_inherit=True), vars(file))
    add(eval(row, {**vars(words), **vars(file)}), file, monkeypatch)
    assert "assert " in use
    exec(compile(use, PAGE, "exec", dont_inherit=True), dict(NAMES))
    if heading == "A subcommand":
        assert capsys.readouterr().out.split() == [
            "operator",
            "nodes",
            "--------",
            "-----",
            "sin",
            "2",
            "{",
            '"sin":',
            "2",
            "}",
        ]


def test_what_the_examples_import_is_promised_or_said_to_be_the_librarys():
    promised = text_of("docs/reference/stability.md").partition("## For extensions")[2].partition("## Not public")[0]
    imported = re.findall(r"^from ((?:symjax_nnvm|lowering)[\w.]*) import", text_of(PAGE), re.MULTILINE)
    assert len(imported) > 5
    for module in {*imported} - {"symjax_nnvm.errors"}:  # which is public of itself
        package = ".".join(module.split(".")[:2])
        assert f"`{module}" in promised or f"`{package}`" in promised, module


def test_the_names_of_stages_are_promised_in_their_order():
    page = text_of("docs/reference/stability.md")
    promised = page.partition("names of the stages")[2].partition("They")[0]
    assert re.findall(r"`([A-Z]\w+)`", promised) == [stage.name for stage in pipeline.STAGES]
