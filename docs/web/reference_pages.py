"""Pages of the site for the public names: what `docs/web/reference.txt` lists, described by autodoc."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

INDEX = "reference/api"
"""The page that lists the others."""

LIST = Path(__file__).with_name("reference.txt")


def parts() -> dict[str, list[str]]:
    """Heading of a part of the reference → the dotted names in it."""
    text = LIST.read_text(encoding="utf-8")
    return {title: names.split() for title, names in re.findall(r"^([^#\s].*)\n((?: {4}\S+\n)+)", text, re.MULTILINE)}


def found(name: str) -> Any:
    """What a dotted name is of. Raises AttributeError, ImportError."""
    root, *rest = name.split(".")
    value = importlib.import_module(root)
    for part in rest:
        value = getattr(value, part)
    return value


def pages() -> dict[str, str]:
    """Path of a page below the site's root, without `.md` → its text, in Markdown."""
    return {path_of(title): _page(title, names) for title, names in parts().items()}


def index() -> str:
    """Links to the parts, with every name, for the end of docs/reference/api.md."""
    lines = [""]
    for title, names in parts().items():
        listed = ", ".join(f"`{name.rpartition('.')[2]}`" for name in names)
        lines.append(f"- [{title}](/{path_of(title)}.md): {listed}")
    return "\n".join(lines) + "\n"


def path_of(title: str) -> str:
    """Path of a part's page below the site's root."""
    return f"{INDEX}/" + re.sub(r"\W+", "_", title.partition(":")[0].lower())


def _page(title: str, names: list[str]) -> str:
    directives = [_directive(name, found(name)) for name in names]
    return f"# {title}\n\n```{{eval-rst}}\n" + "\n".join(directives) + "```\n"


def _directive(name: str, value: Any) -> str:
    if inspect.isclass(value) and issubclass(value, BaseException):
        return f".. autoexception:: {name}\n   :show-inheritance:\n"
    return f".. auto{'class' if inspect.isclass(value) else 'function'}:: {name}\n"
