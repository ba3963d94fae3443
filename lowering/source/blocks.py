"""A program as functions: what is repeated, equal up to names of parameters and literals, is one function."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

from lowering.source.names import Names, escaped, identifier, in_quotes, quoted
from lowering.source.templates import CONST, DIM, INPUT, STRING, found, replaced

_LONGEST = 80
"""Calls that a block may have."""

_NUMBER = "#"
"""The end of what a literal is called that is a number in a parameter's name."""


@dataclass(eq=False)
class PrintedCall:
    """One step of a program. template: its expression, with markers for inputs, strings and literals; of a call of a
    function its name. inputs, outputs: slots. name: the name of the node. is_recurrent: whether it applies its
    parameters to what came of them before."""

    template: str
    inputs: tuple[int, ...]
    strings: tuple[str, ...]
    consts: tuple[tuple[str, str], ...]
    outputs: tuple[int, ...]
    name: str
    function: PrintedFunction | None = None
    is_recurrent: bool = False


@dataclass(eq=False)
class PrintedFunction:
    """A function of the printed file. abstraction: its strings and literals. calls: its body as steps, with the slots
    of its inputs and results; or `lines`, with the arrays' names."""

    name: str
    abstraction: Abstraction
    names: Names
    inputs: tuple[int, ...] = ()
    calls: list[PrintedCall] | None = None
    results: tuple[int, ...] = ()
    lines: list[str] = field(default_factory=list)
    arrays: list[str] = field(default_factory=list)
    common: str = ""
    defaults: list[str | None] = field(default_factory=list)
    needs: list[str] | None = None
    """What calls hand on: `p`, `states`, `train`, `key` and open sizes; None until its text is there."""

    def call(self, inputs: tuple[int, ...], values: Given, outputs: tuple[int, ...], name: str) -> PrintedCall:
        """Return a call of the function; what else it needs, such as `p`, is added in print."""
        return PrintedCall(self.name, inputs, tuple(values[0]), tuple(values[1]), outputs, name, self)

    def set_defaults(self, calls: Sequence[PrintedCall]) -> None:
        """Give literals that most calls have in common as defaults."""
        for column in zip(*(call.consts for call in calls), strict=True):
            (hint, text), count = Counter(column).most_common(1)[0]
            is_fixed = not hint.endswith(_NUMBER) and text[:1] != "[" and _OPEN not in text and not found(text, DIM)
            self.defaults.append(text if is_fixed and 1 < count >= len(column) / 2 else None)


RESERVED = ("p", "params", "states", "train", "key", "forward", "load", "main")
"""Names with a meaning in every function."""

Given = tuple[list[str], list[tuple[str, str]]]
"""Arguments of a call: strings, and literals with what they are."""

_EXPRESSION = re.compile("(\ue002[^\ue002\ue003]*\ue003)")
_PARTS = re.compile("([0-9]+)|(\ue002[^\ue002\ue003]*\ue003|[^0-9\ue002]+)")
_BORDER = re.compile(r"[_./]")

_OPEN, _CLOSE = "\ue002", "\ue003"
"""Around an expression of the function that a text stands in, as part of the text."""


def expression(text: str) -> str:
    """Return an expression of a function as a part of a text inside it."""
    return f"{_OPEN}{text}{_CLOSE}"


def string_text(text: str) -> str:
    """Return the Python of a string, some parts of which are expressions."""
    parts = _EXPRESSION.split(text)
    parts = [part for part in parts if part]
    if not any(part.startswith(_OPEN) for part in parts):
        return quoted(text)
    if len(parts) == 1:
        return parts[0][1:-1]
    pieces = [
        f"{{{part[1:-1]}}}" if part.startswith(_OPEN) else escaped(part).replace("{", "{{").replace("}", "}}")
        for part in parts
    ]
    return f"f{in_quotes(''.join(pieces))}"


def literal_text(text: str) -> str:
    """Return the Python of a literal, some parts of which are expressions."""
    return text.replace(_OPEN, "").replace(_CLOSE, "")


