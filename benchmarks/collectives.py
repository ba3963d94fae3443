"""What devices send each other in a compiled program: kind, count and bytes, read off its HLO."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")

_INSTRUCTION = re.compile(
    rf"= (?P<result>\([^=]*?\)|\S+) (?P<kind>{'|'.join(KINDS)})(?P<start>-start)?\((?P<operands>[^)]*)\)"
)
_COMMENT = re.compile(r"/\*.*?\*/")
_ARRAY = re.compile(r"(?P<dtype>[a-z]+\d*)\[(?P<shape>[\d,]*)\]")
_BITS = {"pred": 8, "bf16": 16, "f16": 16, "f32": 32, "f64": 64, "c64": 64}


class Sent(NamedTuple):
    """Of one kind of collective: instructions, the arrays in them (XLA sends several at once), and bytes of results."""

    instructions: int
    arrays: int
    bytes: int


def collectives(hlo: str | None) -> dict[str, Sent]:
    """Kind → what is sent, of the text of an optimised program (`compiled.as_text()`).

    An instruction counts once, also inside a loop. XLA:CPU has no reduce-scatter: it writes an all-reduce, of which
    each device keeps a part.
    """
    counts: Counter[str] = Counter()
    arrays: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for match in _INSTRUCTION.finditer(_COMMENT.sub("", hlo or "")):
        found = _ARRAY.findall(match["result"])
        if match["start"] and match["kind"] != "all-reduce":  # (operand, result)
            found = found[len(found) // 2 :]
        counts[match["kind"]] += 1
        arrays[match["kind"]] += len(found)
        sizes[match["kind"]] += sum(_bytes(dtype, shape) for dtype, shape in found)
    return {kind: Sent(counts[kind], arrays[kind], sizes[kind]) for kind in KINDS if counts[kind]}


def total_bytes(sent: Mapping[str, Sent]) -> int:
    """Of all kinds together."""
    return sum(each.bytes for each in sent.values())


def _bytes(dtype: str, shape: str) -> int:
    elements = 1
    for size in filter(None, shape.split(",")):
        elements *= int(size)
    return elements * (_BITS.get(dtype) or int(re.sub(r"\D", "", dtype))) // 8
