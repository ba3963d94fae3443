"""The examples of docs/extending.md: each file and each row is put in its place, does what the page says, and goes."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lowering.training import update_rules
from symjax_nnvm import cli, formats, pipeline
from tests.pages import blocks, text_of

PAGE = "docs/extending.md"
Patch = pytest.MonkeyPatch


def _add_stage(row: Any, file: ModuleType, patch: Patch) -> None:
    patch.setattr(pipeline, "STAGES", (row, *pipeline.STAGES))


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


def example_of(heading: str) -> tuple[str, str, str, str]:
    """The file, the row, the program, what it prints."""
    number = list(EXAMPLES).index(heading)
    file, row, program = blocks(PAGE, "python")[3 * number : 3 * number + 3]
    return file, row, program, blocks(PAGE, "")[number]


def test_every_section_is_an_example_and_short():
    sections = re.split(r"^## ", text_of(PAGE), flags=re.MULTILINE)[1:]
    assert [section.splitlines()[0] for section in sections] == list(EXAMPLES)
    assert [section.count("```python") for section in sections] == [3] * len(EXAMPLES)
    assert len(blocks(PAGE, "")) == len(EXAMPLES)


@pytest.mark.parametrize("heading", EXAMPLES)
def test_an_example_does_what_the_page_says(heading: str, tmp_path: Path, monkeypatch: Patch):
    monkeypatch.chdir(tmp_path)
    words, add = EXAMPLES[heading]
    text, row, program, printed = example_of(heading)
    file = ModuleType("example")
    exec(compile(text, PAGE, "exec", dont_inherit=True), vars(file))
    add(eval(row, {**vars(words), **vars(file)}), file, monkeypatch)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(program, PAGE, "exec", dont_inherit=True), {})
    assert out.getvalue() == printed
