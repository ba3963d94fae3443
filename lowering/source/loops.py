"""Steps that repeat in a row, each on what the one before it made, as one loop."""

from __future__ import annotations

import functools
import itertools
import operator
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lowering.source.blocks import PrintedCall, in_common, without_numbers
from lowering.source.expressions import MANY
from lowering.source.names import Names

_FEW_TURNS = 2
"""The most equal steps in a row that are not made a loop."""

_LONGEST = 150
"""Calls that a step may have."""

_FRESH = itertools.count(-2, -1)
"""Slots of values that are known only inside a loop."""


@dataclass(eq=False)
class Loop(PrintedCall):
    """Steps that repeat. carried: the slots of the first value, and inside of the value before and after a step.
    items: the slot inside and the slots of each turn's element of a list; indices: which element it is, as text.
    collected: slots of each turn's value, by the slot inside. last: slots of the last turn's value, likewise.
    variables, rows: what the loop is over, and its values in each turn. names: the names of its own scope."""

    body: list[PrintedCall] = field(default_factory=list)
    carried: list[tuple[int, int, int]] = field(default_factory=list)
    items: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    indices: list[str] = field(default_factory=list)
    collected: dict[int, tuple[int, ...]] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    variables: list[str] = field(default_factory=list)
    rows: list[list[tuple[str, bool]]] = field(default_factory=list)
    names: Names = field(default_factory=Names)


def layer_by_layer(calls: list[PrintedCall]) -> list[PrintedCall]:
    """Return the steps of an unrolled recurrent network, which come step by step, layer by layer.

    Steps go by how many of the parameters that are applied several times they come after. A layer is where some are
    applied to what came of them; what is in none goes with the first that reads it. Networks without stay as they are.
    """
    uses = Counter((call.template, call.strings) for call in calls if call.strings)
    bits = {key: 1 << number for number, (key, count) in enumerate(uses.items()) if count > 1}
    after, owns, before = list[int](), list[int](), defaultdict[int, int](int)
    for call in calls:
        owns.append(bits.get((call.template, call.strings), 0))
        after.append(functools.reduce(operator.or_, (before[slot] for slot in call.inputs), 0))
        before |= dict.fromkeys(call.outputs, after[-1] | owns[-1])
    layers = {mask for own, mask in zip(owns, after, strict=True) if own & mask}
    recurrent = functools.reduce(operator.or_, (own & mask for own, mask in zip(owns, after, strict=True)), 0)
    for call, own in zip(calls, owns, strict=True):
        call.is_recurrent = bool(own & recurrent)
    first, readers = dict[int, int](), dict[int, tuple[int, int]]()
    after = [mask | own for mask, own in zip(after, owns, strict=True)]
    order = [(mask.bit_count(), first.setdefault(mask, place)) for place, mask in enumerate(after)]
    for place, call in reversed([*enumerate(calls)]):
        if after[place] not in layers:
            order[place] = min((readers[slot] for slot in call.outputs if slot in readers), default=order[place])
        readers |= {slot: min(order[place], readers.get(slot, order[place])) for slot in call.inputs}
    return [calls[place] for place in sorted(range(len(calls)), key=order.__getitem__)] if layers else calls


def with_loops(
    calls: list[PrintedCall], results: Iterable[int], names: Names, *, several: bool = False
) -> list[PrintedCall]:
    """Return steps with those that repeat as loops. several: only loops over lists, or that make lists: the others are
    chains of blocks, which may become functions first."""
    if len(calls) <= _FEW_TURNS:
        return calls
    numbers: dict[object, int] = {}
    kinds = [
        numbers.setdefault((call.template, call.strings if call.is_recurrent else ()), len(numbers)) for call in calls
    ]
    readers: dict[int, list[int]] = defaultdict(list)
    for place, call in enumerate(calls):
        for slot in call.inputs:
            readers[slot].append(place)
    for slot in results:
        readers[slot].append(len(calls))
    loops = [row for call in calls if isinstance(call, Loop) for row in call.collected.values()]
    lists = [call.outputs for call in calls if not isinstance(call, Loop) and len(call.outputs) > MANY]
    elements = {slot: (row, i) for row in (*loops, *lists) for i, slot in enumerate(row)}
    steps: list[PrintedCall] = []
    tried: set[tuple[int, int]] = set()
    start = 0
    while start < len(calls):
        best = next(_candidates(calls, kinds, start, readers, elements, several, tried), None)
        if best is None:
            steps.append(calls[start])
            start += 1
            continue
        begin, turns, loop = best
        _name(loop, turns, elements, names)
        elements |= {slot: (row, i) for row in loop.collected.values() for i, slot in enumerate(row)}
        steps += [*calls[start:begin], loop]
        start = begin + len(turns) * len(turns[0])
    return steps


