"""The layout of a drawing. Every frame is laid out by itself, and is then one thing among those around it.

An arrow that leaves or enters a frame does so through a gate, at the frame's lower or upper edge. So no two boxes
overlap, nothing foreign is inside a frame, and no line runs through a box: it has a place of its own in every row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from symjax_nnvm.drawing.description import Arrow, Box, Drawing
from symjax_nnvm.drawing.grid import Link
from symjax_nnvm.drawing.rows import RowPiece, Rows, Thing, in_rows
from symjax_nnvm.drawing.text_width import text_width

TEXT, SMALL = 11.0, 9.5
LINE = 13.0
"""Sizes of the first line of a box and of all others, and how far apart lines are."""

RING = 3.0
"""How far outside of a head's border its second one is."""

_PAD, _SIDES = 5.0, 10.0  # inside of a box, above and beside the text
_LABEL = 12.0  # what an arrow's label takes below a box
_FRAME = 9.0  # inside of a frame, on every side
_ROOT = -1


@dataclass(frozen=True)
class Rectangle:
    """The place and size of a box or a frame, in points from the upper left."""

    left: float
    top: float
    width: float
    height: float


@dataclass
class FrameLayout:
    """The places of all parts. boxes: by key. frames: by number. lines: (dashed, pieces); labels: (left, base
    line, text); tips: where arrows end."""

    width: float = 0.0
    height: float = 0.0
    boxes: dict[str, Rectangle] = field(default_factory=dict)
    frames: dict[int, Rectangle] = field(default_factory=dict)
    frame_texts: dict[int, float] = field(default_factory=dict)
    lines: list[tuple[bool, list[RowPiece]]] = field(default_factory=list)
    labels: list[tuple[float, float, str]] = field(default_factory=list)
    tips: list[tuple[float, float]] = field(default_factory=list)


Trunk = tuple[str, str, bool]
"""Arrows of one source, label and style run together."""

Member = tuple[str, Any]
"""A thing in a frame: ("box", key), ("frame", number), ("in", trunk) or ("out", trunk): its gates."""


@dataclass
class _Level:
    """The contents of a frame, and once it is laid out, its size and places."""

    members: dict[Member, int] = field(default_factory=dict)
    links: dict[tuple[Member, Member, Trunk], None] = field(default_factory=dict)
    things: list[Thing] = field(default_factory=list)
    rows: Rows | None = None
    left: float = 0.0
    width: float = 0.0
    height: float = 0.0
    head: float = 0.0
    text_at: float = 0.0

    def add(self, member: Member) -> Member:
        self.members.setdefault(member, len(self.members))
        return member

    def middle(self, member: Member) -> float:
        """Return how far the middle of a gate is from the frame's left edge."""
        assert self.rows is not None
        return self.rows.middles[self.members[member]] - self.left


def lay_out(drawing: Drawing) -> FrameLayout:
    """Return places for everything in a drawing, the same for the same drawing. Raises GraphError for cycles."""
    return _Plan(drawing).layout()


