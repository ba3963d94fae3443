"""im2col and col2im: windows of data as columns, and columns added up where their windows overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, apply
from symjax_nnvm.ir.params import Tuple, param
from symjax_nnvm.ir.register import Shapes, float_type, register_op
from symjax_nnvm.ir.rules.axes import known, size_of
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.types import Dim, Shape, format_shape
from symjax_nnvm.ops.nn.convolution import (
    WindowParams,
    output_size,
    padded,
    unequal_ranks,
)


class Im2ColParams(WindowParams):
    """Parameters of im2col: those of the window."""


class Col2ImParams(Im2ColParams):
    positional: ClassVar = ("output_size", "kernel", "stride", "dilate", "pad")
    output_size: Tuple = param(ge=1, doc="spatial sizes of the result")

    def check(self) -> str | None:
        if len(self.output_size) != len(self.kernel):
            return unequal_ranks("output_size", self.output_size, self.kernel)
        return super().check()


def _ranked(shape: Shape | None, ndim: int, what: str) -> Shape:
    if shape is None:
        return (None,) * ndim
    if len(shape) != ndim:
        problem = f"The number of axes of {what} does not fit the kernel"
        raise InferenceError(problem, param="kernel", expected=f"{ndim} axes", got=format_shape(shape))
    return shape


def window_counts(p: Im2ColParams, sizes: Sequence[Dim]) -> tuple[Dim, ...]:
    """The number of windows along each spatial axis of some sizes. Raises InferenceError when there are none."""
    return tuple(output_size(size, step) for size, step in zip(sizes, p.steps, strict=True))


def _channels(p: Im2ColParams, rows: Dim) -> Dim:
    if rows is not None and rows % p.window_size:
        raise InferenceError(
            "Every channel has a row for each element of the window",
            param="kernel",
            expected=f"a multiple of {p.window_size} rows",
            got=rows,
        )
    return None if rows is None else rows // p.window_size


def _im2col_shapes(p: Im2ColParams, ins: Shapes, outs: Shapes):
    """data (n, c, …d) → columns (n, c · window, number of windows)."""
    data, columns = _ranked(ins[0], len(p.kernel) + 2, "data"), _ranked(outs[0], 3, "the columns")
    batch = known(data[0], columns[0])
    channels = known(data[1], _channels(p, columns[1]))
    rows = None if channels is None else channels * p.window_size
    return [(batch, channels, *data[2:])], [(batch, rows, size_of(window_counts(p, data[2:])))]


def _col2im_shapes(p: Col2ImParams, ins: Shapes, outs: Shapes):
    """data (n, c · window, number of windows) → (n, c, …output_size)."""
    (image,), (columns,) = _im2col_shapes(p, [(*_ranked(outs[0], len(p.kernel) + 2, "data")[:2], *p.output_size)], ins)
    return [columns], [image]


def _window(node: Node) -> dict[str, Any]:
    """The parameters of the window that the node has."""
    return {
        name: getattr(node.attrs.parsed, name) for name in Im2ColParams.__dataclass_fields__ if name in node.attrs.dict
    }


register_op(
    "im2col",
    params=Im2ColParams,
    inputs=("data",),
    infer_shape=_im2col_shapes,
    infer_type=float_type,
    flops=0,
    workspace=padded(lambda ins, outs: ins[0]),
    doc="The windows of data as columns, their elements in the order of data: what a convolution multiplies with its "
    "weight. Over one and three axes too, where MXNet fails.",
)
linear(
    "im2col",
    of="data",
    adjoint="_backward_im2col",
    workspace=padded(lambda ins, outs: ins[1]),
    given=True,
    doc="Gradient of im2col: columns added up where their windows overlap, in the shape of data.",
)
register_op(
    "col2im",
    params=Col2ImParams,
    inputs=("data",),
    infer_shape=_col2im_shapes,
    infer_type=float_type,
    gradient=lambda node, ograds: [apply("im2col", ograds[0], **_window(node))],
    flops="as many sums as windows meet in an element",
    workspace=padded(lambda ins, outs: outs[0]),
    doc="Columns added up where their windows overlap, in an array of spatial sizes output_size: the transpose of "
    "im2col, not its inverse. Over one and three axes too, where MXNet fails.",
)
