"""Where a CPU's arrays lie: freed memory is kept by the process, not given back to the system after every call.

XLA:CPU takes the memory of what it computes from `malloc` in each call. The C library of Linux maps large blocks anew
each time, and the system fills them with zeros page by page when they are first touched: ResNet-50 touches 91,000 new
pages in a call of 16 images, which takes a sixth of its processor time. Kept pages are touched once.
"""

from __future__ import annotations

import ctypes
import os
import platform
from functools import cache

KEEP = "SYMJAX_NNVM_KEEP_MEMORY"
"""Environment variable: 0 leaves the C library as it is."""

# Parameters of glibc's mallopt(3), and their values here.
_MMAP_THRESHOLD, _TRIM_THRESHOLD, _ARENA_MAX = -3, -1, -8
_SETTINGS = {_MMAP_THRESHOLD: 1 << 30, _TRIM_THRESHOLD: (1 << 31) - 1, _ARENA_MAX: 1}


@cache
def keep_memory() -> bool:
    """Let freed memory stay with the process, once; whether that is so.

    Blocks up to 1 GiB come from one heap that does not shrink, whatever thread asks for them: of the threads that start
    after this, JAX's when it is first used. Nothing happens where the C library is not glibc, or where
    `SYMJAX_NNVM_KEEP_MEMORY=0` says so.
    """
    if os.environ.get(KEEP) == "0" or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return all(mallopt(parameter, value) for parameter, value in _SETTINGS.items())