def rendered(template: str, inputs: Sequence[str], strings: Sequence[str], consts: Sequence[str]) -> str:
    """Return a template with its parts: expressions of arrays, strings and literals as they are inside."""
    return replaced(
        template,
        {
            INPUT: lambda i: inputs[int(i)],
            STRING: lambda i: string_text(strings[int(i)]),
            CONST: lambda i: literal_text(consts[int(i)]),
        },
    )


# -- abstraction -------------------------------------------------------------------------------------------------------


@dataclass
class Abstraction:
    """What differs between occurrences: parameters that are strings and that are literals, the strings and literals
    inside, the arguments of each occurrence."""

    names: list[str]
    literals: list[str]
    strings: list[str]
    consts: list[str]
    given: list[Given]


def abstract(
    rows: Sequence[tuple[Sequence[str], Sequence[tuple[str, str]]]], names: Names, by_number: str = ""
) -> Abstraction:
    """Return the parameters by which occurrences, each (strings, literals), are one function.

    by_number: of the turns of a loop, the name of a number by which strings are told apart rather than by beginnings.
    """
    arguments: list[Given] = [([], []) for _ in rows]
    numbers = _Numbers(names, by_number)
    parameters: dict[tuple[str, ...], str] = {}
    strings = _strings([row[0] for row in rows], names, parameters, numbers)
    for column in parameters:
        for (texts, _), text in zip(arguments, column, strict=True):
            texts.append(text)
    consts: list[str] = []
    literals: dict[tuple[str, ...], str] = {}
    for column in zip(*(row[1] for row in rows), strict=True):
        texts, hint = tuple(text for _, text in column), column[0][0]
        if len(set(texts)) == 1 and (by_number or _OPEN not in texts[0]):
            consts.append(texts[0])
        elif all(map(str.isdigit, texts)) and (hint.endswith(_NUMBER) or numbers.tells([*map(int, texts)])):
            consts.append(numbers.text([int(text) for text in texts], hint if hint.endswith(_NUMBER) else "number"))
        else:
            if texts not in literals:
                literals[texts] = names.new(hint)
                for (_, values), text in zip(arguments, texts, strict=True):
                    values.append((hint, text))
            consts.append(expression(literals[texts]))
    for place, (_, values) in enumerate(arguments):
        values[:0] = [
            (f"{hint}{_NUMBER}", str(vector[place]))
            for hint, vector in zip(numbers.hints, numbers.vectors, strict=True)
        ]
    return Abstraction([*parameters.values()], [*numbers.names, *literals.values()], strings, consts, arguments)


def in_common(
    windows: Sequence[Sequence[PrintedCall]],
    names: Names,
    by_number: str = "",
    more: Sequence[Sequence[tuple[str, str]]] = (),
) -> tuple[list[PrintedCall], Abstraction]:
    """Return calls that are equal up to strings and literals as one row. more: further literals of each occurrence."""
    rows = [([s for call in w for s in call.strings], [c for call in w for c in call.consts]) for w in windows]
    for row, literals in zip(rows, more, strict=False):
        row[1].extend(literals)
    found = abstract(rows, names, by_number)
    strings, consts = iter(found.strings), iter(found.consts)
    return [
        replace(
            call,
            strings=tuple(islice(strings, len(call.strings))),
            consts=tuple((hint, next(consts)) for hint, _ in call.consts),
        )
        for call in windows[0]
    ], found


