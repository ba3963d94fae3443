"""Layers that differ only in their number of axes: one `__init__`, with other defaults in each."""

from __future__ import annotations

from typing import Any

from lowering.mx.gluon.hybrid import HybridBlock
from lowering.mx.shared_arguments import Varied


class Ranked(Varied, HybridBlock):
    """A layer for one, two or three axes.

    A subclass names the layouts that it takes, its default first, and the defaults in which it differs:
    `class Conv2D(_Convolution, layouts=("NCHW", "NHWC"), strides=(1, 1))`.
    """

    _layouts: tuple[str, ...]

    def __init_subclass__(cls, layouts: tuple[str, ...] = (), **defaults: Any) -> None:
        super().__init_subclass__(**({"layout": layouts[0], **defaults} if layouts else {}))
        if layouts:
            cls._layouts = layouts
            choice = " or ".join(f'"{layout}"' for layout in layouts)
            cls.__doc__ = cls.__doc__ and cls.__doc__.replace("{layouts}", choice)

    @property
    def _rank(self) -> int:
        """How many axes there are besides those of samples and of channels."""
        return len(self._layouts[0]) - 2
