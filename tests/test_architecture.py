"""docs/architecture.md is the map of the code: its layers are those of the imports, and it names every file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.import_graph import PACKAGES, ROOT, all_imports, cycle, imports_of, modules

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
MODULES = modules()
IMPORTS = all_imports()
SECTIONS: dict[str, str] = dict(zip(PACKAGES, re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:3], strict=True))
"""Package → the part of the page that is its own."""


def layers(package: str) -> list[str]:
    """The lines of the page's list of layers, the highest first: their files and folders, as text."""
    block = re.search(r"((?:^    \S.*\n)+)", SECTIONS[package], re.MULTILINE)
    assert block is not None
    return [re.split(r"\s{2,}", line.strip())[0] for line in block[1].splitlines()]


def layer(module: str) -> int:
    """How high a module stands; `lowering` stands on all of `symjax_nnvm`."""
    package, *rest = MODULES[module].parts
    entry = f"{rest[0]}/" if len(rest) > 1 else rest[0]
    rows = layers(package)
    found = [i for i, row in enumerate(rows) if entry in row.split(", ")]
    assert len(found) == 1, f"{MODULES[module]} must stand once in the list of layers of docs/architecture.md"
    return len(rows) - found[0] + 1000 * PACKAGES.index(package)


def test_every_module_has_its_layer():
    assert all(layer(module) for module in MODULES)


def test_imports_point_downwards():
    upwards = [
        f"{found.source} → {found.target}"
        for found in IMPORTS
        if not found.typing and layer(found.target) > layer(found.source)
    ]
    assert upwards == []


def test_no_import_closes_a_cycle_within_a_layer():
    edges: dict[str, set[str]] = {}
    for found in IMPORTS:
        if not found.typing:
            edges.setdefault(found.source, set()).add(found.target)
    assert cycle(edges) == []


def test_imports_for_types_that_would_close_a_cycle_are_those_that_the_page_lists():
    listed = re.search(r"Only\s+for\s+types, `if TYPE_CHECKING`, (.*?) name what stands above", PAGE, re.DOTALL)
    assert listed is not None
    files = {str(MODULES[found.source]) for found in IMPORTS if found.typing}
    assert set(re.findall(r"`(\S+\.py)`", listed[1])) == files


def test_no_import_of_ours_hides_in_a_function():
    assert [f"{found.source} → {found.target}" for found in IMPORTS if found.late] == []


def test_the_import_graph_is_read_right():
    text = """
import lowering.dual
from symjax_nnvm import graph, symbol
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from lowering.interpret import Program
else:
    import lowering.ops
def f():
    from symjax_nnvm.errors import explain
"""
    found = {(i.target, i.typing, i.late) for i in imports_of("here", text, MODULES)}
    assert found == {
        *(("lowering.dual", False, False), ("symjax_nnvm.graph", False, False), ("symjax_nnvm.symbol", False, False)),
        *(("lowering.interpret", True, False), ("lowering.ops", False, False), ("symjax_nnvm.errors", False, True)),
    }
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}}) == []


# -- the files that the page names -------------------------------------------------------------------------------------


def families() -> set[str]:
    """The files of operators that both packages have, under one name: a family each."""
    return set.intersection(*(set(_below(ROOT / package / "ops")) for package in PACKAGES))


def _below(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in folder.rglob("*.py")]


def named(package: str) -> set[str]:
    """The files that a package's part of the page names: by its layers, in the first column of its tables, which stand
    under the heading of their folder, or in the row of a folder."""
    files: set[str] = set()
    folder = ""
    for line in SECTIONS[package].splitlines():
        if heading := re.match(r"\*\*`(\w+)/`\*\*", line):
            folder = f"{heading[1]}/"
        elif line.startswith("**"):
            folder = ""
        within = re.match(r"\| `(\w+/)` \|", line)
        cell = line if within else line.split("|")[1] if line.startswith("|") else ""
        text = re.split(r"(?<=\S) {2,}", line)[0] if line.startswith("    ") else cell
        prefix = within[1] if within else folder if cell else ""
        files.update(f"{package}/{prefix}{name}" for name in re.findall(r"[\w/]+\.py\b", text))
    return files


@pytest.mark.parametrize("package", PACKAGES)
def test_every_file_that_the_page_names_exists(package: str):
    assert sorted(name for name in named(package) if not (ROOT / name).is_file()) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_the_page_names_every_file(package: str):
    ops = {f"{package}/ops/{name}" for name in families()}
    files = {str(path) for path in MODULES.values() if path.parts[0] == package and path.name != "__init__.py"}
    assert sorted(files - ops - named(package)) == []
