"""Windows of ONNX: kernels, strides, dilations, explicit or automatic padding."""

from __future__ import annotations

from dataclasses import dataclass

from symjax_nnvm.onnx.imports.composer import Composer
from symjax_nnvm.onnx.imports.file_values import Value


@dataclass(frozen=True)
class OnnxWindow:
    """A window over spatial axes. before, after: padding; of symmetric padding they are equal."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilate: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def symmetric(self) -> bool:
        """Whether both sides have the same padding, as MXNet's operators take it."""
        return self.before == self.after

    @property
    def spans(self) -> tuple[int, ...]:
        """How many elements each side of it reaches over."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilate, strict=True))


def window(g: Composer, data: Value, kernel: tuple[int, ...], gaps: bool = True) -> OnnxWindow:
    """The window of a node over data (n, c, …). gaps: whether windows shorter than their strides may leave out elements
    where padding is automatic. Raises OnnxError for one that MXNet's operators do not take."""
    rank = data.ndim - 2
    if len(kernel) != rank or not 1 <= rank <= 3:
        g.refuse(f"its kernel {kernel} is over {len(kernel)} axes of data with {rank}; MXNet's are over 1, 2 or 3")
    stride = tuple(g.attr("strides", [1] * rank))
    dilate = tuple(g.attr("dilations", [1] * rank))
    auto = g.attr("auto_pad", "NOTSET")
    pads = tuple(g.attr("pads", [0] * 2 * rank))
    if len(pads) != 2 * rank or min(pads) < 0:
        g.refuse(f"its pads {pads} are not two widths for each of {rank} axes")
    spec = OnnxWindow(kernel, stride, dilate, pads[:rank], pads[rank:])
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        return _same(g, data, spec, auto == "SAME_UPPER", gaps)
    return spec if auto == "NOTSET" else OnnxWindow(kernel, stride, dilate, (0,) * rank, (0,) * rank)


def _same(g: Composer, data: Value, w: OnnxWindow, upper: bool, gaps: bool) -> OnnxWindow:
    """Return padding with which there are ⌈size / stride⌉ windows; an odd element goes to the end or beginning."""
    before: list[int] = []
    after: list[int] = []
    for axis, (span, stride) in enumerate(zip(w.spans, w.stride, strict=True), 2):
        if stride == 1:
            missing = span - 1
        else:
            size = g.static(data, [axis])[axis]
            missing = (-(-size // stride) - 1) * stride + span - size
            if missing < 0 and not gaps:
                g.refuse(
                    f"its windows leave out {-missing} of {size} elements, and runtimes differ in where they begin",
                    "Leave out auto_pad, and give pads.",
                )
            missing = max(missing, 0)
        small, large = missing // 2, missing - missing // 2
        before.append(small if upper else large)
        after.append(large if upper else small)
    return OnnxWindow(w.kernel, w.stride, w.dilate, tuple(before), tuple(after))
