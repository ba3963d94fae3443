"""Where a CPU's arrays lie: freed memory is kept by the process, not given back to the system after every call.

XLA:CPU takes the memory of what it computes from `malloc` in each call. The C library of Linux maps large blocks anew
each time, and the system fills them with zeros, page by page, when they are first touched: ResNet-50 touches 91,000 new
pages in a call of 16 images, which takes a sixth of its processor time; MobileNet's training step 169,000, a quarter.
Kept pages are touched once, and large ones are fewer. What it costs: threads that compile wait for the one heap, a
fifth of the time (docs/benchmarks.md).
"""

from __future__ import annotations

import ctypes
import os
import platform
from functools import cache

KEEP = "SYMJAX_NNVM_KEEP_MEMORY"
"""Environment variable: 0 leaves the C library as it is."""

# Parameters of glibc's mallopt(3), and their values here. A threshold of -1 is none: with one of 2 GiB, MobileNet's
# training gave 0.7 GB back in every second step, where small arrays had come to lie in the heap's first gigabyte.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8
_SETTINGS = {_MMAP_THRESHOLD: 1 << 30, _TRIM_THRESHOLD: -1, _ARENA_MAX: 1}

RESERVED = 1 << 30
"""Bytes at the end of the heap for which large pages are asked; they are the process's when they are touched."""

_LARGE_PAGE, _ADVISE_LARGE_PAGES = 1 << 21, 14  # madvise(2)


@cache
def keep_memory() -> bool:
    """Let freed memory stay with the process, once; whether that is so.

    Blocks up to 1 GiB come from one heap that does not shrink, whatever thread asks for them: of the threads that start
    after this, JAX's when it is first used. Nothing happens where the C library is not glibc, or where
    `SYMJAX_NNVM_KEEP_MEMORY=0` says so.
    """
    if os.environ.get(KEEP) == "0" or platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    if not all(libc.mallopt(parameter, value) for parameter, value in _SETTINGS.items()):
        return False
    _ask_for_large_pages(libc)
    return True


def _ask_for_large_pages(libc: ctypes.CDLL) -> None:
    """Let the heap grow by so much address space at once, and have large pages there (`madvise`)."""
    for function in (libc.malloc, libc.sbrk):
        function.restype = ctypes.c_void_p
    libc.mallopt(_TOP_PAD, RESERVED)
    grown = libc.malloc(ctypes.c_size_t(RESERVED // 2))
    libc.mallopt(_TOP_PAD, 1 << 26)
    if grown is None:  # the process may not have so much
        return
    end = libc.sbrk(ctypes.c_ssize_t(0))
    start = -(-grown // _LARGE_PAGE) * _LARGE_PAGE
    if start < end:  # where the block came from the heap
        libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _ADVISE_LARGE_PAGES)
    libc.free(ctypes.c_void_p(grown))
