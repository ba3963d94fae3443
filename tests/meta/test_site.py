"""The site's source: every public name and operator is on it, every page in its navigation. `.ci/run` builds it."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lowering
import symjax_nnvm
from docs.tools import draw_pictures
from docs.tools.generate import TARGETS, by_family
from docs.web import operator_pages, reference_pages, staging
from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.attributes import FDeviation, FGradient, FInferShape
from symjax_nnvm.ir.op import Op
from symjax_nnvm.symbol.namespaces import Namespace
from tests.support.pages import ROOT, text_of

GROUPS, CASES = by_family()


def offered(module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    """Public names of a module that say what they hand on: those of `__all__`, else those imported as themselves."""
    names = getattr(module, "__all__", None) or [
        line.rsplit(" ", 1)[-1]
        for line in Path(str(module.__file__)).read_text(encoding="utf-8").splitlines()
        if line.startswith("from ") and " as " in line
    ]
    for name in names:
        value = getattr(module, name)
        if not isinstance(value, types.ModuleType):
            yield f"{module.__name__}.{name}", value


def functions_of_namespaces() -> Iterator[tuple[str, Any]]:
    for name, space in vars(sym).items():
        if isinstance(space, Namespace):
            yield from ((f"sym.{name}.{key}", function) for key, function in space.functions.items())


def test_every_public_name_is_in_the_reference():
    listed = [name for names in reference_pages.parts().values() for name in names]
    documented = [id(reference_pages.found(name)) for name in listed]
    modules = [symjax_nnvm, sym, lowering, lowering.training, lowering.initializer]
    public = [item for module in modules for item in offered(module)] + list(functions_of_namespaces())
    metrics = vars(lowering.training.metrics).items()
    own = [(name, value) for name, value in metrics if getattr(value, "__module__", "").endswith(".metrics")]
    public += [(f"metrics.{name}", value) for name, value in own if not name.startswith("_")]
    assert len(public) > 150
    assert sorted({name for name, value in public if id(value) not in documented}) == []
    assert len(set(listed)) == len(listed)
    assert [name for name in listed if not reference_pages.found(name).__doc__] == []


def test_what_the_search_raises_and_lowers_is_on_the_site(tmp_path: Path):
    staging.stage(tmp_path)
    script = (ROOT / "docs" / "web" / "search_scores.js").read_text(encoding="utf-8")
    folders = re.findall(r'startsWith\("([^"]+)/"\)', script)
    pages = re.findall(r'"([^"]+)"', script[script.index('["') : script.index("].includes")])
    assert folders == ["reference/operators", "reference/api"]
    assert pages == ["reference/changelog", "reference/benchmarks"]
    assert [name for name in folders if not (tmp_path / name).is_dir()] == []
    assert [name for name in pages if not list(tmp_path.glob(f"{name}.*"))] == []


def test_every_operator_has_a_section():
    texts = operator_pages.pages()
    places = operator_pages.places()
    assert len(places) == sum(map(len, GROUPS.values())) > 350
    for name, place in places.items():
        page, _, anchor = place.partition(".md#")
        assert f"\n## `{name}`\n" in texts[page]
        assert anchor == name.lower()


def test_a_section_tells_what_the_card_says():
    text = operator_pages.section(Op.get("FullyConnected"), CASES[Op.get("FullyConnected")])
    for part in (
        "Y = X Wᵀ + b", "num_hidden: int,", "| `flatten` | boolean, optional, default=True |", "weight (h, d)",
        "dW = dYᵀ X", "print(out.infer_shape(data=(4, 5), weight=(3, 5), bias=(3,))[1])\n", "[(4, 3)]\n",
        "dot(%4, %weight)", "`_npx_fully_connected`",
    ):  # fmt: skip
        assert part in text
    for op in [op for members in GROUPS.values() for op in members]:
        text = operator_pages.section(op, CASES.get(op, []))
        assert operator_pages.plain(op.description) in text
        assert ("- **Unlike MXNet" in text) == (op in FDeviation)
        assert ("**Shapes.**" in text) or not FInferShape.get(op) or not FInferShape[op].__doc__
        assert "- **Gradient.** None" not in text or op not in FGradient


def test_examples_name_functions_of_the_operator():
    """They have run when the sections were written; here, that the name is the operator's and most have one."""
    examples = {op: operator_pages.example(op, cases) for op, cases in CASES.items()}
    assert sum(map(bool, examples.values())) > 0.95 * len(examples)
    for op in [op for members in GROUPS.values() for op in members]:
        path = operator_pages.function(op).split(".")[1:]
        value: Any = sym
        for part in path:
            value = getattr(value, part)
        assert Op.get(f"_{path[0]}_{path[1]}" if len(path) > 1 else path[0]) is op
        assert callable(value)


def test_signs_of_markdown_in_our_texts_mean_nothing():
    assert operator_pages.plain("x_i * [y] | <z> `a|b_c`") == r"x\_i \* \[y\] \| \<z\> `a\|b_c`"


# -- pages -------------------------------------------------------------------------------------------------------------


def test_every_page_is_in_the_navigation():
    """Every name in the list is a page, too."""
    groups = staging.navigation()
    assert list(groups) == ["Tutorial", "Guide", "Reference", "Internals"]
    named = [name for names in groups.values() for name in names]
    assert sorted(named) == sorted(staging.pages().keys() - {"index"})


def test_a_new_page_comes_last_in_its_group(monkeypatch: pytest.MonkeyPatch):
    pages = staging.pages()
    monkeypatch.setattr(staging, "pages", lambda: {**pages, "guide/a_page": ROOT / "docs" / "guide" / "a_page.md"})
    assert staging.navigation()["Guide"][-1] == "guide/a_page"


def test_links_lead_to_pages_and_files_of_the_site(tmp_path: Path):
    texts = {name: staging.linked(name, source, tmp_path) for name, source in staging.pages().items()}
    assert "](architecture.md)" in texts["internals/contributing"]
    assert "](internals/contributing.md)" in texts["index"]
    assert "](../internals/contributing.md)" in texts["guide/onnx"]
    assert "](../files/docs/pictures/loop.svg)" in texts["tutorial/gallery"]
    assert (tmp_path / "files" / "docs" / "pictures" / "loop.svg").is_file()


def test_the_front_page_begins_as_the_readme_does():
    """The two commands that a newcomer types are the same on both."""
    commands = [line for line in text_of("README.md").splitlines() if line.startswith("    python3 -m venv")]
    assert len(commands) == 2
    assert [command for command in commands if command not in text_of("docs/index.md").splitlines()] == []


@pytest.mark.parametrize("name", draw_pictures.PICTURES)
def test_a_picture_is_what_would_be_drawn_now(name: str):
    text = (draw_pictures.FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert text == draw_pictures.drawn(name).svg(), "run python docs/tools/draw_pictures.py"
    assert len(text) < 80_000


def test_every_picture_is_drawn_by_a_script_and_shown():
    texts = [source.read_text(encoding="utf-8") for source in staging.pages().values()]
    shown = {target for text in texts for target in re.findall(r"\]\([./]*pictures/(\w+)\.svg\)", text)}
    charts = {Path(target).stem for target in TARGETS if target.endswith(".svg")} | {"scaling", "training_parity"}
    assert shown == draw_pictures.PICTURES.keys() | charts == {path.stem for path in draw_pictures.FOLDER.iterdir()}
