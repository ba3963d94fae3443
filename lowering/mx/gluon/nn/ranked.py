"""Layers that differ in their number of axes alone: one `__init__`, with other defaults in each."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from lowering.mx.gluon.hybrid import HybridBlock
from lowering.mx.shared_arguments import explained_by


class Ranked(HybridBlock):
    """A layer for one, two or three axes.

    A subclass names the layouts that it takes, its default first, and the defaults in which it differs:
    `class Conv2D(_Convolution, layouts=("NCHW", "NHWC"), strides=(1, 1))`. Its base explains the arguments.
    """

    _layouts: tuple[str, ...]

    def __init_subclass__(cls, layouts: tuple[str, ...] = (), **defaults: Any) -> None:
        super().__init_subclass__()
        if layouts:
            cls._layouts = layouts
            type.__setattr__(cls, "__init__", _with_defaults(cls, {"layout": layouts[0], **defaults}))
            explained_by(cls.__base__)(cls)
            choice = " or ".join(f'"{layout}"' for layout in layouts)
            cls.__doc__ = cls.__doc__ and cls.__doc__.replace("{layouts}", choice)

    @property
    def _rank(self) -> int:
        """How many axes there are besides those of samples and of channels."""
        return len(self._layouts[0]) - 2


def _with_defaults(cls: type, defaults: dict[str, Any]) -> FunctionType:
    """Return the class's inherited `__init__` with other defaults, as its own."""
    init: Any = cls.__init__
    names = init.__code__.co_varnames[: init.__code__.co_argcount]
    optional = names[len(names) - len(init.__defaults__) :]
    values = dict(zip(optional, init.__defaults__, strict=True)) | defaults
    assert tuple(values) == optional, f"{cls.__name__} has defaults for parameters that it lacks"
    own = FunctionType(init.__code__, init.__globals__, "__init__", tuple(values.values()), init.__closure__)
    own.__qualname__ = f"{cls.__qualname__}.__init__"
    own.__annotations__ = init.__annotations__
    return own
