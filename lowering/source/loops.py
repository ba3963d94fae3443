"""Steps that repeat in a row, each on what the one before it made, as one loop."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lowering.source.blocks import Call, in_common
from lowering.source.expressions import MANY
from lowering.source.names import Names

__all__ = ["Loop", "with_loops"]

_FEW_TURNS = 2
"""Equal steps in a row up to which they are no loop."""

_LONGEST = 150
"""Calls that a step may have."""

_FRESH = itertools.count(-2, -1)
"""Slots of what is known inside a loop alone."""


@dataclass(eq=False)
class Loop(Call):
    """Steps that repeat. carried: the slots of the first value, and inside of the value before and after a step.
    items: the slot inside, the slot of the first element and the index of an element of a list. collected: slots of
    each turn's value, by the slot inside. variables, rows: what the loop is over, and its values in each turn."""

    body: list[Call] = field(default_factory=list)
    carried: list[tuple[int, int, int]] = field(default_factory=list)
    items: list[tuple[int, int, str]] = field(default_factory=list)
    collected: dict[int, tuple[int, ...]] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    variables: list[str] = field(default_factory=list)
    rows: list[list[tuple[str, bool]]] = field(default_factory=list)


@dataclass
class _Flow:
    """How values flow through the turns of a loop. inputs: of each call of a step, by slots that stand for those of all
    turns: made in the step, the same in all turns, carried, or an element of a list. The others as in Loop."""

    inputs: list[tuple[int, ...]] = field(default_factory=list)
    carried: list[tuple[int, int, int]] = field(default_factory=list)
    items: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    collected: dict[int, tuple[int, ...]] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)


def with_loops(calls: list[Call], results: Iterable[int], names: Names, *, several: bool = False) -> list[Call]:
    """Return steps with those that repeat as loops. several: only loops over lists, or that make lists: the others are
    chains of blocks, which may become functions first."""
    if len(calls) <= _FEW_TURNS:
        return calls
    numbers: dict[str, int] = {}
    kinds = [numbers.setdefault(call.template, len(numbers)) for call in calls]
    readers: dict[int, list[int]] = defaultdict(list)
    for place, call in enumerate(calls):
        for slot in call.inputs:
            readers[slot].append(place)
    for slot in results:
        readers[slot].append(len(calls))
    loops = [row for call in calls if isinstance(call, Loop) for row in call.collected.values()]
    lists = [call.outputs for call in calls if not isinstance(call, Loop) and len(call.outputs) > MANY]
    elements = {slot: (row, i) for row in (*loops, *lists) for i, slot in enumerate(row)}
    steps: list[Call] = []
    tried: set[tuple[int, int]] = set()
    start = 0
    while start < len(calls):
        best = next(_candidates(calls, kinds, start, readers, elements, several, tried), None)
        if best is None:
            steps.append(calls[start])
            start += 1
            continue
        begin, period, turns, flow = best
        loop = _loop(
            [calls[begin + k * period : begin + (k + 1) * period] for k in range(turns)], flow, elements, names
        )
        elements |= {slot: (row, i) for row in loop.collected.values() for i, slot in enumerate(row)}
        steps += [*calls[start:begin], loop]
        start = begin + period * turns
    return steps


