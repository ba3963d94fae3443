"""The shapes of images: (height, width, channels) as they come from a file, or with the batch before it."""

from __future__ import annotations

from typing import Any

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.register import Shapes
from symjax_nnvm.ir.rules.axes import completed
from symjax_nnvm.ir.types import Shape, format_shape

_IMAGE = "(height, width, channels)"


def one_or_many(
    shape: Shape | None, layouts: str = "(height, width, channels), or (n, height, width, channels)"
) -> None:
    """Raise InferenceError for the shape of what is neither an image nor a batch of them."""
    if shape is not None and len(shape) not in (3, 4):
        raise InferenceError(f"Input image must have shape {layouts}", got=format_shape(shape))


def one_or_three(shape: Shape | None, axis: int) -> None:
    """Raise InferenceError for an image with other channels than 1 or 3."""
    if shape is not None and shape[axis] not in (None, 1, 3):
        problem = "The channel dimension of an input image has either 1 or 3 elements"
        raise InferenceError(problem, expected=f"1 or 3 on axis {axis}", got=format_shape(shape))


def one_image(p: Any, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
    """data (h, w, c) ↔ (h, w, c), of 1 channel or 3."""
    shape = completed(*ins, *outs) or (None, None, None)
    if len(shape) != 3:
        raise InferenceError(f"Input image must have shape {_IMAGE}", got=format_shape(shape))
    one_or_three(shape, -1)
    return [shape], [shape]
