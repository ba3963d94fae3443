"""The errors of Gluon: each is an MXNetError, and what MXNet raises in that place."""

from __future__ import annotations

from symjax_nnvm.errors import NNVMError


class DeferredInitializationError(NNVMError):
    """A parameter has no array yet, because its shape follows from the data of the first call."""


class NotInitializedError(NNVMError):
    """A parameter, or a file, that is not there yet. MXNet raises a RuntimeError, which this is, too."""


class MismatchError(NNVMError, AssertionError):
    """Parameters, shapes, dtypes or contexts that do not fit. MXNet asserts."""


class BlockValueError(NNVMError, ValueError):
    """An argument of a block, or of a function of Gluon, with a value that it cannot have."""


class BlockTypeError(NNVMError, TypeError):
    """An object of a type that does not belong there."""


class MissingConstantError(NNVMError, KeyError):
    """A constant that is not there, and no value to make it of."""


class StaleGradientError(NNVMError, UserWarning):
    """A gradient that no backward pass has written since the last step. MXNet raises a UserWarning."""
