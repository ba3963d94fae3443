"""The row of each thing in a drawing: below all that it reads, near to its readers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from symjax_nnvm.errors import GraphError

_ABREAST = 4
"""Things in a row that nothing leads to or from."""


def ranks(
    count: int, links: Iterable[tuple[int, int]], first: Collection[int] = (), last: Collection[int] = ()
) -> list[int]:
    """Return a row for each of `count` things, from 0 on, such that every link (from, to) leads at least one row down.

    The longest way from the top decides; what more things read than it reads itself moves down to the first of its
    readers, and with it the chains that hang from the top by nothing else; many things without links have several rows.
    first, last: things that have the first and the last row for themselves. Linear in things and links. Raises
    GraphError for links in a circle.
    """
    below: list[list[int]] = [[] for _ in range(count)]
    above: list[list[int]] = [[] for _ in range(count)]
    for source, target in links:
        below[source].append(target)
        above[target].append(source)
    order = _sorted(below, above)
    rows = [0] * count
    for thing in order:
        lowest = max((rows[source] for source in above[thing]), default=-1) + 1
        rows[thing] = lowest if thing in first else max(lowest, int(bool(first)))
    bottom = max((row for thing, row in enumerate(rows) if thing not in last), default=-1) + 1
    for thing in last:
        rows[thing] = bottom
    for thing in reversed(order):
        if below[thing] and len(below[thing]) >= len(above[thing]) and thing not in first:
            rows[thing] = min(rows[target] for target in below[thing]) - 1
    alone = [thing for thing in range(count) if not below[thing] and not above[thing]]
    for i, thing in enumerate(alone):
        rows[thing] += i // _ABREAST
    used = {row: number for number, row in enumerate(sorted(set(rows)))}
    return [used[row] for row in rows]


def _sorted(below: Sequence[Sequence[int]], above: Sequence[Sequence[int]]) -> list[int]:
    """Return things in an order in which each comes after all that it reads."""
    waits = [len(sources) for sources in above]
    order = [thing for thing, number in enumerate(waits) if not number]
    for thing in order:
        for target in below[thing]:
            waits[target] -= 1
            if not waits[target]:
                order.append(target)
    if len(order) < len(below):
        raise GraphError("The arrows of a drawing form a cycle.")
    return order
