"""`compare_symbols` and `compare_params`: the differences of two networks, and of their arrays.

Nodes are matched by name. Two networks that differ in names only, node by node in the order in which they run, are
reported as renamed: matching by name would call everything new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from symjax_nnvm.ir.indexed_graph import IndexedGraph
from symjax_nnvm.ir.node import Node
from symjax_nnvm.ir.types import Shape, format_shape
from symjax_nnvm.symbol.call_arguments import expect_symbol
from symjax_nnvm.symbol.symbol import Symbol

_CHUNK = 1 << 20
"""Elements compared at a time, in float64: no second copy of a large array is made."""


@dataclass(frozen=True)
class Changed:
    """Reports something about a node that differs: `what` is `operator`, `input 0`, or a parameter; '' where there is
    none."""

    node: str
    what: str
    a: str
    b: str


@dataclass(frozen=True)
class SymbolDifference:
    """Lists nodes by name: only in b, in a, with other parameters, other inputs; renamed: (in a, in b); heads."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[Changed, ...] = ()
    rewired: tuple[Changed, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return any((self.added, self.removed, self.changed, self.rewired, self.renamed))

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict."""
        return asdict(self)


@dataclass(frozen=True)
class ArrayDifference:
    """Compares arrays of one name. max_abs, max_rel: the largest difference, and relative to the element of a; None
    when shapes differ. A NaN equals a NaN; next to a number it differs by infinity."""

    name: str
    shape_a: Shape
    shape_b: Shape
    dtype_a: str
    dtype_b: str
    max_abs: float | None
    max_rel: float | None

    def row(self) -> tuple[str, ...]:
        """Name, shape, dtype, largest difference, largest relative difference, as text."""
        shapes = (format_shape(self.shape_a), format_shape(self.shape_b))
        return (
            self.name,
            *(x if x == y else f"{x} → {y}" for x, y in (shapes, (self.dtype_a, self.dtype_b))),
            *("-" if value is None else f"{value:.3g}" for value in (self.max_abs, self.max_rel)),
        )


@dataclass(frozen=True)
class ParamsDifference:
    """Names only in b, only in a, and arrays that differ."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    arrays: tuple[ArrayDifference, ...]

    def __bool__(self) -> bool:
        return any((self.added, self.removed, self.arrays))

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict."""
        return asdict(self)


def compare_symbols(a: Symbol, b: Symbol) -> SymbolDifference:
    """Compare two networks: structure, operators, parameters and attributes of nodes.

    Parameters are compared by value: `(3,3)` equals `(3, 3)`, and a written default equals a missing one. Subgraphs are
    compared as text.

    Args:
        a: the first network.
        b: the second network.

    Returns:
        The differences of `b` from `a`.
    """
    for symbol in (a, b):
        expect_symbol(symbol, "compare_symbols")
    first, second = IndexedGraph(a.outputs), IndexedGraph(b.outputs)
    renamed = _renamed(first, second)
    if renamed is not None:
        return SymbolDifference(renamed=renamed)
    ours, theirs = _by_name(first), _by_name(second)
    changed: list[Changed] = []
    rewired: list[Changed] = []
    for key, nid in ours.items():
        other = theirs.get(key)
        if other is None:
            continue
        name = first.nodes[nid].source.name
        changed += [Changed(name, *row) for row in _said_otherwise(first.nodes[nid].source, second.nodes[other].source)]
        rewired += [Changed(name, *row) for row in _read_otherwise(_reads(first, nid), _reads(second, other), "input")]
    heads = ([_entry(first, *head) for head in first.outputs], [_entry(second, *head) for head in second.outputs])
    rewired += [Changed("", *row) for row in _read_otherwise(*heads, "output")]
    return SymbolDifference(
        added=tuple(second.nodes[nid].source.name for key, nid in theirs.items() if key not in ours),
        removed=tuple(first.nodes[nid].source.name for key, nid in ours.items() if key not in theirs),
        changed=tuple(changed),
        rewired=tuple(rewired),
    )


def compare_params(
    a: Mapping[str, Any],
    b: Mapping[str, Any],
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    watch: Callable[[list[str]], Iterable[str]] = iter,
) -> ParamsDifference:
    """Compare two dicts of arrays; elements x of `a` and y of `b` are equal when |x - y| ≤ atol + rtol·|x|.

    Args:
        a: the first arrays, by name.
        b: the second arrays, by name.
        rtol: the relative tolerance.
        atol: the absolute tolerance.
        watch: gets the list of common names and yields them one after the other; it can show progress.

    Returns:
        The differences of `b` from `a`.
    """
    differences = (_compare(name, a[name], b[name], rtol, atol) for name in watch([name for name in a if name in b]))
    return ParamsDifference(
        tuple(name for name in b if name not in a),
        tuple(name for name in a if name not in b),
        tuple(difference for difference in differences if difference is not None),
    )


def _compare(name: str, a: Any, b: Any, rtol: float, atol: float) -> ArrayDifference | None:
    """Return the difference of two arrays; None when there is none."""
    a, b = np.asarray(a), np.asarray(b)
    facts = (name, a.shape, b.shape, str(a.dtype), str(b.dtype))
    if a.shape != b.shape:
        return ArrayDifference(*facts, None, None)
    max_abs = max_rel = 0.0
    differs = a.dtype != b.dtype
    flat_a, flat_b = a.reshape(-1), b.reshape(-1)
    for start in range(0, a.size, _CHUNK):
        x = flat_a[start : start + _CHUNK].astype(np.float64)
        y = flat_b[start : start + _CHUNK].astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            difference = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.abs(x - y))
            difference[np.isnan(difference)] = np.inf
            relative = np.where(difference == 0.0, 0.0, difference / np.abs(x))
            unequal = (difference > atol + rtol * np.abs(x)) | ~np.isfinite(difference)
        relative[np.isnan(relative)] = np.inf
        differs = differs or bool(unequal.any())
        max_abs, max_rel = max(max_abs, float(difference.max())), max(max_rel, float(relative.max()))
    return ArrayDifference(*facts, max_abs, max_rel) if differs else None


def _renamed(a: IndexedGraph, b: IndexedGraph) -> tuple[tuple[str, str], ...] | None:
    """Return the names that differ if nothing else does; None if something else differs, or all names are equal."""
    if len(a.nodes) != len(b.nodes) or a.outputs != b.outputs:
        return None
    pairs = []
    for x, y in zip(a.nodes, b.nodes, strict=True):
        if x.inputs != y.inputs or x.control_deps != y.control_deps or _said_otherwise(x.source, y.source):
            return None
        if x.source.name != y.source.name:
            pairs.append((x.source.name, y.source.name))
    return tuple(pairs)


def _by_name(index: IndexedGraph) -> dict[tuple[str, int], int]:
    """Map (name, how many of that name came before) → node number."""
    counts: dict[str, int] = {}
    numbers = {}
    for nid, node in enumerate(index.nodes):
        name = node.source.name
        numbers[name, counts.setdefault(name, 0)] = nid
        counts[name] += 1
    return numbers


def _said_otherwise(a: Node, b: Node) -> list[tuple[str, str, str]]:
    """Return (what, in a, in b) of a node's operator, parameters, attributes and subgraphs."""
    names = ["variable" if node.op is None else node.op.name for node in (a, b)]
    if names[0] != names[1]:
        return [("operator", names[0], names[1])]
    rows = []
    schema = None if a.op is None else a.op.params
    for key in dict.fromkeys((*a.attrs.dict, *b.attrs.dict)):
        if a.op is None and not (key.startswith("__") and key.endswith("__")):
            continue  # what MXNet copies from the operator that a variable was made for
        x, y = a.attrs.dict.get(key), b.attrs.dict.get(key)
        if x == y:
            continue
        field = None if schema is None else schema.canonical(key)
        if field is not None and schema is not None and field in schema.fields:
            if getattr(a.attrs.parsed, field) == getattr(b.attrs.parsed, field):
                continue
            x, y = (str(getattr(node.attrs.parsed, field)) for node in (a, b))
        rows.append((key, x or "", y or ""))
    subgraphs = [[Symbol(s.outputs).tojson() for s in node.attrs.subgraphs] for node in (a, b)]
    if subgraphs[0] != subgraphs[1]:
        rows.append(("subgraphs", f"{len(subgraphs[0])}", f"{len(subgraphs[1])}, or what they do"))
    return rows


def _reads(index: IndexedGraph, nid: int) -> list[str]:
    return [_entry(index, *entry) for entry in index.nodes[nid].inputs]


def _entry(index: IndexedGraph, nid: int, number: int, version: int) -> str:
    """Return an entry for people: the node's name, and the output's number where it is not the first."""
    return index.nodes[nid].source.name + (f"[{number}]" if number else "")


def _read_otherwise(a: list[str], b: list[str], what: str) -> list[tuple[str, str, str]]:
    count = max(len(a), len(b))
    padded = zip(a + [""] * (count - len(a)), b + [""] * (count - len(b)), strict=True)
    return [(f"{what} {i}", x, y) for i, (x, y) in enumerate(padded) if x != y]
