"""The contents of a drawing, before its layout: boxes, the frames around them, and the arrows between them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Box:
    """A node. key: by which arrows name it. lines: its text, one printable line each. facts: the text shown
    under the pointer. colour: `#rrggbb`. oval: an input. head: has a double border. frame: the number of the frame it
    is in. aside: stands beside the others' lines, and moves no other box."""

    key: str
    lines: tuple[str, ...]
    colour: str
    facts: str = ""
    oval: bool = False
    head: bool = False
    frame: int | None = None
    aside: bool = False


@dataclass(frozen=True)
class Border:
    """A border around boxes and other frames. lines: its text. parent: the frame it is in, one of a smaller
    number."""

    lines: tuple[str, ...]
    parent: int | None = None


@dataclass(frozen=True)
class Arrow:
    """An arrow from the box `source` down to the box `target`, by their keys. label: the text along it."""

    source: str
    target: str
    label: str = ""
    dashed: bool = False


@dataclass(frozen=True)
class Drawing:
    """Holds boxes, frames and arrows; arrows close no cycle. Every text is printable (`errors.printable`)."""

    title: str
    boxes: tuple[Box, ...]
    frames: tuple[Border, ...]
    arrows: tuple[Arrow, ...]
