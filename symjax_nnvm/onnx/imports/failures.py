"""The errors that a hostile ONNX file raises, in the package onnx and in this package's forms."""

from __future__ import annotations

from symjax_nnvm.errors import printable

OF_ONNX = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
    OSError,
)
"""What the package onnx raises of what it cannot read or compute: caught only around its calls."""

OF_FORMS = (ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError)
"""What a form raises of attributes and shapes that it did not expect. A mistake of our own that no file causes
(AttributeError, NameError, AssertionError) is not among them; the tests check that no valid model causes one of the
others."""


def first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    return printable(next(iter(str(error).strip().splitlines()), type(error).__name__)[:300])