class _Numbers:
    """Numbers that differ between occurrences, each as a parameter plus a constant."""

    def __init__(self, names: Names, preferred: str):
        self._scope, self.preferred = names, preferred
        self.names: list[str] = []
        self.hints: list[str] = []
        self.vectors: list[list[int]] = []

    def text(self, vector: list[int], hint: str) -> str:
        """Return the expression of a number in each occurrence."""
        if len(set(vector)) == 1:
            return str(vector[0])
        for name, other in zip(self.names, self.vectors, strict=True):
            times, offset = self._line(vector, other)
            if offset is not None:
                if times < 0 < offset:
                    return expression(f"{offset} - {name if times == -1 else f'{-times} * {name}'}")
                shift = f" {'+' if offset > 0 else '-'} {abs(offset)}" if offset else ""
                return expression(f"{name if times == 1 else f'{times} * {name}'}{shift}")
        self.names.append(self._scope.new(self.preferred or hint, "number"))
        self.hints.append(hint)
        self.vectors.append(vector)
        return expression(self.names[-1])

    def tells(self, vector: list[int]) -> bool:
        """Return whether the number of each turn of a loop follows from another one."""
        return bool(self.preferred) and any(self._line(vector, other)[1] is not None for other in self.vectors)

    def _line(self, vector: list[int], other: list[int]) -> tuple[int, int | None]:
        """Return the factor and the sum that make a number of another one, the sum None where there are none such: of
        two occurrences, or outside of loops, the factor is 1."""
        across = other[1] - other[0]
        times = (vector[1] - vector[0]) // across if self.preferred and len(vector) > 2 and across else 1
        rests = {a - times * b for a, b in zip(vector, other, strict=True)}
        return times, rests.pop() if len(rests) == 1 and times else None


def _strings(
    rows: Sequence[Sequence[str]], names: Names, parameters: dict[tuple[str, ...], str], numbers: _Numbers
) -> list[str]:
    """Return the strings inside the function, and add its parameters, each by its value in each occurrence: a beginning
    and numbers where these tell the strings apart, else whole strings."""
    is_loop, nothing, beginnings = bool(numbers.preferred), ("",) * len(rows), tuple(map(_prefix, rows))

    def parameter(column: tuple[str, ...], hint: str) -> str:
        if column not in parameters:
            parameters[column] = names.new(hint)
        return expression(parameters[column])

    def is_constant(column: Sequence[str]) -> bool:
        return len(set(column)) == 1 and (is_loop or _OPEN not in column[0])

    ends = [tuple(text[len(start) :] for text in row) for row, start in zip(rows, beginnings, strict=True)]
    preferred = (beginnings, nothing) if len(set(ends)) == 1 and not is_loop else (nothing, beginnings)
    for starts in preferred if all(beginnings) else (nothing,):
        split = [[_split_numbers(text[len(start) :]) for text in row] for row, start in zip(rows, starts, strict=True)]
        columns = list(zip(*split, strict=True))
        if all(_alike(column) and (is_loop or _OPEN not in "".join(column[0])) for column in columns):
            start = starts[0] if starts is nothing or (is_constant(starts) and len(rows) > 1) else ""
            start = start or (parameter(starts, "name") if rows[0] and starts is beginnings else "")
            return [start + _numbered(column, numbers) for column in columns]
    return [
        column[0] if is_constant(column) else parameter(column, f"name_{_BORDER.split(_ending(column))[-1]}")
        for column in zip(*rows, strict=True)
    ]


def _beginning(texts: Sequence[str]) -> str:
    """Return the longest text that all of the texts begin with."""
    first, last = min(texts), max(texts)
    return first[: next((i for i, c in enumerate(first) if c != last[i : i + 1]), len(first))]


def _ending(texts: Sequence[str]) -> str:
    return _beginning([text[::-1] for text in texts])[::-1]


def _split_numbers(text: str) -> list[str]:
    """Return a text's parts: what is between numbers at even places, numbers at odd ones."""
    parts = [""]
    for number, other in _PARTS.findall(text):
        if number:
            parts += [number, ""]
        else:
            parts[-1] += other
    return parts


def without_numbers(first: str, last: str) -> str:
    """Return the name of a first and a last node of a kind without the numbers that tell them apart."""
    parts = _split_numbers(first), _split_numbers(last)
    if parts[0][::2] != parts[1][::2]:
        return last
    return "".join(a for a, b in zip(*parts, strict=True) if a == b).rstrip("_") or last


def _alike(column: Sequence[list[str]]) -> bool:
    """Return whether texts, split at their numbers, are equal but for the numbers, which have no leading zeros."""
    numbers = [number for parts in column for number in parts[1::2]]
    plain = all(number.isascii() and (number == "0" or number[0] != "0") for number in numbers)
    return len({tuple(parts[::2]) for parts in column}) == 1 and (plain or len(set(map(tuple, column))) == 1)


