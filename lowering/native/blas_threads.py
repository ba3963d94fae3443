"""`in_this_thread`: NumPy's products by the calling thread alone.

OpenBLAS, which NumPy's wheels hold, has other threads help, and these then wait for work without sleeping, for some 25
milliseconds of their processors. A product of matrices of 256² takes 12.6 ms of the processors with two threads, 0.4
with one (two cores that others use, too); those that are evaluated are small.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

_NAMES = (("scipy_openblas_", "64_"), ("openblas_", "64_"), ("scipy_openblas_", ""), ("openblas_", ""))
"""How the names of OpenBLAS's functions begin and end, by NumPy's builds."""


class _InThisThread:
    """Sets OpenBLAS to one thread while somebody is inside, and then back."""

    def __init__(self) -> None:
        self._lock, self._inside, self._before = threading.Lock(), 0, 0

    def __enter__(self) -> None:
        functions = _functions()
        if functions is not None:
            count, choose = functions
            with self._lock:
                if not self._inside:
                    self._before = count()
                    choose(1)
                self._inside += 1

    def __exit__(self, *_: object) -> None:
        functions = _functions()
        if functions is not None:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    functions[1](self._before)


in_this_thread = _InThisThread()
"""`with in_this_thread:`, in any number of threads at once. Nothing where NumPy has another library."""


@cache
def _functions() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """Return what reads and what sets the number of OpenBLAS's threads; None where NumPy brought none."""
    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs", package / ".libs"):
        for path in folder.glob("*openblas*"):
            try:
                library = ctypes.CDLL(str(path))
            except OSError:
                continue
            for begin, end in _NAMES:
                count = getattr(library, f"{begin}get_num_threads{end}", None)
                choose = getattr(library, f"{begin}set_num_threads{end}", None)
                if count is not None and choose is not None:
                    return count, choose
    return None
