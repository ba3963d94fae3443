"""The imports keep to docs/layers.txt, and docs/architecture.md, the map of the code, names every file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.import_graph import PACKAGES, ROOT, all_imports, cycle, foreign_privates, imports_of, modules, unused

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
MODULES = modules()
IMPORTS = all_imports()
SECTIONS: dict[str, str] = dict(zip(PACKAGES, re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:3], strict=True))
"""Package → the part of the page that is its own."""


LAYERS: dict[str, list[list[str]]] = {
    package: [re.split(r"\s{2,}", line.strip())[0].split(", ") for line in block.splitlines()]
    for package, block in re.findall(
        r"^(\w+)\n((?: {4}\S.*\n)+)", (ROOT / "docs" / "layers.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
}
"""Package → its layers in docs/layers.txt, the highest first: the files and folders of each."""

MUTUAL = {
    ("symjax_nnvm.ir.op", "symjax_nnvm.ir.node"),
    ("symjax_nnvm.ir.op", "symjax_nnvm.ir.params"),
    ("symjax_nnvm.ir.attributes", "symjax_nnvm.ir.node"),
}
"""(module, module that it names for types alone): a node has an operator, and an operator's functions take nodes."""


def layer(module: str) -> int:
    """How high a module stands; `lowering` stands on all of `symjax_nnvm`."""
    package, *rest = MODULES[module].parts
    entry = f"{rest[0]}/" if len(rest) > 1 else rest[0]
    rows = LAYERS[package]
    found = [i for i, row in enumerate(rows) if entry in row]
    assert len(found) == 1, f"{MODULES[module]} must stand once in docs/layers.txt"
    return len(rows) - found[0] + 1000 * PACKAGES.index(package)


def test_every_module_has_its_layer():
    assert all(layer(module) for module in MODULES)


def test_every_entry_of_the_layers_is_there():
    names = [ROOT / package / entry for package, rows in LAYERS.items() for row in rows for entry in row]
    assert [path for path in names if not path.exists()] == []


def test_imports_point_downwards():
    """Those for types alone, too."""
    upwards = {(found.source, found.target) for found in IMPORTS if layer(found.target) > layer(found.source)}
    assert upwards == set()


def test_no_import_closes_a_cycle():
    """Nor does one for types alone, but for those of nodes and operators."""
    edges: dict[str, set[str]] = {}
    for found in IMPORTS:
        if not found.typing or (found.source, found.target) not in MUTUAL:
            edges.setdefault(found.source, set()).add(found.target)
    assert cycle(edges) == []
    assert {(found.source, found.target) for found in IMPORTS if found.typing} >= MUTUAL


def test_no_package_names_what_is_private_to_another():
    assert foreign_privates({str(path): (ROOT / path).read_text() for path in MODULES.values()}) == []


def test_a_foreign_private_name_is_found():
    texts = {
        "a/one.py": "from b.two import _x\ny._other\nz._replace",
        "a/three.py": "class T:\n    __slots__ = ('_slot',)",
    }
    assert foreign_privates({**texts, "b/two.py": "_x = 1\ndef f(o):\n    return o._slot"}) == [
        "a/one.py: _x",
        "a/one.py: _other",
        "b/two.py: _slot",
    ]
    assert foreign_privates({"a/one.py": "t._slot = 1", "a/two.py": "from a.one import _slot\nt._slot"}) == []


def test_nothing_is_left_that_nobody_uses():
    texts = {str(path): (ROOT / path).read_text() for path in MODULES.values()}
    others = [p for folder in ("tests", "examples", "benchmarks", "docs") for p in (ROOT / folder).rglob("*.py")]
    assert unused(texts, "".join(path.read_text() for path in others)) == []


def test_a_name_that_nobody_uses_is_found():
    texts = {
        "a/one.py": "X = 1\nclass Y: ...\n@made\ndef f(): ...\ndef g(): return Z",
        "a/two.py": "from b import X\nZ = 2",
    }
    assert unused(texts) == ["a/one.py: Y", "a/one.py: g", "a/two.py: Z"]
    assert unused(texts, "Y g Z") == []


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
