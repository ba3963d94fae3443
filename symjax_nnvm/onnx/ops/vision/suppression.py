"""Pieces that the detectors' ONNX forms share: boxes as four tensors, ordering, and greedy suppression as a loop.

Suppression works on batches of candidates (b, k), best first. NonMaxSuppression would give the numbers of those that
stay, one image's after the other's; MXNet keeps every box in its place and marks what goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.tensors import Tensor

Sides = Sequence[Tensor]
"""left, top, right, bottom."""


def column(g: Builder, rows: Tensor, i: int) -> Tensor:
    """An element of the last axis."""
    return g.op("Gather", rows, g.constant(i, "int64"), axis=-1)


def half(g: Builder, x: Tensor) -> Tensor:
    """x / 2."""
    return g.op("Mul", x, 0.5)


def sides(g: Builder, boxes: Tensor, form: str = "corner", start: int = 0) -> Sides:
    """The sides of boxes (…, 4), or of those that begin at a place of rows."""
    a, b, c, d = (column(g, boxes, start + i) for i in range(4))
    if form == "corner":
        return [a, b, c, d]
    x, y = half(g, c), half(g, d)
    return [g.op("Sub", a, x), g.op("Sub", b, y), g.op("Add", a, x), g.op("Add", b, y)]


def shared_area(g: Builder, a: Sides, b: Sides) -> Tensor:
    """Areas of the intersections."""
    lengths = [g.op("Sub", g.op("Min", a[i + 2], b[i + 2]), g.op("Max", a[i], b[i])) for i in (0, 1)]
    return g.op("Mul", *(g.op("Max", length, 0.0) for length in lengths))


def area(g: Builder, a: Sides) -> Tensor:
    """Areas, with their signs."""
    return g.op("Mul", g.op("Sub", a[2], a[0]), g.op("Sub", a[3], a[1]))


def ratio(g: Builder, shared: Tensor, union: Tensor) -> Tensor:
    """shared / union, and 0 where the union is empty."""
    empty = g.op("Equal", union, 0.0)
    divided = g.op("Div", shared, g.op("Where", empty, g.constant(1, union.dtype), union))
    return g.op("Where", empty, g.constant(0, union.dtype), divided)


def overlap(g: Builder, a: Sides, b: Sides) -> Tensor:
    """Intersection over union; 0 where the union is empty."""
    shared = shared_area(g, a, b)
    return ratio(g, shared, g.op("Sub", g.op("Add", area(g, a), area(g, b)), shared))


def descending(g: Builder, scores: Tensor, valid: Tensor, count: int) -> Tensor:
    """The places of the best of scores (b, n), ties in order, those that are not valid at the end: int64 (b, count)."""
    keys = g.op("Where", valid, scores, g.constant(-np.inf, scores.dtype))
    return g.ops("TopK", keys, [count], dtypes=[None, "int64"], axis=-1)[1]


def in_front(g: Builder, mask: Tensor, count: int) -> Tensor:
    """The places where a mask (b, n) holds, in order, then -1: int64 (b, n)."""
    numbers = g.constant(np.arange(count, 0, -1))
    keys = g.op("Where", mask, numbers, g.constant(0, "int64"))
    values, places = g.ops("TopK", keys, [count], dtypes=["int64", "int64"], axis=-1)
    return g.op("Where", g.op("Greater", values, 0), places, g.constant(-1, "int64"))


def rows_at(g: Builder, rows: Tensor, places: Tensor) -> Tensor:
    """Rows (b, n, m) at places (b, k), of which none is negative: (b, k, m)."""
    return g.op("GatherND", rows, g.op("Unsqueeze", places, [-1]), batch_dims=1)


def survivors(g: Builder, candidates: Tensor, count: int, rivals: Callable[[Builder, Tensor], Tensor]) -> Tensor:
    """Greedy suppression: candidates (b, k) in order, each of which removes its later rivals unless it is removed.

    rivals: (builder of the loop's body, number i) → (b, k) booleans: the candidates to remove if i stays.
    """
    inner = g.body()
    number, going = inner.body_input("int64", [()]), inner.body_input("bool", [()])
    remaining = inner.body_input("bool", [(None, count)])
    stays = inner.op("Gather", remaining, inner.op("Reshape", number, [1]), axis=1)
    later = inner.op("Greater", np.arange(count), number, dtype="bool")
    goes = inner.op("And", inner.op("And", stays, later), rivals(inner, number))
    still = inner.op("And", remaining, inner.op("Not", goes))
    body = inner.end_body([number, going, remaining], [inner.op("Identity", going), still])
    return g.op("Loop", g.constant(count, "int64"), g.constant(True), candidates, dtype="bool", body=body)


def picked(g: Builder, tensor: Tensor, number: Tensor) -> Tensor:
    """The column of a number of a tensor (b, k): (b, 1)."""
    return g.op("Gather", tensor, g.op("Reshape", number, [1]), axis=1)
