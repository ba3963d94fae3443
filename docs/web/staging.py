"""The site's source: the pages of `docs/` and those written from cards and docstrings, in one folder.

A page of `docs/` has the same path on the site. The pages in the repository's root get a place in the navigation, and
files that are not pages are copied; links to these are changed.
"""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from collections.abc import Iterable
from pathlib import Path

from docs.web import operator_pages, reference_pages
from symjax_nnvm.ir.op import Op
from tests.support.import_graph import ROOT

HERE = Path(__file__).parent
_ROOT_PAGES = {
    "CONTRIBUTING.md": "internals/contributing",
    "CHANGELOG.md": "reference/changelog",
    "SECURITY.md": "internals/security",
}
"""Page in the repository's root → its name on the site."""

_LINK = re.compile(r"(`[^`\n]*`)|(?<=\]\()([^)\s#]+)(?=[)#])")
_COMMANDS = re.compile(
    r"(?<=\n\n)((?: {4}(?:\S*/)?(?:python3?|pip|symjax-nnvm|git|bash|export) .*\n)(?: {4}.*\n)*)", re.MULTILINE
)
_OPERATOR = re.compile(r"^\| `(\w+)`", re.MULTILINE)


def pages() -> dict[str, Path]:
    """Name of a page on the site → the file in the repository that it is made of."""
    docs = ROOT / "docs"
    return {
        **{path.relative_to(docs).with_suffix("").as_posix(): path for path in sorted(docs.rglob("*.md"))},
        **{name: ROOT / source for source, name in _ROOT_PAGES.items()},
    }


def navigation() -> dict[str, list[str]]:
    """Group, which is a folder of `docs/` → its pages: those of `navigation.txt` in order, then the others."""
    text = (HERE / "navigation.txt").read_text(encoding="utf-8")
    listed = re.findall(r"^[^#\s]\S*", text, re.MULTILINE)
    groups: dict[str, list[str]] = {}
    for name in [*listed, *sorted(pages().keys() - {"index", *listed})]:
        groups.setdefault(name.partition("/")[0].capitalize(), []).append(name)
    return groups


def stage(folder: Path) -> None:
    """Write the source of the whole site into an empty folder. Raises ValueError where a page links to no file."""
    shutil.copytree(HERE / "_static", folder / "_static")
    for name, source in pages().items():
        text = with_shell_commands(linked(name, source, folder))
        _write(folder / f"{name}.md", with_operator_links(text) if name == operator_pages.INDEX else text)
    operators, reference = operator_pages.pages(), reference_pages.pages()
    _append(folder / "index.md", "".join(toctree(names, group) for group, names in navigation().items()))
    _append(folder / f"{operator_pages.INDEX}.md", toctree(operator_pages.families()))
    _append(folder / f"{reference_pages.INDEX}.md", reference_pages.index() + toctree(reference))
    for path, text in {**operators, **reference}.items():
        _write(folder / f"{path}.md", text)


def linked(name: str, source: Path, folder: Path) -> str:
    """A page with links as they are on the site; files that it links to are copied to `files/`. Raises ValueError."""
    names = {path: f"{page}.md" for page, path in pages().items()} | {ROOT / "README.md": "index.md"}

    def changed(match: re.Match[str]) -> str:
        code, target = match.groups()
        if code or re.match(r"\w+:", target):
            return match[0]
        file = Path(os.path.normpath(source.parent / target))
        if not file.is_file():
            raise ValueError(f"{source} links to {target}, which does not exist")
        path = names.get(file)
        if path is None:
            path = f"files/{file.relative_to(ROOT).as_posix()}"
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, folder / path)
        return os.path.relpath(path, Path(name).parent)

    return _LINK.sub(changed, source.read_text(encoding="utf-8"))


def with_shell_commands(text: str) -> str:
    """A page whose indented commands are blocks of the language `shell`: site.css wraps their long lines."""
    return _COMMANDS.sub(lambda match: f"```shell\n{textwrap.dedent(match[1])}```\n", text)


def with_operator_links(table: str) -> str:
    """The table of operators, each linked to its page."""
    return _OPERATOR.sub(lambda match: f"| [`{match[1]}`](/{operator_pages.path_of(Op.get(match[1]))}.md)", table)


def toctree(names: Iterable[str], caption: str = "") -> str:
    """Sphinx's directive that puts pages into the navigation."""
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["\n```{toctree}", *options, "", *(f"/{name}" for name in names), "```", ""])


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
