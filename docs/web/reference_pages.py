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
    root, *parts = name.split(".")
    value = importlib.import_module(root)
    for part in parts:
        value = getattr(value, part)
    return value


def pages() -> dict[str, str]:
    """Path of a page below the site's root, without `.md` → its text, in Markdown."""
    listed = [found(name) for names in parts().values() for name in names]
    classes = {value for value in listed if inspect.isclass(value)}
    return {path_of(title): _page(title, names, classes) for title, names in parts().items()}


def index() -> str:
    """Links to the parts and to every name, for the end of docs/reference/api.md."""
    lines = [""]
    for title, names in parts().items():
        listed = ", ".join(f"{{py:obj}}`{name.rpartition('.')[2]} <{name}>`" for name in names)
        lines.append(f"- [{title}](/{path_of(title)}.md): {listed}")
    return "\n".join(lines) + "\n"


def path_of(title: str) -> str:
    """Path of a part's page below the site's root."""
    return f"{INDEX}/" + re.sub(r"\W+", "_", title.partition(":")[0].lower())


def _page(title: str, names: list[str], classes: set[type]) -> str:
    directives = [_directive(name, found(name), classes) for name in names]
    return f"# {title}\n\n```{{eval-rst}}\n" + "\n".join(directives) + "```\n"


def _directive(name: str, value: Any, classes: set[type]) -> str:
    """What has autodoc describe a name. classes: that are on the site; one that extends another of them, such as a
    layer of Gluon, has the other's methods, which are described there."""
    if not inspect.isclass(value):
        return f".. autofunction:: {name}\n"
    if issubclass(value, BaseException):
        return f".. autoexception:: {name}\n   :show-inheritance:\n"
    extends = any(base in classes for base in value.__mro__[1:])
    return f".. autoclass:: {name}\n" + ("   :show-inheritance:\n   :no-members:\n" if extends else "")