def _candidates(
    calls: Sequence[Call],
    kinds: Sequence[int],
    start: int,
    readers: Mapping[int, Sequence[int]],
    elements: Mapping[int, tuple[Sequence[int], int]],
    several: bool,
    tried: set[tuple[int, int]],
) -> Iterator[tuple[int, int, int, _Flow]]:
    """Yield the loops of the equal steps that begin at a place, of the shortest period first: the rotation that carries
    least of each. tried: periods of equal steps, with where they end."""
    for period in range(1, min(_LONGEST, (len(calls) - start) // (_FEW_TURNS + 1)) + 1):
        end = start
        while end + period < len(calls) and kinds[end] == kinds[end + period]:
            end += 1
        if (period, end) in tried or end - start < _FEW_TURNS * period:
            continue
        if several:
            tried.add((period, end))
        flows: list[tuple[int, int, int, _Flow]] = []
        for begin in range(start, start + period):
            most = (end - begin) // period + 1
            fewest = most if several or period > 1 else _FEW_TURNS + 1  # a chain of blocks may end before others begin
            for turns in range(most, max(fewest, _FEW_TURNS + 1) - 1, -1):
                rows = [calls[begin + k * period : begin + (k + 1) * period] for k in range(turns)]
                flow = _flow(rows, begin, readers, elements)
                if flow is not None and (flow.items or (flow.carried and (flow.collected or not several))):
                    flows.append((begin, period, turns, flow))
                    break
        if flows:
            yield min(flows, key=lambda one: (len(one[3].carried) + len(one[3].collected), one[0]))


def _flow(
    turns: Sequence[Sequence[Call]],
    begin: int,
    readers: Mapping[int, Sequence[int]],
    elements: Mapping[int, tuple[Sequence[int], int]],
) -> _Flow | None:
    """Return how values flow through turns; None where they are no loop."""
    period, end = len(turns[0]), begin + len(turns) * len(turns[0])
    if any(call.template == "\ue000i0\ue001" for call in turns[0]):
        return None  # another name for an array is no step
    made = {row[0]: row for row in zip(*([s for call in turn for s in call.outputs] for turn in turns), strict=True)}
    makers = [{row[k]: first for first, row in made.items()} for k in range(len(turns))]
    flow, after = _Flow(), set[int]()
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
                flow.carried.append((vector[0], slots[vector], source))
                after.add(source)
            elif all(slot in elements for slot in vector) and len({id(elements[s][0]) for s in vector}) == 1:
                slots[vector] = next(_FRESH)
                flow.items.append((slots[vector], vector))
            else:
                return None
        flow.inputs.append(tuple(slots[v] for v in zip(*(call.inputs for call in column), strict=True)))
    leaving = set[int]()
    for first, row in made.items():
        for turn, slot in enumerate(row, start=1):
            later = [reader for reader in readers.get(slot, ()) if reader >= begin + turn * period]
            if first not in after and any(reader < end for reader in later):
                return None
            if any(reader >= end for reader in later):
                leaving.add(first) if turn < len(turns) or first not in after else flow.last.update({first: slot})
    flow.collected = {first: row for first, row in made.items() if first in leaving}
    flow.last = {first: slot for first, slot in flow.last.items() if first not in leaving}
    whole = all(readers.get(slot, [0])[-1] >= end for row in flow.collected.values() for slot in row)
    return flow if whole else None


def _loop(
    turns: Sequence[Sequence[Call]], flow: _Flow, elements: Mapping[int, tuple[Sequence[int], int]], names: Names
) -> Loop:
    places = [[("number#", str(elements[vector[k]][1])) for _, vector in flow.items] for k in range(len(turns))]
    calls, abstraction = in_common(turns, names, "i", places)
    body = [
        replace(call, inputs=inputs, name=last.name)
        for call, inputs, last in zip(calls, flow.inputs, turns[-1], strict=True)
    ]
    lists = [elements[vector[0]][0][0] for _, vector in flow.items]
    indices = abstraction.consts[len(abstraction.consts) - len(lists) :]
    stand_ins = {slot for slot, _ in flow.items} | {slot for _, slot, _ in flow.carried}
    around = {s for call in body for s in call.inputs} - stand_ins - {s for call in body for s in call.outputs}
    return Loop(
        f"loop {next(_FRESH)}",
        (*(initial for initial, _, _ in flow.carried), *lists, *sorted(around)),
        (),
        (),
        (*flow.last.values(), *(slot for row in flow.collected.values() for slot in row)),
        body[-1].name,
        body=body,
        carried=flow.carried,
        items=[(slot, first, index) for (slot, _), first, index in zip(flow.items, lists, indices, strict=True)],
        collected=flow.collected,
        last=flow.last,
        variables=[*abstraction.names, *abstraction.literals],
        rows=[[*((s, True) for s in one[0]), *((text, False) for _, text in one[1])] for one in abstraction.given],
    )
