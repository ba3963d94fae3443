"""What holds of every input: nothing but an `NNVMError` is raised, within `CPU_SECONDS` of processor time, and the
process's peak memory grows by less than ten times the input plus a constant. Anything else that escapes is a finding.
"""

import contextlib
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

from symjax_nnvm.errors import NNVMError

__all__ = ["CPU_SECONDS", "READ_MEMORY", "RUN_MEMORY", "Hang", "ask", "check_message", "contract"]

CPU_SECONDS = 5.0
"""Processor time of one input, all threads together, and not the clock: others may be using the machine."""

READ_MEMORY, RUN_MEMORY = 64 << 20, 768 << 20
"""Bytes by which reading, and compiling and running, may raise the memory that the process holds."""


class Hang(BaseException):
    """An input took longer than the limit; no `except Exception` swallows it."""


def _peak() -> int:
    """The most memory this process ever held, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _hang(signum: int, frame: FrameType | None) -> NoReturn:
    raise Hang(f"more than {CPU_SECONDS} s of processor time")


@contextlib.contextmanager
def contract(size: int, memory: int = READ_MEMORY) -> Iterator[None]:
    """Hold the block to the contract for an input of `size` bytes; only an NNVMError may pass through."""
    before = _peak()
    previous = signal.signal(signal.SIGPROF, _hang)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
    grown = _peak() - before
    assert grown < 10 * size + memory, f"{grown} bytes of memory for an input of {size}"


def check_message(error: NNVMError) -> None:
    """Errors are shown in terminals and logs: they are short, and can be written."""
    message = str(error)
    assert message, "an error without a message"
    assert len(message) < 20_000, f"an error message of {len(message)} characters: {message[:200]}"
    message.encode()


def ask(question: Callable[..., object], *given: Any) -> bool:
    """Whether a question was answered: what is loaded may turn out to be impossible later, which our error says."""
    try:
        question(*given)
    except NNVMError as error:
        check_message(error)
        return False
    return True
