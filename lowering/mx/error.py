"""`mx.error`: the class of MXNet's errors, and a register of classes by name."""

from __future__ import annotations

from lowering.mx.base import MXNetError as MXNetError
from lowering.mx.base import register_error

register = register_error


@register
class InternalError(MXNetError):
    """An error of the library itself."""


for _cls in (ValueError, TypeError, AttributeError, IndexError, NotImplementedError):
    register(_cls.__name__, _cls)
