"""Freed memory stays with the process."""

import ctypes
import os
import platform
import resource

import pytest

import lowering  # noqa: F401  # asks for it
from lowering.host_memory import KEEP, keep_memory

SIZE = 64 << 20


def touched() -> int:
    """New pages that writing to a block of memory takes."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    block = ctypes.c_void_p(libc.malloc(ctypes.c_size_t(SIZE)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    ctypes.memset(block, 1, SIZE)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    libc.free(block)
    return after - before


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left as they are")
@pytest.mark.skipif(os.environ.get(KEEP) == "0", reason="the environment says so")
def test_a_block_that_was_freed_is_not_touched_anew():
    assert keep_memory()
    touched()
    assert touched() < 100  # of 16,384 of 4 KiB


def test_the_environment_may_say_no(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(KEEP, "0")
    assert not keep_memory.__wrapped__()
