"""Arrays from the bytes of a file, and from and to other libraries by DLPack."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, NoReturn

import jax
import numpy as np

from lowering.jax_casts import is_narrowed
from lowering.mx.context import Context, current_context
from lowering.mx.ndarray.array import NDArray, NotAnArrayError, as_jax, like_jax
from lowering.mx.ndarray.saved_arrays import load
from symjax_nnvm.errors import CallError, NNVMError
from symjax_nnvm.io.files import write_file

_DEVICES = {"cpu": 1, "gpu": 2}
"""DLPack's numbers of the kinds of devices."""


def load_frombuffer(buf: bytes) -> dict[str, NDArray] | list[NDArray]:
    """`load` of the bytes of a file. Raises CallError, a TypeError, for no bytes, ParamsFormatError."""
    if not isinstance(buf, bytes):
        raise CallError("buf required to be bytes", got=type(buf).__name__)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "buffer"
        write_file(path, buf)
        return load(str(path))


def to_dlpack_for_read(data: NDArray) -> Any:
    """The array's memory as a DLPack capsule, which another library may take once and may not write."""
    return data.to_dlpack_for_read()


def to_dlpack_for_write(data: NDArray) -> NoReturn:
    """Raises CallError: what another library writes would not be seen here."""
    data.to_dlpack_for_write()


class _Capsule:
    """A capsule as an object that gives it, which is how JAX takes one."""

    def __init__(self, capsule: Any, context: Context):
        self._capsule, self._context = capsule, context

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _DEVICES.get(self._context.device_type, 1), self._context.device_id


def from_dlpack(dlpack: Any) -> NDArray:
    """An array of another library's memory: a capsule, which is of the current context, or an array that gives one.

    What the other library writes later may be seen or not. Raises NotAnArrayError for what is neither, and for a
    capsule that was taken; TooWideError for numbers that need 64 bits, where they are off.
    """
    context = current_context()
    producer = dlpack if hasattr(dlpack, "__dlpack__") else _Capsule(dlpack, context)
    try:
        memory = _in_memory(producer)
        if memory is not None and (producer is not dlpack or is_narrowed(memory.dtype)):  # a capsule is taken once
            return like_jax(as_jax(memory), context)
        return like_jax(jax.dlpack.from_dlpack(producer), context)
    except (TypeError, ValueError, jax.errors.JaxRuntimeError) as error:  # in the words of JAX's and NumPy's functions
        if isinstance(error, NNVMError):
            raise
        problem = "Invalid DLPack Tensor. DLTensor capsules can be consumed only once."
        raise NotAnArrayError(problem, got=type(dlpack).__name__) from None


def _in_memory(producer: Any) -> np.ndarray | None:
    """Return an array in NumPy's memory, which keeps 64 bits: JAX narrows them silently. None where NumPy cannot hold
    it: on another device, or of another dtype."""
    if producer.__dlpack_device__()[0] != _DEVICES["cpu"]:
        return None
    try:
        return np.from_dlpack(producer)
    except (BufferError, RuntimeError):
        return None
