"""Statements as lines of no more than 100 columns, broken as ruff breaks them."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["COLUMNS", "laid_out"]

COLUMNS = 100
_HEAD = re.compile(r"return |[\w, \[\]\".]* = ")
_OPERATOR = re.compile(r" [-+*/|&^@<>=!]{1,2} ")
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def laid_out(statement: str, indent: str = "") -> list[str]:
    """Return the lines of a statement of one line."""
    whole = indent + statement
    if len(whole) <= COLUMNS:
        return [whole]
    brackets = [pair for pair in _brackets(statement) if len(indent) + pair[0] < COLUMNS]
    if not brackets:
        return _split_operators(statement, indent)
    first, last = brackets[-1]
    head, body, tail = statement[: first + 1], statement[first + 1 : last], statement[last:]
    inner = indent + "    "
    parts = split_commas(body)
    is_tuple = len(parts) == 1 and body.rstrip().endswith(",")
    if len(inner + body) <= COLUMNS and not is_tuple and " for " not in body and "\n" not in body:
        return [indent + head, inner + body, *laid_out(tail, indent)]
    if len(parts) == 1 and not is_tuple:
        lines = laid_out(parts[0], inner)
    else:
        lines = [line for part in parts for line in _with_comma(laid_out(part, inner))]
    return [indent + head, *lines, *laid_out(tail, indent)]


def _with_comma(lines: list[str]) -> list[str]:
    return [*lines[:-1], lines[-1] + ","]


def _split_operators(statement: str, indent: str) -> list[str]:
    """Return the lines of a statement, or of an expression in brackets, that is broken before its operators."""
    head = _HEAD.match(statement)
    inner, begin = (indent + "    ", head.end()) if head else (indent, 0)
    depth, start, parts = 0, begin, []
    for place, letter in _code(statement):
        depth += (letter in _PAIRS) - (letter in _PAIRS.values())
        if not depth and place > start and _OPERATOR.match(statement, place):
            parts.append(statement[start:place])
            start = place + 1
    if not parts or statement[0] in _PAIRS.values():
        return [indent + statement]
    lines = [line for part in (*parts, statement[start:]) for line in laid_out(part, inner)]
    return [f"{indent}{head[0]}(", *lines, f"{indent})"] if head else lines


def _brackets(text: str) -> list[tuple[int, int]]:
    """Return where each of the outermost brackets with something in it opens and closes."""
    found: list[tuple[int, int]] = []
    stack: list[int] = []
    for place, letter in _code(text):
        if letter in _PAIRS:
            stack.append(place)
        elif letter in _PAIRS.values() and stack:  # the rest of a statement begins with one that closes
            start = stack.pop()
            if not stack and place - start > 1:
                found.append((start, place))
    return found


def split_commas(text: str) -> list[str]:
    """Return the parts between the outermost commas."""
    parts, depth, start = [], 0, 0
    for place, letter in _code(text):
        depth += (letter in _PAIRS) - (letter in _PAIRS.values())
        if letter == "," and not depth:
            parts.append(text[start:place].strip())
            start = place + 1
    return [part for part in (*parts, text[start:].strip()) if part]


def _code(text: str) -> list[tuple[int, str]]:
    """Return the letters that are no part of a string, with their places."""
    letters: list[tuple[int, str]] = []
    inside = escaped = False
    for place, letter in enumerate(text):
        if inside:
            inside, escaped = not (letter == '"' and not escaped), letter == "\\" and not escaped
        elif letter == '"':
            inside = True
        else:
            letters.append((place, letter))
    return letters


def lines_of(statements: Iterable[str], indent: str = "") -> list[str]:
    """Return the lines of statements, which may be indented already."""
    lines: list[str] = []
    for statement in statements:
        bare = statement.lstrip(" ")
        lines += laid_out(bare, indent + " " * (len(statement) - len(bare))) if bare else [""]
    return lines
