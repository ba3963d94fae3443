"""Pooling: the maximum, sum, mean or p-norm of every window of the spatial axes, and the gradients of each."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, apply
from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.params import Params, Tuple, param
from symjax_nnvm.ir.register import Entries, Shapes, float_type, register_op
from symjax_nnvm.ir.rules.axes import known
from symjax_nnvm.ir.rules.costs import Flops, Sizes, WorkspaceRule, extended
from symjax_nnvm.ir.rules.layout_rules import windowed
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.rules.quantized_form import quantized_as
from symjax_nnvm.ir.rules.size_symbols import is_at_most
from symjax_nnvm.ir.types import Dim, Shape, format_shape

Layout = Literal["NCDHW", "NCHW", "NCW", "NDHWC", "NHWC", "NWC"]

LONG = 1024
"""Windows of more elements are reduced along one axis after the other, and no further than data reach."""

DEFAULT_LAYOUTS = ("NCW", "NCHW", "NCDHW")


class PoolingParams(Params):
    kernel: Tuple = param((), ge=1, doc="window: one, two or three spatial sizes; not used by global_pool")
    pool_type: Literal["avg", "lp", "max", "sum"] = param("max", doc="what is computed from each window")
    global_pool: bool = param(False, doc="one window: all of each channel; kernel, stride and pad are not used")
    cudnn_off: bool = param(False, doc="accepted and without effect")
    pooling_convention: Literal["full", "same", "valid"] = param(
        "valid",
        doc="valid: windows inside the padded data; full: also one that sticks out at the end; same: one window each "
        "`stride` elements, from the first on",
    )
    stride: Tuple = param((), ge=1, doc="step of the window in each spatial axis; (): 1")
    pad: Tuple = param((), ge=0, doc="elements added on both sides of each spatial axis; (): none")
    p_value: int | None = param(None, ge=1, le=3, doc="lp only: the norm's p, 1, 2 or 3")
    count_include_pad: bool | None = param(None, doc="avg only: whether padding counts as elements; None: it does")
    layout: Layout | None = param(None, doc="order of the axes of data; None: channels first")

    def check(self) -> str | None:
        problem = self.check_windows()
        is_empty = self.pool_type in ("max", "avg") and any(map(operator.ge, self.pad, self.kernel))
        if problem is None and not self.global_pool and is_empty:
            return f"Parameter pad={self.pad}: expected less than kernel={self.kernel} has, as a window needs data"
        return problem

    def check_windows(self) -> str | None:
        """Return what does not fit, padding of whole windows apart."""
        if self.pool_type == "lp" and self.p_value is None:
            return "Parameter p_value is required for pool_type='lp', expected 1, 2 or 3"
        if self.global_pool:
            return None
        rank = len(self.kernel)
        if not 1 <= rank <= 3:
            return f"Parameter kernel={self.kernel}: {rank}D pooling not supported, expected 1, 2 or 3 sizes"
        if self.stride and len(self.stride) != rank:
            return f"Parameter stride={self.stride}: expected {rank} numbers, as many as kernel={self.kernel} has"
        if self.pooling_convention == "same":
            # MXNet's own checks of `same` look at three paddings whatever the kernel: any number of zeros is taken.
            if any(self.pad):
                return f"Parameter pad={self.pad}: Same pooling convention disables the use of pad parameter"
        elif self.pad and len(self.pad) != rank:
            return f"Parameter pad={self.pad}: expected {rank} numbers, as many as kernel={self.kernel} has"
        if self.layout is not None and len(self.layout) != rank + 2:
            return f"Parameter layout={self.layout!r}: expected {rank} spatial axes, as kernel={self.kernel} has"
        return None


@dataclass(frozen=True)
class Windows:
    """The positions of an array's windows, axis by axis: `axes` are spatial, the tuples are aligned with them.

    sizes, counts: elements of the data, windows. pads: elements added before. The window number i of an axis covers
    the elements from i · stride - pad on, `kernel` of them, some of which may be outside the data.
    """

    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pads: tuple[int, ...]
    counts: tuple[int, ...]

    @property
    def overhangs(self) -> tuple[int, ...]:
        """How far the last window reaches past the data; negative where it ends before the data does."""
        spans = zip(self.counts, self.stride, self.kernel, self.pads, self.sizes, strict=True)
        return tuple((n - 1) * s + k - p - d for n, s, k, p, d in spans)

    def along(self, i: int) -> Windows:
        """The windows of spatial axis number i alone."""
        sides = (self.axes, self.sizes, self.kernel, self.stride, self.pads, self.counts)
        return Windows(*((side[i],) for side in sides))

    @property
    def are_long(self) -> bool:
        """Whether a window has so many elements that it is reduced along one axis after the other."""
        return prod(self.kernel) > LONG

    def clipped(self) -> tuple[Windows, np.ndarray | None]:
        """Windows along one axis of which none is longer than the data; and which of them each window is, None where
        they are the same. A longer window sees a beginning of the data, an end, all or nothing: size · 2 + 1 cases."""
        (size,), (kernel,), (stride,), (pad,), (count,) = self.sizes, self.kernel, self.stride, self.pads, self.counts
        if kernel <= size:
            return self, None
        begin = np.arange(count) * stride - pad
        low, high = np.clip(begin, 0, size), np.clip(begin + kernel, 0, size)
        which = np.where(high == size, low, high - size) + size
        return Windows(self.axes, (size,), (size,), (1,), (size,), (2 * size + 1,)), which

    @property
    def are_padded(self) -> bool:
        """Whether elements outside the data are in windows."""
        return any(self.pads) or max(self.overhangs) > 0

    @property
    def are_empty(self) -> bool:
        """Whether a window has no element of the data."""
        spans = zip(self.counts, self.stride, self.kernel, self.pads, self.sizes, strict=True)
        return any(k <= p or (n - 1) * s - p >= d for n, s, k, p, d in spans)

    @property
    def are_blocks(self) -> bool:
        """Whether no element is in two windows and none outside the data is in one."""
        return self.kernel == self.stride and not self.are_padded


def spatial_axes(p: PoolingParams, ndim: int) -> tuple[int, ...]:
    """The axes of data that are pooled."""
    letters = p.layout or DEFAULT_LAYOUTS[ndim - 3]
    return tuple(i for i, letter in enumerate(letters) if letter not in "NC")


def windows(p: PoolingParams, shape: tuple[int, ...]) -> Windows:
    """The windows of an array of a known shape; a global window is one that fills each axis."""
    axes = spatial_axes(p, len(shape))
    sizes = tuple(shape[i] for i in axes)
    if p.global_pool:
        return Windows(axes, sizes, sizes, sizes, (0,) * len(axes), (1,) * len(axes))
    counts = tuple(_count(p, i, size) for i, size in enumerate(sizes))
    return Windows(axes, sizes, p.kernel, _stride(p), _pad(p), tuple(n for n in counts if n is not None))


def divisors(p: PoolingParams, w: Windows) -> np.ndarray:
    """How many elements each window's mean is over, with one axis for each spatial one (float64).

    Padding after the data counts up to `pad`, not up to the end of the last window.
    """
    total = np.ones((1,) * len(w.axes))
    include_pad = p.count_include_pad is not False
    for i, (size, kernel, stride, pad, n) in enumerate(zip(w.sizes, w.kernel, w.stride, w.pads, w.counts, strict=True)):
        begin = np.arange(n) * stride - pad
        end = np.minimum(begin + kernel, size + (pad if include_pad else 0))
        count = end - (begin if include_pad else np.maximum(begin, 0))
        # A window with nothing in it has sum 0, and so has mean 0.
        total = total * np.maximum(count, 1).reshape([-1 if j == i else 1 for j in range(len(w.axes))])
    return total


def _stride(p: PoolingParams) -> tuple[int, ...]:
    return p.stride or (1,) * len(p.kernel)


def _pad(p: PoolingParams) -> tuple[int, ...]:
    return p.pad if any(p.pad) else (0,) * len(p.kernel)


def _count(p: PoolingParams, i: int, size: Dim) -> Dim:
    """The number of windows in spatial axis i."""
    if p.global_pool:
        return 1
    if size is None:
        return None
    kernel, stride, pad = p.kernel[i], _stride(p)[i], _pad(p)[i]
    if p.pooling_convention == "same":
        return (size + stride - 1) // stride
    room = size + 2 * pad - kernel
    if not is_at_most(kernel, size + 2 * pad):
        raise InferenceError(
            f"kernel size ({kernel}) exceeds input ({size} padded to {size + 2 * pad})",
            param="kernel",
            expected=f"at most {size + 2 * pad} in spatial axis {i}",
            got=kernel,
        )
    return 1 + (room + (stride - 1 if p.pooling_convention == "full" else 0)) // stride


def _ranked(p: PoolingParams, shape: Shape) -> Shape:
    ndim = len(p.layout) if p.layout else len(p.kernel) + 2 if not p.global_pool else None
    if (ndim is None and 3 <= len(shape) <= 5) or len(shape) == ndim:
        return shape
    expected = "3, 4 or 5 axes" if ndim is None else f"{ndim} axes, {p.layout or DEFAULT_LAYOUTS[ndim - 3]}"
    param_name = "layout" if p.layout else "kernel"
    problem = f"Pooling: Input data should be {f'{ndim}D' if ndim else '3D, 4D or 5D'}"
    raise InferenceError(problem, param=param_name, expected=expected, got=format_shape(shape))


def pooling_shapes(p: PoolingParams, ins: Shapes, outs: Shapes):
    """data (n, c, …d) → (n, c, …), one number for each window; the axes stand as the layout says."""
    if ins[0] is None and outs[0] is None:
        return ins, outs
    ndim = len(next(shape for shape in (*ins, *outs) if shape is not None))
    data, out = (_ranked(p, (None,) * ndim if shape is None else shape) for shape in (ins[0], outs[0]))
    axes = spatial_axes(p, ndim)
    if len(data) != len(out):
        raise InferenceError(
            "Data and result of pooling have one rank", expected=format_shape(data), got=format_shape(out)
        )
    counts = {axis: known(_count(p, i, data[axis]), out[axis]) for i, axis in enumerate(axes)}
    dims = [known(a, b) for a, b in zip(data, out, strict=True)]
    data = tuple(data[i] if i in axes else dims[i] for i in range(ndim))
    return [data], [tuple(counts.get(i, dims[i]) for i in range(ndim))]


def _maxima_shapes(p: PoolingParams, ins: Shapes, outs: Shapes):
    """value (n, c, …d), data of the same shape, output of the pooled shape → of the pooled shape."""
    value, data, output = ins
    (value,), (out,) = pooling_shapes(p, [data if value is None else value], [outs[0] if output is None else output])
    return [value, value, out], [out]


def _explicit_parameters(node: Node, **changed: object) -> dict[str, Any]:
    """The parameters that the node was given, some of them changed."""
    p = node.attrs.parsed
    return {name: getattr(p, name) for name in PoolingParams.__dataclass_fields__ if name in node.attrs.dict} | changed


def _spread(node: Node, dy: NodeEntry, data: NodeEntry, **changed: object) -> NodeEntry:
    return apply("_backward_Pooling_sum", dy, data, **_explicit_parameters(node, **changed))


def _pooling_gradient(node: Node, ograds: Entries):
    """Sums and means spread dY over their windows; a maximum gives it to the first element that attains it."""
    p: PoolingParams = node.attrs.parsed
    data, y, (dy,) = node.inputs[0], NodeEntry(node, 0, 0), ograds
    if p.pool_type == "max":
        return [apply("_backward_Pooling_max", dy, data, y, **_explicit_parameters(node))]
    if p.pool_type in ("avg", "sum") or p.p_value == 1:
        return [_spread(node, dy, data)]
    return [_norm_gradient(node, dy, data, y)]


def _norm_gradient(node: Node, dy: NodeEntry, data: NodeEntry, y: NodeEntry) -> NodeEntry:
    """dX = X^(p-1) ⊙ spread(dY / Y^(p-1)); 0 where Y is 0, as in MXNet."""
    is_cube = node.attrs.parsed.p_value == 3
    safe = apply("elemwise_add", y, apply("_equal_scalar", y, scalar=0.0))
    if is_cube:
        safe, data_power = apply("square", safe), apply("square", data)
    else:
        data_power = data
    scaled = apply("where", y, apply("elemwise_div", dy, safe), apply("zeros_like", dy))
    return apply("elemwise_mul", data_power, _spread(node, scaled, data, pool_type="sum"))


def _outputs_in_files(attrs: NodeAttrs) -> int:
    """MXNet's wheel gives maxima that oneDNN can pool a second, hidden output: its workspace."""
    p: PoolingParams = attrs.parsed
    return 2 if p.pool_type == "max" and p.kernel and p.layout in (None, *DEFAULT_LAYOUTS) else 1


