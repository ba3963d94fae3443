"""What pages, docstrings and messages name exists: functions, files, headings."""

import ast
import importlib
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

import lowering
import symjax_nnvm
from symjax_nnvm import symbol as sym
from tests.support.ladder import GOLDENS
from tests.support.pages import PAGES, ROOT, blocks_of, names_of_mxnet, text_of

ROOTS: dict[str, Any] = {
    "nn": symjax_nnvm,
    "sym": sym,
    "symjax_nnvm": symjax_nnvm,
    "lowering": lowering,
    # how docstrings call the packages within
    "initializer": lowering.initializer,
    "passes": symjax_nnvm.passes,
    "training": lowering.training,
}

_NAME = re.compile(rf"(?<![\w./@\-])(?:{'|'.join(ROOTS)})(?:\.[A-Za-z_]\w*)+(?![\w/]|\.\w)")
_SUFFIXES = (".md", ".npz", ".params", ".py", ".pyi", ".json")


def names_in(text: str) -> set[str]:
    """Dotted names that begin with one of ours; file names are none."""
    return {name for name in _NAME.findall(text) if not name.endswith(_SUFFIXES)}


def exists(name: str) -> bool:
    """Whether a dotted name leads to something: attributes, or modules that are not imported yet."""
    root, *parts = name.split(".")
    found = ROOTS[root]
    for part in parts:
        if not hasattr(found, part):
            try:
                importlib.import_module(f"{found.__name__}.{part}")
            except (ImportError, AttributeError):
                return False
        found = getattr(found, part)
    return True


def texts() -> Iterator[tuple[str, str]]:
    """(file, text): pages without MXNet's code and the examples of new parts, and the docstrings and other strings of
    the source."""
    for page in PAGES:
        text = text_of(page)
        for block in blocks_of(page):
            new = page == "docs/internals/extending.md" or (page, block.language) == ("CONTRIBUTING.md", "python")
            elsewhere = block.language == "py" or new
            text = text.replace(block.text, "") if elsewhere else text
        yield page, text
    for folder in ("symjax_nnvm", "lowering", "examples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if _NAME.search(text) else ():
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value


@pytest.mark.slow("computes much")
def test_every_name_of_ours_exists():
    named = [(where, name) for where, text in texts() for name in names_in(text)]
    assert len(named) > 100
    assert [f"{where}: {name}" for where, name in named if not exists(name)] == []


def test_names_are_found_and_looked_up():
    text = "see `nn.check`, lowering.trainng.Trainer (not mx.sym.relu, sym.json or a/nn.md), symjax_nnvm.cli.COMMANDS."
    assert names_in(text) == {"nn.check", "lowering.trainng.Trainer", "symjax_nnvm.cli.COMMANDS"}
    assert exists("symjax_nnvm.cli.COMMANDS")
    assert not exists("lowering.trainng.Trainer")
    assert not exists("lowering.FactorScheduler")


def test_names_of_mxnet_exist_in_mxnet():
    known = json.loads((GOLDENS / "pages.json").read_text(encoding="utf-8"))["names"]
    assert sorted(names_of_mxnet() - set(known)) == [], "run mxnet-env/bin/python -m tests.goldens.pages"


def test_the_lists_that_migrating_calls_the_same_are():
    """Of optimisers (`docs/guide/training.md` names the exceptions), schedulers and initialisers."""
    theirs = json.loads((GOLDENS / "pages.json").read_text(encoding="utf-8"))
    assert set(theirs["optimizers"]) - set(lowering.training.list_optimizers()) == {"lbsgd", "test"}
    assert set(theirs["initializers"]) - set(vars(lowering.initializer)) == set()
    schedulers = [name for name in vars(lowering.training) if name.endswith("Scheduler")]
    assert sorted(schedulers) == sorted(set(theirs["schedulers"]) - {"LRScheduler"})
    assert len(schedulers) == 4


# -- files and headings ------------------------------------------------------------------------------------------------

SOURCES = [
    path.relative_to(ROOT)
    for folder in ("symjax_nnvm", "lowering", "tests", "docs", "examples", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
]


@pytest.mark.slow("reads the whole project")
@pytest.mark.parametrize("page", PAGES)
def test_every_python_file_that_a_page_names_exists(page: str):
    """By its path, or by the end of it."""
    named = re.findall(r"`(?:python )?([\w*/]+\.py)\b", text_of(page))
    assert [name for name in named if not any(path.match(name) for path in SOURCES)] == []


def slug(heading: str) -> str:
    """The anchor that a heading gets."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str):
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text_of(page))):
        file, _, anchor = target.partition("#")
        path = ((ROOT / page).parent / file).resolve() if file else ROOT / page
        headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE) if anchor else []
        if not path.is_file() or (anchor and anchor not in map(slug, headings)):
            dead.append(target)
    assert dead == []


def test_markdown_pages_are_all_listed():
    found = {str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]}
    assert found == set(PAGES)