class _Plan:
    """The levels of a drawing: one for each frame, and the outermost."""

    def __init__(self, drawing: Drawing):
        self._drawing = drawing
        self._boxes = {box.key: box for box in drawing.boxes}
        self._parent = {number: _ROOT if f.parent is None else f.parent for number, f in enumerate(drawing.frames)}
        self._levels = {number: _Level() for number in (*self._parent, _ROOT)}
        self._labels: dict[str, dict[tuple[str, bool], float]] = {box.key: {} for box in drawing.boxes}
        for arrow in drawing.arrows:
            self._labels[arrow.source][arrow.label, arrow.dashed] = 0.0
        for labels in self._labels.values():
            apart = max((text_width(label, SMALL) for label, _ in labels), default=0.0) + 10
            for i, key in enumerate(labels):
                labels[key] = (i - (len(labels) - 1) / 2) * apart
        for box in drawing.boxes:
            self._levels[_ROOT if box.frame is None else box.frame].add(("box", box.key))
        for number, parent in self._parent.items():
            self._levels[parent].add(("frame", number))
        for arrow in drawing.arrows:
            self._connect(arrow)

    def _around(self, key: str) -> list[int]:
        """Return the frames that a box is in, the innermost first, and the outermost level."""
        frame = self._boxes[key].frame
        frames = [_ROOT if frame is None else frame]
        while frames[-1] != _ROOT:
            frames.append(self._parent[frames[-1]])
        return frames

    def _connect(self, arrow: Arrow) -> None:
        """Link an arrow's ends on every level that it crosses, through gates."""
        trunk: Trunk = (arrow.source, arrow.label, arrow.dashed)
        out, into = self._around(arrow.source), self._around(arrow.target)
        common = next(level for level in out if level in into)
        at: Member = ("box", arrow.source)
        for number in out[: out.index(common)]:
            level = self._levels[number]
            level.links[at, level.add(("out", trunk)), trunk] = None
            at = ("frame", number)
        for number, inner in zip(
            into[into.index(common) :: -1], [*into[: into.index(common)][::-1], None], strict=True
        ):
            target: Member = ("box", arrow.target) if inner is None else ("frame", inner)
            self._levels[number].links[at, target, trunk] = None
            if inner is not None:
                at = self._levels[inner].add(("in", trunk))

    # -- sizes, from the innermost frame on --------------------------------------------------------------------------

    def layout(self) -> FrameLayout:
        for number in (*reversed(self._parent), _ROOT):  # a frame has a greater number than the one it is in
            self._settle(number)
        root = self._levels[_ROOT]
        assert root.rows is not None
        layout = FrameLayout(root.width, root.height)
        corners = {_ROOT: (0.0, 0.0)}
        for number in (_ROOT, *self._parent):
            self._draw(number, *corners[number], layout, corners)
        return layout

    def _settle(self, number: int) -> None:
        level = self._levels[number]
        level.things = [self._thing(member) for member in level.members]
        links = [
            Link(*(level.members[a], level.members[b], trunk), *self._ends(a, b, trunk), self._boxes[trunk[0]].aside)
            for a, b, trunk in level.links
        ]
        gates = {kind: {n for member, n in level.members.items() if member[0] == kind} for kind in ("in", "out")}
        level.rows = in_rows(level.things, links, gates["in"], gates["out"])
        lines = self._drawing.frames[number].lines if number != _ROOT else ()
        pad = _FRAME if number != _ROOT else 6.0
        left, right = level.rows.left - pad, level.rows.right + pad
        if lines:  # no line runs through the text: it is left or right of all gates
            room = max(text_width(line, SMALL) for line in lines) + 16
            entering = [level.rows.middles[n] for n in gates["in"]]
            beside = min(entering, default=right) - room, max(entering, default=left) + room
            if max(left - beside[0], 0) <= max(beside[1] - right, 0):
                left = min(left, beside[0])
                level.text_at = 8.0
            else:
                level.text_at = max(entering) + 8 - left
                right = max(right, beside[1])
            right = max(right, left + room)
        level.head = LINE * len(lines) + pad
        level.left, level.width = left, right - left
        level.height = level.rows.height + level.head + pad

    def _thing(self, member: Member) -> Thing:
        kind, what = member[0], member[1]
        if kind == "frame":
            level = self._levels[what]
            return Thing(0.0, level.width, level.height)
        if kind != "box":
            return Thing(0.0, 0.0, 0.0, margin=5.0)
        box = self._boxes[what]
        width, height = size_of(box)
        labels = self._labels[box.key]
        reach = max((x + 4 + text_width(label, SMALL) for (label, _), x in labels.items() if label), default=0.0)
        half = max(width / 2, *(abs(x) + 8 for x in labels.values()), 0.0) if labels else width / 2
        ring = RING * box.head
        under = _LABEL if any(label for label, _ in labels) else 0.0
        return Thing(half + ring, max(half + ring, reach), height + 2 * ring, under)

    def _ends(self, a: Member, b: Member, trunk: Trunk) -> tuple[float, float]:
        return self._out(a, trunk), self._into(b, trunk)

    def _out(self, member: Member, trunk: Trunk) -> float:
        if member[0] == "frame":
            return self._levels[member[1]].middle(("out", trunk))
        return self._labels[trunk[0]][trunk[1:]] if member == ("box", trunk[0]) else 0.0

    def _into(self, member: Member, trunk: Trunk) -> float:
        return self._levels[member[1]].middle(("in", trunk)) if member[0] == "frame" else 0.0

    # -- places, from the outermost level on -------------------------------------------------------------------------

    def _draw(
        self, number: int, x: float, y: float, layout: FrameLayout, corners: dict[int, tuple[float, float]]
    ) -> None:
        """Place the contents of a level whose upper left corner is (x, y)."""
        level = self._levels[number]
        rows = level.rows
        assert rows is not None
        if number != _ROOT:
            layout.frames[number] = Rectangle(x, y, level.width, level.height)
            layout.frame_texts[number] = x + level.text_at
        dx, dy = x - level.left, y + level.head
        edges = {"in": y, "out": y + level.height}
        for member, n in level.members.items():
            middle, top = rows.middles[n] + dx, rows.tops[n] + dy
            if member[0] == "frame":
                corners[member[1]] = (middle, top)
            elif member[0] == "box":
                self._put(self._boxes[member[1]], middle, top, level.things[n], layout)
            else:  # from the frame's edge to where the gate's row is
                near = rows.tops[n] + dy
                ends = sorted((edges[member[0]], near))
                layout.lines.append((member[1][2], [RowPiece(middle, ends[0], ends[1], middle, ends[1], ends[1])]))
        for (_, trunk), pieces in rows.lines.items():
            moved = [RowPiece(p.x1 + dx, p.y1 + dy, p.y2 + dy, p.x2 + dx, p.y3 + dy, p.y4 + dy) for p in pieces]
            layout.lines.append((trunk[2], moved))
        for _, target, _ in level.links:
            if target[0] == "box":
                n = level.members[target]
                layout.tips.append((rows.middles[n] + dx, rows.tops[n] + dy))

    def _put(self, box: Box, middle: float, top: float, thing: Thing, layout: FrameLayout) -> None:
        ring = RING * box.head
        half = thing.left - ring
        layout.boxes[box.key] = Rectangle(middle - half, top + ring, 2 * half, thing.height - 2 * ring)
        for (label, _), x in self._labels[box.key].items():
            if label:
                layout.labels.append((middle + x + 4, top + thing.height + SMALL, label))


def size_of(box: Box) -> tuple[float, float]:
    """Return width and height that a box's text needs."""
    sizes = (TEXT, *[SMALL] * (len(box.lines) - 1))
    width = max(text_width(line, size) for line, size in zip(box.lines, sizes, strict=True)) + 2 * _SIDES
    return max(width, 36.0) + 8 * box.oval, LINE * len(box.lines) + 2 * _PAD