def _scaled_parts(attrs: NodeAttrs, axis: int, shapes: list[Shape | None]) -> Sequence[tuple[int, int] | None] | None:
    """The mean of what is scaled and shifted is the mean scaled and shifted, if every window is full of data."""
    p: PoolingParams = attrs.parsed
    full = p.global_pool or (not any(p.pad) and p.pooling_convention != "full")
    # In every layout left where neither it nor the rank is known, data begin with (n, c).
    ranks = (len(p.layout) if p.layout else None, None if p.global_pool else len(p.kernel) + 2, *map(_rank, shapes))
    rank = known(*ranks)
    not_pooled = axis in (0, 1) if rank is None else axis % rank not in spatial_axes(p, rank)
    return [None] if p.pool_type == "avg" and full and not_pooled else None


def _rank(shape: Shape | None) -> int | None:
    return None if shape is None else len(shape)


# -- costs -----------------------------------------------------------------------------------------------------------


def pooling_flops(p: Any, ins: Sizes, outs: Sizes) -> Flops:
    """Each window sees each of its elements."""
    return Flops(0, prod(ins[0]) if p.global_pool else prod(outs[0]) * _work(p, ins[0]))


def pooling_gradient_flops(p: Any, ins: Sizes, outs: Sizes) -> Flops:
    """Each window's head gradient is combined with each element of the window."""
    return Flops(0, prod(ins[1]) if p.global_pool else prod(ins[0]) * _work(p, ins[1]))


