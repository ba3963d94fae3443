"""Every text that comes from a file or a caller becomes Python only here: as an identifier or a string."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Iterator

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z][a-z])")
_OTHERS = re.compile(r"[^0-9a-zA-Z]+")
_TAKEN = frozenset(
    {*dir(builtins), *keyword.kwlist, *keyword.softkwlist, "jax", "jnp", "lax", "np", "partial", "l", "O", "I"}
)


def identifier(text: str, otherwise: str = "x") -> str:
    """Return an identifier of ASCII letters, digits and underscores that reads like the text, in lower case."""
    words = _HUMP.sub("_", text[:60])
    word = _OTHERS.sub("_", words).strip("_").lower()
    if not word:
        return otherwise
    return f"{otherwise}_{word}" if word[0].isdigit() else word


def quoted(text: str) -> str:
    """Return the text as a Python string of ASCII characters."""
    return in_quotes(escaped(text))


def escaped(text: str) -> str:
    """Return the text in ASCII characters, as it stands between quotes; quotes are as they were."""
    return text.encode("unicode_escape").decode("ascii")


def in_quotes(text: str) -> str:
    """Return escaped text in those quotes of which it has fewer itself, as `ruff format` does."""
    quote = "'" if text.count('"') > text.count("'") else '"'
    return quote + text.replace(quote, f"\\{quote}") + quote


class Names:
    """The names of one scope: no two are the same, none is a keyword, a builtin or taken outside.

    within: the scope around it, none of whose names, earlier or later, is one of its own. Two scopes inside one may
    have the same names.
    """

    def __init__(self, taken: Iterable[str] = (), within: Names | None = None):
        self._taken = {*_TAKEN, *taken}
        self._within, self._inside = within, set[str]()
        self.tables: dict[str, str] = within.tables if within is not None else {}
        """Names of the module's texts of numbers, by text."""

    def new(self, text: str, otherwise: str = "x") -> str:
        """Return a name of its own that reads like the text."""
        word = identifier(text, otherwise)
        name, number = word, 2
        while self._has(name):
            name, number = f"{word}_{number}", number + 1
        self._taken.add(name)
        for scope in self._around():
            scope._inside.add(name)
        return name

    def table(self, text: str) -> str:
        """Return the name of a text of the module, the same in each call."""
        if text not in self.tables:
            self.tables[text] = f"NUMBERS_{len(self.tables) + 1}"
        return self.tables[text]

    def _has(self, name: str) -> bool:
        return name in self._inside or any(name in scope._taken for scope in (self, *self._around()))

    def _around(self) -> Iterator[Names]:
        scope = self._within
        while scope is not None:
            yield scope
            scope = scope._within
