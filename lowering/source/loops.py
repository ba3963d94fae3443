"""Steps that repeat in a row, each on what the one before it made, as one loop."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lowering.source.blocks import Call, abstract
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


_Spot = tuple[int, int]
"""A call of a step, and one of its outputs."""


@dataclass
class _Flow:
    """How values flow through the turns of a loop: each input of a step is made inside it, the same in all turns,
    carried, or an element of a list."""

    sources: dict[_Spot, _Spot | int]
    """By a call and the place of its input: where in the step it is made, or the slot that stands for it."""
    carried: list[tuple[int, int, _Spot]]
    items: list[tuple[int, Sequence[int]]]
    collected: set[_Spot]
    last: set[_Spot]


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
    elements = {s: (call.outputs, i) for call in calls if len(call.outputs) > MANY for i, s in enumerate(call.outputs)}
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
    makers = [{s: (p, i) for p, call in enumerate(turn) for i, s in enumerate(call.outputs)} for turn in turns]
    period, end = len(turns[0]), begin + len(turns) * len(turns[0])
    if any(call.template == "\ue000i0\ue001" for call in turns[0]):
        return None  # another name for an array is no step
    flow = _Flow({}, [], [], set(), set())
    kinds: dict[tuple[int, ...], int] = {}
    for place in range(period):
        for number in range(len(turns[0][place].inputs)):
            vector = tuple(turn[place].inputs[number] for turn in turns)
            inside = {one.get(slot) for one, slot in zip(makers, vector, strict=True)}
            before = {one.get(slot) for one, slot in zip(makers, vector[1:], strict=False)}
            if len(inside) == 1 and (spot := inside.pop()):
                flow.sources[place, number] = spot
                continue
            if vector not in kinds:
                kinds[vector] = vector[0] if len(set(vector)) == 1 else next(_FRESH)
                if len(set(vector)) == 1:
                    if vector[0] in makers[0]:
                        return None
                elif len(before) == 1 and (spot := before.pop()) and not any(vector[0] in one for one in makers):
                    flow.carried.append((vector[0], kinds[vector], spot))
                elif all(slot in elements for slot in vector) and len({id(elements[s][0]) for s in vector}) == 1:
                    flow.items.append((kinds[vector], vector))
                else:
                    return None
            flow.sources[place, number] = kinds[vector]
    after = {spot for _, _, spot in flow.carried}
    for k, one in enumerate(makers):
        for slot, spot in one.items():
            place = begin + k * period
            later = [reader for reader in readers.get(slot, ()) if reader >= place + period]
            if any(reader >= end for reader in later):
                (flow.last if k == len(turns) - 1 and spot in after else flow.collected).add(spot)
            if any(reader < end for reader in later) and spot not in after:
                return None
    whole = all(readers.get(turn[p].outputs[i], [0])[-1] >= end for turn in turns for p, i in flow.collected)
    flow.last -= flow.collected
    return flow if whole else None


def _loop(
    turns: Sequence[Sequence[Call]], flow: _Flow, elements: Mapping[int, tuple[Sequence[int], int]], names: Names
) -> Loop:
    places = [[("number", str(elements[vector[k]][1])) for _, vector in flow.items] for k in range(len(turns))]
    rows = [
        ([s for call in turn for s in call.strings], [*(c for call in turn for c in call.consts), *indices])
        for turn, indices in zip(turns, places, strict=True)
    ]
    abstraction = abstract(rows, names, "i")
    strings, consts = iter(abstraction.strings), iter(abstraction.consts)
    first, last = turns[0], turns[-1]
    inner = [
        replace(
            call,
            inputs=tuple(
                source if isinstance(source, int) else first[source[0]].outputs[source[1]]
                for source in (flow.sources[place, number] for number in range(len(call.inputs)))
            ),
            strings=tuple(next(strings) for _ in call.strings),
            consts=tuple((hint, next(consts)) for hint, _ in call.consts),
            name=last[place].name,
        )
        for place, call in enumerate(first)
    ]
    items = [(slot, elements[vector[0]][0][0], next(consts)) for slot, vector in flow.items]
    carried = [(initial, before, first[p].outputs[i]) for initial, before, (p, i) in flow.carried]
    collected = {first[p].outputs[i]: tuple(turn[p].outputs[i] for turn in turns) for p, i in sorted(flow.collected)}
    final = {first[p].outputs[i]: last[p].outputs[i] for p, i in sorted(flow.last)}
    around = [s for s in flow.sources.values() if isinstance(s, int) and s >= 0]
    inputs = (*(one[0] for one in carried), *(elements[v[0]][0][0] for _, v in flow.items), *around)
    return Loop(
        f"loop {next(_FRESH)}",
        tuple(dict.fromkeys(inputs)),
        (),
        (),
        (*final.values(), *(slot for row in collected.values() for slot in row)),
        last[-1].name,
        body=inner,
        carried=carried,
        items=items,
        collected=collected,
        last=final,
        variables=[*abstraction.names, *abstraction.literals],
        rows=[[*((s, True) for s in one[0]), *((text, False) for _, text in one[1])] for one in abstraction.given],
    )