def _work(p: PoolingParams, data: tuple[int, ...]) -> int:
    """How many elements are looked at for each window."""
    w = windows(p, data)
    return sum(map(min, w.kernel, w.sizes)) if w.are_long else prod(w.kernel)


def reached_data(number: int) -> WorkspaceRule:
    """Data, the input of a number, as far as windows reach."""

    def workspace(p: PoolingParams, ins: Sizes, outs: Sizes) -> int:
        w = windows(p, ins[number])
        margins = [low + max(high, 0) for low, high in zip(w.pads, w.overhangs, strict=True)]
        return extended(ins[number], w.axes, margins)

    return workspace


register_op(
    "Pooling",
    FQuantized=quantized_as("_contrib_quantized_pooling"),
    samples="each",
    aliases=("_npx_pooling",),
    params=PoolingParams,
    inputs=("data",),
    infer_shape=pooling_shapes,
    infer_type=float_type,
    gradient=_pooling_gradient,
    FNumFileOutputs=_outputs_in_files,
    FScaledParts=_scaled_parts,
    flops=pooling_flops,
    workspace=reached_data(0),
    precision="either",
    layout=windowed,
    drawing="pooling",
    deviation=Deviation(
        "the gradient divides by the part of a window inside the data, as the forward pass does; oneDNN, which "
        "MXNet uses on a CPU, by the whole window",
        "training",
        lambda p: p.pool_type == "avg" and p.pooling_convention == "full" and not p.global_pool,
    ),
    doc="The maximum, sum, mean or p-norm of every window of the spatial axes. The p-norm is that of signed values: "
    "the p-th root of the sum of p-th powers.",
)
linear(
    "Pooling",
    of="data",
    adjoint="_backward_Pooling_sum",
    flops=pooling_gradient_flops,
    workspace=reached_data(1),
    given=True,
    doc="Gradient of sum and mean pooling: every element receives the head gradients of the windows it is in.",
)
register_op(
    "_backward_Pooling_pick",
    params=PoolingParams,
    inputs=("value", "data", "output"),
    infer_shape=_maxima_shapes,
    infer_type=float_type,
    flops=pooling_gradient_flops,
    workspace=reached_data(1),
    doc="The element of `value` where each window of data has its maximum: the transpose of `_backward_Pooling_max`.",
)
linear(
    "_backward_Pooling_pick",
    of="value",
    adjoint="_backward_Pooling_max",
    flops=pooling_gradient_flops,
    workspace=reached_data(1),
    inputs=("ograd", "data", "output"),
    given=True,
    doc="Gradient of maximum pooling: the first element that attains a window's maximum receives its head gradient.",
)
