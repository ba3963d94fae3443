"""Shape rules written with named dimensions: `"n c h w"`, `"1 a 4"`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.types import Shape, format_shape

Dims = dict[str, int | None]


def read_dims(patterns: Sequence[str], shapes: Sequence[Shape | None], **known_dims: int | None) -> Dims:
    """Return the dimensions of shapes, by the names in their patterns; the first shape that has one decides.

    known_dims: dimensions known beforehand. A shape of another rank than its pattern is ignored: the rule then proposes
    a shape that conflicts with it, and the inference pass words the error.
    """
    dims: Dims = dict(known_dims)
    for pattern, shape in zip(patterns, shapes, strict=True):
        names = pattern.split()
        for name, size in zip(names, shape if shape is not None and len(shape) == len(names) else (), strict=False):
            if not name.isdecimal() and dims.get(name) is None:
                dims[name] = size
    return dims


def of_rank(shape: Shape | None, rank: int, problem: str, **facts: Any) -> Shape:
    """Return a shape of this rank; for None all sizes are unknown. Raises InferenceError: problem and facts."""
    if shape is None:
        return (None,) * rank
    if len(shape) != rank:
        raise InferenceError(problem, **{"expected": f"{rank} axes", "got": format_shape(shape), **facts})
    return shape


def image_shape(shape: Shape | None, name: str) -> Shape:
    """Return the shape of a batch of images, an input's. Raises InferenceError for another rank."""
    return of_rank(shape, 4, "Input data should be 4D in (batch, channel, y, x)", input=name)


def shapes_of(patterns: Sequence[str], dims: Mapping[str, int | None]) -> list[Shape]:
    """Return the shapes of patterns; a dimension that is not known is None."""
    return [tuple(int(d) if d.isdecimal() else dims.get(d) for d in pattern.split()) for pattern in patterns]
