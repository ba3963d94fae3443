"""Statements as lines of no more than 100 columns, broken where `ruff format` breaks them."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["COLUMNS", "laid_out", "lines_of"]

COLUMNS = 100
_HEAD = re.compile(r"return |for [\w, ]* in ")
_KEYWORD = re.compile(r"\w+=(?!=)")
_WORD_BEFORE = re.compile(r"[\w\])]")
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_OPERATORS = (
    (" if ", " else ", " for "),
    (" == ", " != ", " < ", " <= ", " > ", " >= "),
    *((f" {sign} ",) for sign in "|^&"),
    (" + ", " - "),
    (" * ", " / ", " @ ", " // ", " % "),
)
"""Operators, those that bind least first."""


def laid_out(statement: str, indent: str = "") -> list[str]:
    """Return the lines of a statement of one line."""
    if len(indent + statement) <= COLUMNS:
        return [indent + statement]
    if statement.startswith("def "):
        return _broken(statement, indent)
    head = _HEAD.match(statement)
    equals = (i + 3 for i in _free(statement) if statement.startswith(" = ", i))
    start, end = head.end() if head else next(equals, 0), ":" if statement.startswith("for ") else ""
    first, value = indent + statement[:start], statement[start : len(statement) - len(end)]
    if len(first) > COLUMNS:  # names of many outputs
        names = statement[4 : start - 4] if end else statement[: start - 3]
        targets = _each(_split(names, ","), indent + "    ")
        if end:
            rows = _each(_split(value[1:-1], ","), indent + "    ")
            return [f"{indent}for (", *targets, f"{indent}) in (", *rows, f"{indent}):"]
        return [f"{indent}(", *targets, *laid_out(f") = {value}", indent)]
    if len(parts := _split(value, ",")) > 1:
        return [f"{first}(", *_each(parts, indent + "    "), f"{indent}){end}"]
    operands = _operands(value)
    calls = value[-1] in ")]" and not _is_subscript(value, _brackets(value)[-1][0])
    if len(operands) > 2 or (len(operands) == 2 and not calls):
        return [f"{first}(", *_inside(value, indent + "    "), f"{indent}){end}"]
    return _broken(statement, indent)


def lines_of(statements: Iterable[str], indent: str = "") -> list[str]:
    """Return the lines of statements, which may be indented already."""
    lines: list[str] = []
    for statement in statements:
        bare = statement.lstrip(" ")
        lines += laid_out(bare, indent + " " * (len(statement) - len(bare))) if bare else [""]
    return lines


def _inside(text: str, indent: str, end: str = "") -> list[str]:
    """Return the lines of an expression inside brackets. end: what stands after it."""
    if len(indent + text + end) <= COLUMNS:
        return [indent + text + end]
    keyword = _KEYWORD.match(text)
    operands = _operands(text[keyword.end() :] if keyword else text)
    if len(operands) == 1:
        return _broken(text + end, indent)
    operands[0] = (keyword[0] if keyword else "") + operands[0]
    return [line for part in operands[:-1] for line in _inside(part, indent)] + _inside(operands[-1], indent, end)


def _each(parts: Iterable[str], indent: str) -> list[str]:
    return [line for part in parts for line in _inside(part, indent, ",")]


def _broken(text: str, indent: str) -> list[str]:
    """Return the lines of a text that is broken in the first brackets that do not fit before the next ones open."""
    brackets = _brackets(text)
    opens = [first for first, _ in brackets]
    place = next((i for i, after in enumerate(opens[1:]) if len(indent) + after + 1 > COLUMNS), len(brackets) - 1)
    if place < 0:
        return [indent + text]
    first, last = brackets[place]
    body, inner = text[first + 1 : last], indent + "    "
    parts = _split(body, ",")
    literal = text[first] == "{" or (not _WORD_BEFORE.match(text[first - 1 : first]) and text[first - 1 : first] != "")
    literal = literal or first == 0
    is_comprehension = any(body.startswith(" for ", i) for i in _free(body))
    grouped = text[first] == "(" and literal and not body.endswith(",")
    if len(parts) == 1 and (grouped or _is_subscript(text, first)):
        lines = _inside(body, inner)  # a comma would make a tuple
    elif (literal and not is_comprehension) or len(inner + body) > COLUMNS:
        lines = _inside(body, inner) if is_comprehension else _each(parts, inner)
    else:
        lines = [inner + body]
    return [indent + text[: first + 1], *lines, *_after(text[last:], indent)]


def _after(text: str, indent: str) -> list[str]:
    return [indent + text] if len(indent + text) <= COLUMNS else _broken(text, indent)


def _operands(text: str) -> list[str]:
    """Return the operands of the operators that bind least, each but the first with its operator before it."""
    if text.startswith("lambda "):
        return [text]
    free = _free(text)
    for level in _OPERATORS:
        places = [i for i in free if any(text.startswith(operator, i) for operator in level)]
        if places:
            return [text[a:b].strip() for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    return [text]


def _is_subscript(text: str, opens: int) -> bool:
    return text[opens] == "[" and _WORD_BEFORE.match(text[opens - 1 : opens]) is not None


def _brackets(text: str) -> list[tuple[int, int]]:
    """Return where each of the outermost brackets with something in it opens and closes."""
    pairs: list[tuple[int, int]] = []
    stack: list[int] = []
    for place, letter in _code(text):
        if letter in _PAIRS:
            stack.append(place)
        elif letter in _PAIRS.values() and stack:  # the rest of a statement begins with one that closes
            start = stack.pop()
            if not stack and place - start > 1:
                pairs.append((start, place))
    return pairs


def _free(text: str) -> list[int]:
    """Return the places in a text that are in no brackets and no string."""
    places, depth = [], 0
    for place, letter in _code(text):
        depth += (letter in _PAIRS) - (letter in _PAIRS.values())
        if depth == 0:
            places.append(place)
    return places


def _split(text: str, by: str) -> list[str]:
    """Return the parts between the outermost commas."""
    places = [i for i in _free(text) if text[i] == by]
    parts = [text[a:b].strip(", ") for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    return [part for part in parts if part]


def _code(text: str) -> list[tuple[int, str]]:
    """Return the letters that are no part of a string, with their places."""
    letters: list[tuple[int, str]] = []
    quote, escaped = "", False
    for place, letter in enumerate(text):
        if quote:
            quote, escaped = "" if letter == quote and not escaped else quote, letter == "\\" and not escaped
        elif letter in "\"'":
            quote = letter
        else:
            letters.append((place, letter))
    return letters