def _numbered(column: Sequence[list[str]], numbers: _Numbers) -> str:
    """Return a text with its numbers as expressions of those of each occurrence."""
    pieces = list(column[0])
    for place in range(1, len(pieces), 2):
        if len({parts[place] for parts in column}) > 1:
            word = identifier(_BORDER.split(pieces[place - 1])[-1], "number")
            pieces[place] = numbers.text([int(parts[place]) for parts in column], word)
    return "".join(pieces)


def _prefix(row: Sequence[str]) -> str:
    """Return the beginning that the strings of a row have in common, up to a border of words."""
    if not row:
        return ""
    prefix = _beginning(row)
    ends = {text[len(prefix) :][:1] for text in row}
    if len(set(row)) == 1 or prefix in row or (prefix.endswith(_CLOSE) and ends <= set("_./:")):
        return prefix
    borders = (
        i for i, c in enumerate(prefix) if c in "_./:" and prefix.count(_OPEN, 0, i) == prefix.count(_CLOSE, 0, i)
    )
    return prefix[: max(borders, default=0)]


# -- repeated windows --------------------------------------------------------------------------------------------------


def find_functions(bodies: list[Steps], new_name: Callable[[Sequence[PrintedCall], str], str], scope: Names) -> None:
    """Put calls of functions in place of what is repeated in the program. bodies: the steps of the program and of
    the loops in it, with their results; those of the functions are added."""
    while (best := _best(bodies)) is not None:
        length, places, spots = best
        first = _window(bodies, places[0], length)
        function, new = _as_function(bodies, places, length, spots, new_name(first, common_start(first)), scope)
        for (body, start), call in sorted(zip(places, new, strict=True), key=lambda pair: pair[0], reverse=True):
            bodies[body].calls[start : start + length] = [call]
        assert function.calls is not None
        bodies.append(Steps(function.calls, set(function.results), len(function.results)))


class Steps(NamedTuple):
    """The steps of the program, a loop or a function. most: results that a function made of some of them may have."""

    calls: list[PrintedCall]
    results: set[int]
    most: int = 1


_Place = tuple[int, int]


_Spots = tuple[tuple[int, int], ...]
"""Values of a window: the place of the call and of its output."""


def _window(bodies: Sequence[Steps], place: _Place, length: int) -> list[PrintedCall]:
    return bodies[place[0]].calls[place[1] : place[1] + length]


def _best(bodies: Sequence[Steps]) -> tuple[int, list[_Place], _Spots] | None:
    """Return the length and the places of the windows that save most lines, and their results."""
    best: tuple[float, int, list[_Place], _Spots] | None = None
    uses = [_readers(body.calls, body.results) for body in bodies]
    longest = min(_LONGEST, max(len(body.calls) for body in bodies))
    ids: dict[object, int] = {}
    single = {
        (b, i): ids.setdefault(call.template, len(ids))
        for b, body in enumerate(bodies)
        for i, call in enumerate(body.calls)
    }
    current = dict(single)
    for length in range(2, longest + 1):
        grouped: dict[tuple[int, int], list[_Place]] = defaultdict(list)
        for (b, i), number in current.items():
            nxt = single.get((b, i + length - 1))
            if nxt is not None:
                grouped[number, nxt].append((b, i))
        current = {
            place: number for number, places in enumerate(p for p in grouped.values() if len(p) > 1) for place in places
        }
        if not current:
            break
        for places in grouped.values():
            if length < 3 or (best is not None and (len(_apart(places, length)) - 1) * (length - 1) - 2 < best[0]):
                continue
            alike: dict[_Form, list[_Place]] = defaultdict(list)
            if len(places) < 2 or _is_periodic(bodies[places[0][0]].calls, places[0][1], length):
                continue
            for b, i in places:
                form = _form(_window(bodies, (b, i), length), uses[b], i, bodies[b].most)
                if form is not None:
                    alike[form].append((b, i))
            for form, windows in alike.items():
                chosen = _apart(windows, length)
                names = [call.name for call in _window(bodies, chosen[0], length)]
                together = len(_beginning(names)) / (1 + max(map(len, names)))
                saved = (len(chosen) - 1) * (length - 1) - 3 + together
                if len(chosen) > 1 and saved > 0 and (best is None or saved > best[0]):
                    best = saved, length, chosen, form[1]
    return None if best is None else best[1:]


