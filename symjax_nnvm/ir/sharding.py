"""`__sharding__`: over which axes of a mesh of devices each axis of an array is split, as text in a graph.

`"data, None"`: the first axis over the mesh's axis `data`, the second not at all; `"(data, model)"`: the first axis
over both. Axes that are not named are not split. The code that runs the graph gives these names a meaning, or none.
"""

from __future__ import annotations

import re
from functools import lru_cache

from symjax_nnvm.errors import ParamError

__all__ = ["SHARDING", "MeshAxes", "axes_text", "mesh_axes", "split_over"]

SHARDING = "__sharding__"
"""The attribute, of a variable or of a node, whose visible outputs it is about."""

MeshAxes = tuple[str | tuple[str, ...] | None, ...]
"""For each axis of an array the axis of the mesh that it is split over, several, or None."""

_FIX = 'Write one word for each axis of the array: "model, None", or "(data, model)" where one axis is split over two.'
_ITEM = re.compile(r"(?:\s*\(([^()]*)\)\s*|([^(),]*))(?:,|$)")
_NAME = re.compile(r"[A-Za-z_]\w*")
_KEPT = 1024  # texts
_LONGEST = 4096  # characters; files have no more for a few names


@lru_cache(_KEPT)
def mesh_axes(text: str) -> MeshAxes:
    """Return the axes that an attribute's text names. Raises ParamError for what is no such text, and for an axis that
    is named twice."""
    whole = text.strip().removesuffix(",")
    if not whole or len(text) > _LONGEST:
        raise _malformed(text)
    axes: list[str | tuple[str, ...] | None] = []
    at = 0
    while at < len(whole):
        match = _ITEM.match(whole, at)
        if match is None:
            raise _malformed(text)
        at = match.end()
        group, word = match.groups()
        if group is None:
            axes.append(None if word.strip() == "None" else _name(word, text))
        else:
            axes.append(tuple(_name(axis, text) for axis in group.strip().removesuffix(",").split(",")))
    if whole.endswith(","):
        raise _malformed(text)
    names = split_over(tuple(axes))
    if twice := sorted({name for name in names if names.count(name) > 1}):
        problem = f"{SHARDING} splits two axes over {', '.join(twice)}"
        raise ParamError(problem, expected="an axis of the mesh once", got=repr(text), fix=_FIX)
    return tuple(axes)


def split_over(axes: MeshAxes) -> list[str]:
    """Return all axes of the mesh that are named, in order."""
    groups = ((entry,) if isinstance(entry, str) else entry or () for entry in axes)
    return [name for group in groups for name in group]


def axes_text(axes: MeshAxes) -> str:
    """Return the text that `mesh_axes` reads."""
    return ", ".join(f"({', '.join(axis)})" if isinstance(axis, tuple) else str(axis) for axis in axes)


def _name(word: str, text: str) -> str:
    name = word.strip().strip("'\"")
    if not _NAME.fullmatch(name) or name == "None":
        raise _malformed(text)
    return name


def _malformed(text: str) -> ParamError:
    return ParamError(
        f"Attribute {SHARDING} must name axes of a mesh", expected="names of axes, or None", got=repr(text), fix=_FIX
    )
