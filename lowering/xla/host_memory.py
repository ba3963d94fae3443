"""The memory of a CPU's arrays: an application may have its process keep freed memory, for good or while it trains.

XLA:CPU takes the memory of its results from `malloc` in each call. The C library of Linux maps large blocks anew
each time, and the system fills them with zeros, page by page, when they are first touched: ResNet-50 touches 91,000 new
pages in a call of 16 images, which takes a sixth of its processor time; MobileNet's training step 169,000, a quarter.
Kept pages are touched once, and large ones are fewer. What it costs: memory that any part of the process frees does not
go back to the system, and threads that compile wait for the one heap, a fifth of the time
(docs/reference/benchmarks.md).

The allocator is the whole process's: nothing here is called by an import, or by making an object.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

KEEP = "SYMJAX_NNVM_KEEP_MEMORY"
"""Environment variable: 0 leaves the C library as it is, and the application's calls have no effect."""

# Parameters of glibc's mallopt(3), and their values here. A trim threshold of -1 is none: with one of 2 GiB,
# MobileNet's training gave 0.7 GB back in every second step, where small arrays had been placed in the heap's first
# gigabyte.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8
_THRESHOLDS = {_MMAP_THRESHOLD: 1 << 30, _TRIM_THRESHOLD: -1}

_BEFORE = {_MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 64 << 20}
"""The most that glibc's own thresholds, which grow with the blocks that are freed, come to. It does not report their
values, and thresholds that were set once grow no more."""

RESERVED = 1 << 30
"""Bytes at the end of the heap for which large pages are requested; the process gets them when they are touched."""

_LARGE_PAGE, _ADVISE_LARGE_PAGES = 1 << 21, 14  # madvise(2)

_changing = threading.Lock()
_runs = 0
"""How many runs keep memory now."""
_for_good = False


def keep_memory() -> bool:
    """Keep freed memory in this process from now on, and return whether it is kept.

    Call it first after the imports: it changes the allocator of the whole process. Blocks of up to 1 GiB then come from
    one heap that does not shrink, in all threads that start later, such as JAX's at its first use. Calls and training
    steps with hundreds of megabytes of intermediate results become up to a quarter faster. It does nothing without
    glibc, in an environment with `SYMJAX_NNVM_KEEP_MEMORY=0`, or when it is called again.
    """
    global _for_good
    libc = _libc()
    if libc is None:
        return False
    with _changing:
        if not _for_good:
            _for_good = _set(libc, {**_THRESHOLDS, _ARENA_MAX: 1})
            if _for_good:
                _ask_for_large_pages(libc)
        return _for_good


@contextmanager
def kept_memory() -> Iterator[None]:
    """Keep freed memory in the process inside the block, as far as that can be undone; at the end it is returned to the
    system.

    JAX's threads have heaps of their own by then, which give large blocks back in any case, unless the process was
    started with MALLOC_ARENA_MAX=1 in its environment: a step that touched 33,000 new pages touches 3,400 with it, and
    33,000 without. Of several blocks at a time the last one's end counts, and after `keep_memory` none does.
    """
    global _runs
    libc = _libc()
    if libc is None:
        yield
        return
    with _changing:
        _runs += 1
        if not _for_good:
            _set(libc, _THRESHOLDS)
    try:
        yield
    finally:
        with _changing:
            _runs -= 1
            if not _runs and not _for_good:
                _set(libc, _BEFORE)
                libc.malloc_trim(ctypes.c_size_t(0))


def give_back() -> None:
    """Return freed memory to the system, unless it is to be kept: what a program was compiled in lies in pieces."""
    libc = _libc()
    if libc is None:
        return
    with _changing:
        if not (_runs or _for_good):
            libc.malloc_trim(ctypes.c_size_t(0))


@cache
def _glibc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None


def _libc() -> ctypes.CDLL | None:
    """Return the C library, where its allocator may be changed."""
    return None if os.environ.get(KEEP) == "0" else _glibc()


def _set(libc: ctypes.CDLL, settings: dict[int, int]) -> bool:
    return all(libc.mallopt(parameter, value) for parameter, value in settings.items())


def _ask_for_large_pages(libc: ctypes.CDLL) -> None:
    """Let the heap grow by this much address space at once, with large pages there (`madvise`)."""
    for function in (libc.malloc, libc.sbrk):
        function.restype = ctypes.c_void_p
    libc.mallopt(_TOP_PAD, RESERVED)
    grown = libc.malloc(ctypes.c_size_t(RESERVED // 2))
    libc.mallopt(_TOP_PAD, 1 << 26)
    if grown is None:  # the limit of the process is lower
        return
    end = libc.sbrk(ctypes.c_ssize_t(0))
    start = -(-grown // _LARGE_PAGE) * _LARGE_PAGE
    if start < end:  # where the block came from the heap
        libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _ADVISE_LARGE_PAGES)
    libc.free(ctypes.c_void_p(grown))


def installed_memory() -> int:
    """Return bytes of memory that this machine has; the largest number where the system does not report it."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return sys.maxsize