def _apart(places: Sequence[_Place], length: int) -> list[_Place]:
    """Return the places of windows that do not overlap, of those in order."""
    chosen: list[_Place] = []
    for b, i in places:
        if not chosen or chosen[-1][0] != b or chosen[-1][1] + length <= i:
            chosen.append((b, i))
    return chosen


def _is_periodic(calls: Sequence[PrintedCall], start: int, length: int) -> bool:
    """Return whether a window is a shorter one, again and again, or a part of such a row that goes on after it."""
    row = [call.template for call in calls[start : start + length + length // 2]]
    ends = ((period, length + (period if length % period else 0)) for period in range(1, length // 2 + 1))
    return any(row[period:end] == row[: end - period] for period, end in ends)


def _readers(calls: Sequence[PrintedCall], results: set[int]) -> dict[int, int]:
    """Return the last reader of each slot: past the end for a result."""
    last: dict[int, int] = {}
    for place, call in enumerate(calls):
        last.update((slot, place) for slot in call.inputs)
    return last | {slot: len(calls) for slot in results}


_Form = tuple[tuple[object, ...], _Spots]


def _form(window: Sequence[PrintedCall], last: Mapping[int, int], start: int, most: int) -> _Form | None:
    """Return how a window's values flow; None where its last value is not read outside, or more than so many are."""
    inside: dict[int, tuple[int, int]] = {}
    outer: dict[int, int] = {}
    form: list[object] = []
    for place, call in enumerate(window):
        form.append(tuple(inside.get(slot) or outer.setdefault(slot, len(outer)) for slot in call.inputs))
        inside.update((slot, (place, number)) for number, slot in enumerate(call.outputs))
    leaving = [spot for slot, spot in inside.items() if last.get(slot, -1) >= start + len(window)]
    if not leaving or leaving[-1][0] != len(window) - 1 or len({place for place, _ in leaving}) > most:
        return None
    read = {slot for slot, _ in inside.items() if slot in last}
    unread = [c for c in window[:-1] if not read.intersection(c.outputs) and not c.strings]
    return None if unread else ((*form, len(outer)), tuple(leaving))


def _as_function(
    bodies: Sequence[Steps], places: Sequence[_Place], length: int, spots: _Spots, name: str, scope: Names
) -> tuple[PrintedFunction, list[PrintedCall]]:
    """Return the function of the windows at places, and the call of each."""
    windows = [_window(bodies, place, length) for place in places]
    names = Names(RESERVED, scope)
    calls, abstraction = in_common(windows, names)
    outer = [_outer(window) for window in windows]
    results = [tuple(window[p].outputs[i] for p, i in spots) for window in windows]
    function = PrintedFunction(name, abstraction, names, outer[0], calls, results[0], common=common_start(windows[0]))
    return function, [
        function.call(inputs, arguments, outputs, common_start(window) or window[-1].name)
        for window, inputs, arguments, outputs in zip(windows, outer, abstraction.given, results, strict=True)
    ]


def _outer(window: Sequence[PrintedCall]) -> tuple[int, ...]:
    outputs = {slot for call in window for slot in call.outputs}
    return tuple(dict.fromkeys(slot for call in window for slot in call.inputs if slot not in outputs))


def common_start(window: Sequence[PrintedCall]) -> str:
    """Return what most names of several words in a window begin with: the longest that ends at a border of words."""
    words = [call.name for call in window if _BORDER.search(call.name)]
    starts = Counter(name[: border.end()] for name in words for border in _BORDER.finditer(name))
    often = [start for start, count in starts.items() if count > 1 and 2 * count >= len(words)]
    return max(often, key=len, default="")
