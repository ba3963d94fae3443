"""Memory that could not be allocated: how it is noticed, and the error that tells it.

NumPy, reading a result of JAX's that was never allocated, ends the process ("Check failed: buffer_.IsConcrete()"). So
such arrays are waited for before they are read: waiting raises.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from symjax_nnvm.errors import NNVMError, OutOfMemoryError
from symjax_nnvm.inspect.footprint import Footprint, bytes_text


def is_of_memory(error: BaseException) -> bool:
    """Return whether an error of NumPy's or JAX's is a failed allocation of memory."""
    if isinstance(error, NNVMError):
        return False
    text = str(error) if isinstance(error, RuntimeError) else ""
    if text.startswith("RESOURCE_EXHAUSTED") or "YNNPACK operation failed" in text:  # all that this library says
        return True
    return isinstance(error, MemoryError) or "Out of memory" in text


def too_large(error: BaseException, cost: Footprint | None = None) -> OutOfMemoryError:
    """Return the error for memory that could not be allocated; cost: the cost of the network, where it can be
    estimated."""
    error.__traceback__ = None  # its frames hold the arrays that have no memory
    where = "" if cost is None else f"; by the estimate {bytes_text(cost.peak_bytes)}, most of it for {cost.place}"
    return OutOfMemoryError(
        f"The program needs more memory than there is{where}: {str(error).strip().rstrip('.')}",
        fix="Use smaller arrays, and check parameters that decide sizes (pad, scale, reps, shape).",
    )


class _TellingMemory:  # a generator's block takes three times as long
    """A block in which NumPy's and JAX's errors for memory that could not be allocated become OutOfMemoryError."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, _: Any) -> None:
        if error is not None and is_of_memory(error):
            raise too_large(error) from error


telling_memory = _TellingMemory()


def read(array: jax.Array) -> np.ndarray:
    """An array of JAX in NumPy's memory, not to be written. Raises OutOfMemoryError where it was never allocated."""
    with telling_memory:
        return np.asarray(array.block_until_ready())


def wait_for_memory(results: Any) -> None:
    """Wait for arrays, and raise JaxRuntimeError where memory for them could not be allocated. Other errors are raised
    where the arrays are read."""
    try:
        jax.block_until_ready(results)
    except jax.errors.JaxRuntimeError as error:
        if is_of_memory(error):
            raise