def _candidates(
    calls: Sequence[PrintedCall],
    kinds: Sequence[int],
    start: int,
    readers: Mapping[int, Sequence[int]],
    elements: Mapping[int, tuple[Sequence[int], int]],
    several: bool,
    tried: set[tuple[int, int]],
) -> Iterator[tuple[int, Sequence[Sequence[PrintedCall]], Loop]]:
    """Yield the loops of the equal steps that begin at a place, of the shortest period first: the rotation that carries
    least of each. tried: periods of equal steps, with where they end."""
    chains: list[int] = []
    for period in range(1, min(_LONGEST, (len(calls) - start) // (_FEW_TURNS + 1)) + 1):
        if any(period % shorter == 0 for shorter in chains):
            continue
        end = start
        while end + period < len(calls) and kinds[end] == kinds[end + period]:
            end += 1
        if end - start < _FEW_TURNS * period:
            continue
        if (period, end) in tried:
            chains.append(period)
            continue
        if several:
            tried.add((period, end))
        loops: list[tuple[int, Sequence[Sequence[PrintedCall]], Loop]] = []
        is_chain = not several and period == 1  # of blocks, which may end before others begin; so may a layer's steps
        may_be_fewer = is_chain or any(call.is_recurrent for call in calls[start : start + period])
        for begin in range(start, start + period):
            most = (end - begin) // period + 1
            for turns in range(most, _FEW_TURNS if may_be_fewer else max(most - 1, _FEW_TURNS), -1):
                rows = [calls[begin + k * period : begin + (k + 1) * period] for k in range(turns)]
                loop = _loop(rows, begin, readers, elements)
                if loop is not None:
                    if loop.items or (loop.carried and (loop.collected or not several)):
                        loops.append((begin, rows, loop))
                    else:
                        chains.append(period)
                    break
        if loops:
            yield min(loops, key=lambda one: (len(one[2].carried) + len(one[2].collected), one[0]))


def _loop(
    turns: Sequence[Sequence[PrintedCall]],
    begin: int,
    readers: Mapping[int, Sequence[int]],
    elements: Mapping[int, tuple[Sequence[int], int]],
) -> Loop | None:
    """Return a loop with how values flow through its turns; None where they are none. The inputs of its steps are slots
    that stand for those of all turns: made in the step, the same in all turns, carried, or an element of a list."""
    period, end = len(turns[0]), begin + len(turns) * len(turns[0])
    if any(call.template == "\ue000i0\ue001" for call in turns[0]):
        return None  # another name for an array is not a step
    made = {row[0]: row for row in zip(*([s for call in turn for s in call.outputs] for turn in turns), strict=True)}
    makers = [{row[k]: first for first, row in made.items()} for k in range(len(turns))]
    loop, after = Loop(f"loop {next(_FRESH)}", (), (), (), (), turns[-1][-1].name), set[int]()
    slots: dict[tuple[int, ...], int] = {}
    for column in zip(*turns, strict=True):
        for vector in zip(*(call.inputs for call in column), strict=True):
            if vector in slots:
                continue
            inside = {maker.get(slot) for maker, slot in zip(makers, vector, strict=True)}
            before = {maker.get(slot) for maker, slot in zip(makers, vector[1:], strict=False)}
            if len(inside) == 1 and None not in inside:
                slots[vector] = vector[0]
            elif vector[0] in made:
                return None
            elif len(set(vector)) == 1:
                slots[vector] = vector[0]
            elif len(before) == 1 and (source := before.pop()) and not any(vector[0] in maker for maker in makers):
                slots[vector] = next(_FRESH)
                loop.carried.append((vector[0], slots[vector], source))
                after.add(source)
            elif all(slot in elements for slot in vector) and len({id(elements[s][0]) for s in vector}) == 1:
                slots[vector] = next(_FRESH)
                loop.items.append((slots[vector], vector))
            else:
                return None
    leaving = set[int]()
    for first, row in made.items():
        for turn, slot in enumerate(row, start=1):
            later = [reader for reader in readers.get(slot, ()) if reader >= begin + turn * period]
            if first not in after and any(reader < end for reader in later):
                return None
            if any(reader >= end for reader in later):
                leaving.add(first) if turn < len(turns) or first not in after else loop.last.update({first: slot})
    loop.collected = {first: row for first, row in made.items() if first in leaving}
    loop.last = {first: slot for first, slot in loop.last.items() if first not in leaving}
    whole = all(readers.get(slot, [0])[-1] >= end for row in loop.collected.values() for slot in row)
    for column in zip(*turns, strict=True) if whole else ():
        inputs = tuple(slots[v] for v in zip(*(call.inputs for call in column), strict=True))
        loop.body.append(replace(column[0], inputs=inputs, name=without_numbers(column[0].name, column[-1].name)))
    return loop if whole else None


def _name(
    loop: Loop, turns: Sequence[Sequence[PrintedCall]], elements: Mapping[int, tuple[Sequence[int], int]], names: Names
) -> None:
    """Give a loop its variables, and its steps strings and literals in terms of them."""
    places = [[("number#", str(elements[row[k]][1])) for _, row in loop.items] for k in range(len(turns))]
    loop.names = Names(within=names)
    calls, abstraction = in_common(turns, loop.names, "i", places)
    for step, call in zip(loop.body, calls, strict=True):
        step.strings, step.consts = call.strings, call.consts
    loop.indices = abstraction.consts[len(abstraction.consts) - len(loop.items) :]
    stand_ins = {slot for slot, _ in loop.items} | {slot for _, slot, _ in loop.carried}
    around = {s for call in loop.body for s in call.inputs} - stand_ins - {s for c in loop.body for s in c.outputs}
    lists = (elements[row[0]][0][0] for _, row in loop.items)
    loop.inputs = (*(initial for initial, _, _ in loop.carried), *lists, *sorted(around))
    loop.outputs = (*loop.last.values(), *(slot for row in loop.collected.values() for slot in row))
    loop.variables = [*abstraction.names, *abstraction.literals]
    loop.rows = [[*((s, True) for s in one[0]), *((text, False) for _, text in one[1])] for one in abstraction.given]
