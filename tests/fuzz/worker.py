"""One worker of a fuzzing run: draws the inputs of some numbers and takes each to the end, under limits.

`python -m tests.fuzz.worker TARGET --seed 0 --start 0 --stop 1000 --step 2 --execute 10 --record FILE`. It writes an
input to FILE before it runs it, so that an input which ends the process is known; and prints a line of JSON now and
then: the number it has come to, how far the inputs since the last line came, and each finding. `workers.py` reads them.
Processor time is limited, and not the clock: others may be using the machine.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import gc
import json
import os
import random
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

# Programs run once: LLVM's optimisation of their code would be most of the time.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import jax

from tests.fuzz import array_grammar, grammar
from tests.fuzz.arrays_to_the_end import ARRAY_STAGES, arrays_to_the_end
from tests.fuzz.symbol_to_the_end import SYMBOL_STAGES, symbol_to_the_end
from tests.fuzz.targets import Hang

__all__ = ["CPU_SECONDS", "MEMORY_GROWTH", "STAGES", "draw", "limits", "take_to_the_end"]

CPU_SECONDS = 5.0
"""Processor time of one input, all threads of the process together."""

MEMORY_GROWTH = 768 << 20
"""Bytes by which one input may raise the memory that the process holds, compiled code and JAX's caches included."""

ADDRESS_SPACE = 7 << 30
"""Bytes of addresses of the whole process: an attempt to allocate more is a MemoryError at once, and a finding."""

CLEAR_AFTER = 250
"""Inputs between two clearings of JAX's caches."""

STAGES = {"symbol_grammar": SYMBOL_STAGES, "array_grammar": ARRAY_STAGES}
"""Target → how far an input can come, in order."""


def draw(target: str, seed: int, number: int) -> bytes:
    """Input `number` of a run; it depends on nothing else."""
    rng = random.Random(f"{target}:{seed}:{number}")
    return grammar.draw_symbol(rng) if target == "symbol_grammar" else array_grammar.draw_arrays(rng)


def take_to_the_end(target: str, data: bytes, *, execute: bool = False) -> str:
    """Run one input; the last stage it reached. Whatever is raised is a finding."""
    with limits():
        return symbol_to_the_end(data, execute=execute) if target == "symbol_grammar" else arrays_to_the_end(data)


def _hang(signum: int, frame: FrameType | None) -> NoReturn:
    raise Hang(f"more than {CPU_SECONDS} s of processor time")


@contextlib.contextmanager
def limits() -> Iterator[None]:
    """Hold the block to its time and memory. Raises Hang, AssertionError."""
    before = _peak()
    previous = signal.signal(signal.SIGPROF, _hang)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
    grown = _peak() - before
    assert grown < MEMORY_GROWTH, f"the process grew by {grown} bytes"


def _peak() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _place(error: BaseException) -> str:
    """Where in the library an error came from: what tells findings apart."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/symjax_nnvm/" in frame.filename or "/lowering/" in frame.filename]
    where = f"{Path(ours[-1].filename).name}:{ours[-1].name}" if ours else "outside"
    kind = type(error).__name__
    return f"{kind} at {where}" if not isinstance(error, AssertionError) else f"{kind} ({str(error)[:40]}) at {where}"


def _work(options: argparse.Namespace, report: Callable[..., None]) -> None:
    counts: Counter[str] = Counter()
    said = time.monotonic()
    numbers = range(options.start, options.stop, options.step)
    with options.record.open("wb", buffering=0) as record:
        for i, number in enumerate(numbers):
            record.seek(0)
            record.truncate()
            record.write(f"{number}\n".encode())  # drawing the input may end the process too
            data = b""
            try:
                with limits():
                    data = draw(options.target, options.seed, number)
                record.write(data)
                execute = options.execute > 0 and number % options.execute == 0
                counts[take_to_the_end(options.target, data, execute=execute)] += 1
            except KeyboardInterrupt:
                raise
            except (Exception, Hang) as error:  # whatever it is, it is a finding
                text = f"{str(error)[:300]}\n\n{traceback.format_exc()[-6000:]}"
                report(finding=_place(error), number=number, text=text, data=base64.b64encode(data).decode())
            if time.monotonic() - said > 2 or number == numbers[-1]:
                said = time.monotonic()
                report(number=number, counts=dict(counts))
                counts.clear()
            if i % CLEAR_AFTER == CLEAR_AFTER - 1:
                jax.clear_caches()
                gc.collect()


def main() -> None:
    """The command line of `workers.py`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("target", choices=list(STAGES))
    for name in ("seed", "start", "stop", "step", "execute"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--record", type=Path, required=True)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _work(options, lambda **line: print(json.dumps(line), flush=True))


if __name__ == "__main__":
    main()
