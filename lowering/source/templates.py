"""Templates: texts of code with markers for the parts that are decided later."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

_MARKER = re.compile("\ue000([a-z])([^\ue000\ue001]*)\ue001")
_WORD = re.compile(r"[A-Za-z_]\w*")

INPUT, STRING, CONST, DIM = "i", "s", "c", "d"
"""Kinds of parts: an array, a parameter's name, a literal, an open size."""

WORD = "w"
"""A word that functions hand on (p, states, train, key)."""


def marker(kind: str, which: object) -> str:
    """Return the text that marks a part's place in a template. kind: a letter. which: the part's number or name."""
    return f"\ue000{kind}{which}\ue001"


def replaced(template: str, parts: Mapping[str, Callable[[str], str]]) -> str:
    """Return a template with the parts of these kinds, each made of its number or name."""
    return _MARKER.sub(lambda one: parts[one[1]](one[2]) if one[1] in parts else one[0], template)


def found(template: str, kind: str) -> list[str]:
    """Return the numbers or names of the parts of a kind."""
    return [which for one, which in _MARKER.findall(template) if one == kind]


def words_of(code: str) -> set[str]:
    """Return the words in a text of code."""
    return set(_WORD.findall(code))


def with_return(statements: Sequence[str], results: str) -> list[str]:
    """Return the statements of a function, with what it returns; a name for this alone is left out."""
    if results and statements and statements[-1].startswith(f"{results} = "):
        return [*statements[:-1], f"return {statements[-1].removeprefix(f'{results} = ')}"]
    return [*statements, f"return {results}"] if results else [*statements]


def is_reserved(name: str) -> bool:
    """Return whether a name has a character that marks parts of templates, which no name from a file may have."""
    return any("\ue000" <= letter <= "\ue003" for letter in name)
