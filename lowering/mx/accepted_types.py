"""The types of arguments that many functions of `mx` take."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from types import ModuleType

from numpy.typing import DTypeLike

from lowering.initializer import Initializer
from lowering.mx.context import Context

DType = DTypeLike | None
"""A dtype or its name; None for the function's own choice."""

ContextLike = Context | str | None
"""A context or the name of its device; None for the current one."""

ContextsLike = ContextLike | Sequence[Context]
"""The same, or a list of contexts."""

ShapeLike = int | Sequence[int]
"""A shape; a number for an array of one axis."""

AxisLike = int | tuple[int, ...] | None
"""One axis, or a tuple of several; None for all."""

Logger = logging.Logger | ModuleType
"""A logger, or the module `logging`, which stands for the root logger."""

InitializerLike = Initializer | str | None
"""An initialiser or its name; None for the default one."""
