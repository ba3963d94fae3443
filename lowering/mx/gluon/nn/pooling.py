"""Pooling along one, two and three axes, over windows or over whole maps."""

from __future__ import annotations

from typing import Any

from lowering.messages.counts import checks_flags
from lowering.mx.base import numeric_types
from lowering.mx.gluon.gluon_errors import MismatchError
from lowering.mx.gluon.nn.layers_by_rank import Ranked
from lowering.mx.gluon.tensor import Tensor
from lowering.mx.shared_arguments import explained_by


class _Pooling(Ranked):
    """Holds what all poolings have in common."""

    @checks_flags
    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: Any,
        ceil_mode: bool,
        global_pool: bool,
        pool_type: str,
        layout: str,
        count_include_pad: bool | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        rank = len(pool_size)
        strides = pool_size if strides is None else strides
        self._kwargs = {
            "kernel": pool_size,
            "stride": (strides,) * rank if isinstance(strides, numeric_types) else strides,
            "pad": (padding,) * rank if isinstance(padding, numeric_types) else padding,
            "global_pool": global_pool,
            "pool_type": pool_type,
            "layout": layout,
            "pooling_convention": "full" if ceil_mode else "valid",
        }
        if count_include_pad is not None:
            self._kwargs["count_include_pad"] = count_include_pad

    def _alias(self) -> str:
        return "pool"

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """Return the layer's output, in x's layout."""
        return F.Pooling(x, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        ceil_mode = self._kwargs["pooling_convention"] == "full"
        return (
            "{}(size={kernel}, stride={stride}, padding={pad}, ceil_mode={}, global_pool={global_pool}, "
            "pool_type={pool_type}, layout={layout})".format(type(self).__name__, ceil_mode, **self._kwargs)
        )


def _checked(pool_size: Any, layout: str, layouts: tuple[str, ...]) -> Any:
    """Return the window along all axes. Raises MismatchError for another count, and for another layout."""
    rank = len(layouts[0]) - 2
    if layout not in layouts:
        problem = f"Only {' and '.join(layouts)} layouts are valid for {rank}D Pooling"
        raise MismatchError(problem, got=layout)
    sizes = (pool_size,) * rank if isinstance(pool_size, numeric_types) else pool_size
    if len(sizes) != rank:
        raise MismatchError(f"pool_size must be a number or a list of {rank} ints", got=pool_size)
    return sizes


_1D, _2D, _3D = ("NCW", "NWC"), ("NCHW", "NHWC"), ("NCDHW", "NDHWC")


class _MaxPool(_Pooling):
    """The largest element of each window.

    Args:
        pool_size: the size of the window, a number or one for each axis.
        strides: the step between two windows; None for the window's size.
        padding: the number of zeros on both sides, a number or one for each axis.
        layout: the order of the axes: {layouts}.
        ceil_mode: let a last window overhang the edge.
        kwargs: `prefix` and `params` of the block.
    """

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: Any = 0,
        layout: str = "NCW",
        ceil_mode: bool = False,
        **kwargs: Any,
    ):
        window = _checked(pool_size, layout, self._layouts)
        super().__init__(window, strides, padding, ceil_mode, False, "max", layout, **kwargs)


class MaxPool1D(_MaxPool, layouts=_1D):
    """The largest element of each window along the last axis of data (n, c, w)."""


class MaxPool2D(_MaxPool, layouts=_2D, pool_size=(2, 2)):
    """The largest element of each window along rows and columns."""


@explained_by(_MaxPool)
class MaxPool3D(_Pooling, layouts=_3D):
    """The largest element of each window along three axes.

    Args:
        layout: the order of the axes: "NCDHW" or "NDHWC".
    """

    def __init__(
        self,
        pool_size: Any = (2, 2, 2),
        strides: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        layout: str = "NCDHW",
        **kwargs: Any,
    ):
        window = _checked(pool_size, layout, self._layouts)
        super().__init__(window, strides, padding, ceil_mode, False, "max", layout, **kwargs)


@explained_by(_MaxPool)
class _AvgPool(_Pooling):
    """The mean of each window.

    Args:
        count_include_pad: whether padding counts in the mean.
    """

    def __init__(
        self,
        pool_size: Any = (2, 2),
        strides: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        layout: str = "NCHW",
        count_include_pad: bool = True,
        **kwargs: Any,
    ):
        window = _checked(pool_size, layout, self._layouts)
        super().__init__(window, strides, padding, ceil_mode, False, "avg", layout, count_include_pad, **kwargs)


@explained_by(_AvgPool)
class AvgPool1D(_Pooling, layouts=_1D):
    """The mean of each window along the last axis of data (n, c, w).

    Args:
        layout: the order of the axes: "NCW" or "NWC".
    """

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: Any = 0,
        layout: str = "NCW",
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        **kwargs: Any,
    ):
        window = _checked(pool_size, layout, self._layouts)
        super().__init__(window, strides, padding, ceil_mode, False, "avg", layout, count_include_pad, **kwargs)


class AvgPool2D(_AvgPool, layouts=_2D):
    """The mean of each window along rows and columns."""


class AvgPool3D(_AvgPool, layouts=_3D, pool_size=(2, 2, 2)):
    """The mean of each window along three axes."""


class _GlobalPool(_Pooling):
    """One number for each channel of each sample.

    Args:
        layout: the order of the axes: {layouts}.
        kwargs: `prefix` and `params` of the block.
    """

    _pool_type = "max"

    def __init__(self, layout: str = "NCW", **kwargs: Any):
        window = _checked(1, layout, self._layouts)
        super().__init__(window, None, 0, True, True, self._pool_type, layout, **kwargs)


class GlobalMaxPool1D(_GlobalPool, layouts=_1D):
    """The largest element of each channel of each sample."""


class GlobalMaxPool2D(_GlobalPool, layouts=_2D):
    """The largest element of each channel of each sample."""


class GlobalMaxPool3D(_GlobalPool, layouts=_3D):
    """The largest element of each channel of each sample."""


class GlobalAvgPool1D(_GlobalPool, layouts=_1D):
    """The mean of each channel of each sample."""

    _pool_type = "avg"


class GlobalAvgPool2D(_GlobalPool, layouts=_2D):
    """The mean of each channel of each sample."""

    _pool_type = "avg"


class GlobalAvgPool3D(_GlobalPool, layouts=_3D):
    """The mean of each channel of each sample."""

    _pool_type = "avg"
