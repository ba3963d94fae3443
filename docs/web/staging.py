"""The site's source: the pages of `docs/`, with those written from cards and docstrings, in one folder.

Pages link to each other as they lie in the repository, so that they can be read there; here their links are turned to
where the pages, pictures and other files lie on the site.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from docs.web import operator_pages, reference_pages
from tests.support.import_graph import ROOT

HERE = Path(__file__).parent
_ELSEWHERE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
_LINK = re.compile(r"(`[^`\n]*`)|(?<=\]\()([^)\s#]+)(?=[)#])")
_OPERATOR = re.compile(r"^\| `(\w+)`", re.MULTILINE)


def pages() -> dict[str, Path]:
    """Name of a page on the site → the file in the repository that it is made of."""
    return {
        **{path.stem: path for path in sorted((ROOT / "docs").glob("*.md"))},
        **{name.removesuffix(".md"): ROOT / source for source, name in _ELSEWHERE.items() if name != "index.md"},
    }


def navigation() -> dict[str, list[str]]:
    """Part → its pages, in order, of those that there are; pages in no part come last, under "More"."""
    text = (HERE / "navigation.txt").read_text(encoding="utf-8")
    there = pages().keys() - {"index"}
    found: dict[str, list[str]] = {}
    for part, names in re.findall(r"^([^#\s].*)\n((?: {4}\S+\n)+)", text, re.MULTILINE):
        found[part] = [name for name in names.split() if name in there]
    rest = sorted(there - {name for names in found.values() for name in names})
    return {**found, "More": rest} if rest else found


def stage(folder: Path) -> None:
    """Write the source of the whole site into an empty folder. Raises ValueError where a page links to no file."""
    shutil.copytree(HERE / "_static", folder / "_static")
    for name, source in pages().items():
        text = linked(source, folder)
        _write(folder / f"{name}.md", with_sections(text) if name == "operators" else text)
    operators, reference = operator_pages.pages(), reference_pages.pages()
    _append(folder / "index.md", "".join(toctree(names, part) for part, names in navigation().items()))
    _append(folder / "operators.md", toctree(operators))
    _append(folder / "reference.md", reference_pages.index() + toctree(reference))
    for path, text in {**operators, **reference}.items():
        _write(folder / f"{path}.md", text)


def linked(source: Path, folder: Path) -> str:
    """A page with its links turned; files that it links to are copied to `files/`. Raises ValueError."""

    def turned(match: re.Match[str]) -> str:
        code, target = match.groups()
        if code or re.match(r"\w+:", target):
            return match[0]
        file = Path(os.path.normpath(source.parent / target))
        if not file.is_file():
            raise ValueError(f"{source} links to {target}, which does not exist")
        path = file.relative_to(ROOT).as_posix()
        if file.suffix == ".md":
            return _ELSEWHERE.get(path, path.removeprefix("docs/"))
        (folder / "files" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, folder / "files" / path)
        return f"files/{path}"

    return _LINK.sub(turned, source.read_text(encoding="utf-8"))


def with_sections(table: str) -> str:
    """The table of operators, each linked to its section."""
    places = operator_pages.places()
    return _OPERATOR.sub(lambda match: f"| [`{match[1]}`]({places[match[1]]})", table)


def toctree(names: Iterable[str], caption: str = "") -> str:
    """Sphinx's directive that puts pages into the navigation."""
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["\n```{toctree}", *options, "", *names, "```", ""])


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
