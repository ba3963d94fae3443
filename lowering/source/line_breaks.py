"""Statements as lines of no more than 100 columns, broken where `ruff format` breaks them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

COLUMNS = 100
_HEAD = re.compile(r"return |for [\w, ]* in ")
_KEYWORD = re.compile(r"\w+=(?!=)")
_WORD_BEFORE = re.compile(r"[\w\])]")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|.')
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
    equals = (i + 3 for i, _ in _outer(statement) if statement.startswith(" = ", i))
    start, end = head.end() if head else next(equals, 0), ":" if statement.startswith("for ") else ""
    first, value = indent + statement[:start], statement[start : len(statement) - len(end)]
    if len(first) > COLUMNS:  # names of many outputs
        names = statement[4 : start - 4] if end else statement[: start - 3]
        targets = _each(_split(names), indent + "    ")
        if end:
            rows = _each(_split(value[1:-1]), indent + "    ")
            return [f"{indent}for (", *targets, f"{indent}) in (", *rows, f"{indent}):"]
        return [f"{indent}(", *targets, *laid_out(f") = {value}", indent)]
    if len(parts := _split(value)) > 1:
        return [f"{first}(", *_each(parts, indent + "    "), f"{indent}){end}"]
    operands, lines = _operands(value), _broken(statement, indent)
    calls = value[-1] in ")]" and not _is_subscript(value, _brackets(value)[-1][0])
    if len(operands) > 2 or (len(operands) == 2 and not calls) or len(lines[0]) > COLUMNS:
        return [f"{first}(", *_inside(value, indent + "    "), f"{indent}){end}"]
    return lines


def lines_of(statements: Iterable[str], indent: str = "") -> list[str]:
    """Return the lines of statements, which may be indented already."""
    lines, before = list[str](), "def "
    for statement in statements:
        bare = statement.lstrip(" ")
        if bare.startswith("def ") and before and not before.startswith("def "):
            lines.append("")
        before = bare
        lines += laid_out(bare, indent + " " * (len(statement) - len(bare))) if bare else [""]
    return lines


def _inside(text: str, indent: str, end: str = "") -> list[str]:
    """Return the lines of an expression inside brackets. end: what stands after it."""
    if len(indent + text + end) <= COLUMNS:
        return [indent + text + end]
    if text[-1] in "\"'" and _outer(text)[-1][0] <= (text[0] == "f"):  # one string
        *pieces, last = _pieces(text, COLUMNS - len(indent + end))
        return [*(indent + piece for piece in pieces), indent + last + end]
    keyword = _KEYWORD.match(text)
    operands = _operands(text[keyword.end() :] if keyword else text)
    if len(operands) == 1:
        return _broken(text + end, indent)
    operands[0] = (keyword[0] if keyword else "") + operands[0]
    return [line for part in operands[:-1] for line in _inside(part, indent)] + _inside(operands[-1], indent, end)


def _pieces(text: str, room: int) -> list[str]:
    """Return a string as several strings that stand together, each of them as long as the room where it has a border of
    words there, outside of what is in braces."""
    start = 2 if text[0] == "f" else 1
    head, body, quote = text[:start], text[start:-1], text[-1]
    borders = [
        i + 1 for i, letter in enumerate(body) if letter == "_" and body.count("{", 0, i) == body.count("}", 0, i)
    ]
    cuts = [0]
    for border, after in itertools.pairwise([*borders, len(body)]):
        if start + 1 + after - cuts[-1] > room:
            cuts.append(border)
    return [f"{head}{body[a:b]}{quote}" for a, b in itertools.pairwise([*cuts, len(body)])]


def _each(parts: Iterable[str], indent: str) -> list[str]:
    return [line for part in parts for line in _inside(part, indent, ",")]


def _broken(text: str, indent: str) -> list[str]:
    """Return the lines of a text that is broken in the first brackets that do not fit before the next ones open."""
    brackets = _brackets(text)
    opens = [first for first, _ in brackets]
    place = next((i for i, after in enumerate(opens[1:]) if len(indent) + after + 1 > COLUMNS), len(brackets) - 1)
    if place < 0 or len(indent + text) <= COLUMNS:
        return [indent + text]
    first, last = brackets[place]
    body, inner = text[first + 1 : last], indent + "    "
    parts = _split(body)
    literal = text[first] == "{" or not _WORD_BEFORE.match(text[first - 1 : first])
    is_comprehension = any(body.startswith(" for ", i) for i, _ in _outer(body))
    grouped = text[first] == "(" and literal and not body.endswith(",")
    if len(parts) == 1 and (grouped or _is_subscript(text, first)):
        lines = _inside(body, inner)  # a comma would make a tuple
    elif (literal and not is_comprehension) or len(inner + body) > COLUMNS:
        lines = _inside(body, inner) if is_comprehension else _each(parts, inner)
    else:
        lines = [inner + body]
    return [indent + text[: first + 1], *lines, *_broken(text[last:], indent)]


def _operands(text: str) -> list[str]:
    """Return the operands of the operators that bind least, each but the first with its operator before it; of several
    calls in a row each method."""
    outer = [] if text.startswith("lambda ") else _outer(text)
    levels = [[i for i, _ in outer if text.startswith(level, i)] for level in _OPERATORS]
    methods = [i for i, letter in outer if letter == "." and text[i - 1 : i] in (")", "]")]
    places = next(filter(None, levels), methods if len(methods) > 1 else [])
    return [text[a:b].strip() for a, b in zip([0, *places], [*places, len(text)], strict=True)]


def _is_subscript(text: str, opens: int) -> bool:
    return text[opens] == "[" and _WORD_BEFORE.match(text[opens - 1 : opens]) is not None


def _brackets(text: str) -> list[tuple[int, int]]:
    """Return where each of the outermost brackets with something in it opens and closes."""
    pairs, start = list[tuple[int, int]](), -1
    for place, letter in _outer(text):
        if letter in "([{":
            start = place
        elif letter in ")]}" and 0 <= start < place - 1:  # the rest of a statement begins with one that closes
            pairs.append((start, place))
    return pairs


def _split(text: str) -> list[str]:
    """Return the parts between the outermost commas."""
    places = [place for place, letter in _outer(text) if letter == ","]
    parts = [text[a:b].strip(", ") for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    return [part for part in parts if part]


def _outer(text: str) -> list[tuple[int, str]]:
    """Return the letters and strings that are in no brackets, and these brackets, with their places."""
    letters, depth = list[tuple[int, str]](), 0
    for token in _TOKEN.finditer(text):
        depth = max(depth - (token[0] in ")]}"), 0)
        if depth == 0:
            letters.append((token.start(), token[0]))
        depth += token[0] in "([{"
    return letters
