"""Freed memory stays with a process that asks for it, each time in a process of its own."""

import os
import platform
import textwrap
from pathlib import Path

import pytest

import lowering
from lowering.xla.host_memory import KEEP
from tests.support import warm

ROOT = Path(__file__).parents[3]

of_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left as they are")

MEASURES = """
import ctypes, resource, sys
import numpy as np
import lowering
from lowering.xla.host_memory import kept_memory

def touched(size=64 << 20):
    "New pages that writing to a block of memory takes."
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    block = ctypes.c_void_p(libc.malloc(ctypes.c_size_t(size)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    ctypes.memset(block, 1, size)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    libc.free(block)
    return after - before

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() >> 20
"""


def printed(code: str, **environment: str) -> list[str]:
    done = warm.run(["-c", MEASURES + textwrap.dedent(code)], env=os.environ | environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow("compiles")
@of_glibc
def test_a_block_that_was_freed_is_not_touched_anew():
    code = "print(lowering.keep_memory(), lowering.keep_memory()); touched(); print(touched())"
    first, again, pages = printed(code)
    assert (first, again) == ("True", "True")
    assert int(pages) < 100  # of 16,384 of 4 KiB


@pytest.mark.slow("compiles")
@of_glibc
def test_until_it_is_asked_for_the_system_gets_back_what_is_freed():
    (pages,) = printed("touched(); print(touched())")
    assert int(pages) > 16_000


@pytest.mark.slow("compiles")
@of_glibc
def test_the_environment_may_say_no():
    said, pages = printed("print(lowering.keep_memory()); touched(); print(touched())", **{KEEP: "0"})
    assert said == "False"
    assert int(pages) > 16_000


@pytest.mark.slow("compiles")
@of_glibc
def test_memory_that_a_run_keeps_goes_back_when_the_run_ends():
    code = """
    begin = resident()
    with kept_memory():
        with kept_memory():
            touched()
        print(touched())
        print(resident() - begin)
    print(resident() - begin)
    touched()
    print(touched())
    """
    inside, held, after, outside = map(int, printed(code))
    assert inside < 100
    assert held >= 60
    assert after < 10
    assert outside > 16_000


@pytest.mark.slow("compiles")
@of_glibc
def test_a_run_takes_nothing_back_that_the_application_asked_for():
    code = """
    lowering.keep_memory()
    with kept_memory():
        touched()
    print(touched())
    """
    assert int(printed(code)[0]) < 100


@pytest.mark.slow("compiles")
@of_glibc
def test_fit_keeps_memory_while_it_runs_and_only_then():
    code = """
    from symjax_nnvm import symbol as sym

    net = sym.SoftmaxOutput(sym.FullyConnected(sym.Variable("data"), num_hidden=2, name="fc"), name="softmax")
    trainer = lowering.Trainer(net)
    trainer.init(0, data=(4, 3))
    batch = {"data": np.ones((4, 3), "f"), "softmax_label": np.zeros(4, "f")}

    class Measure:
        def on_epoch_end(self, trainer, record):
            touched()
            print(touched())

    for keep in (False, True):
        trainer.fit([batch], 1, callbacks=[Measure()], progress=False, keep_memory=keep)
    touched()
    print(touched())
    """
    without, kept, after = map(int, printed(code))
    assert kept < 100
    assert min(without, after) > 16_000


def test_it_is_a_public_name():
    assert "keep_memory" in lowering.__all__
