"""Fuzzing in child processes: an input that ends its process, or hangs in compiled code, is kept all the same.

`worker.py` is the child. When one ends by a signal, or is silent for too long, the input that it wrote down is the
finding, and another child goes on behind it. Inputs depend on (target, seed, number) only.
"""

from __future__ import annotations

import base64
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

__all__ = ["GRAMMAR_TARGETS", "Outcome", "fuzz_in_workers"]

GRAMMAR_TARGETS = ("symbol_grammar", "array_grammar")

SILENCE = 300.0
"""Seconds on the clock after which a worker that says nothing is ended: it hangs where no signal reaches Python."""

RECYCLE = 2500
"""Numbers that one child is given: what JAX and XLA keep goes with it."""


SHOWN = 10
"""Findings of one kind and place that are saved: two of them may have nothing else in common."""


@dataclass
class Outcome:
    """What came of a run. counts: inputs by the last stage reached. findings: how often each, by kind and place."""

    counts: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def executions(self) -> int:
        """Inputs that were run."""
        return self.counts.total() + self.findings.total()


@dataclass
class _Lane:
    """The numbers `next`, next + step, … below `stop`, and the child that runs them."""

    next: int
    stop: int
    step: int
    record: Path
    child: subprocess.Popen[str] | None = None
    last: int = 0
    heard: float = 0.0

    @property
    def done(self) -> bool:
        """Whether all its numbers were run."""
        return self.next >= self.stop


def fuzz_in_workers(
    target: str, executions: int, *, seed: int, start: int, jobs: int, execute: int, finds: Path
) -> Outcome:
    """Run inputs `start` to `start + executions` in `jobs` children; findings are saved, a few of each kind and place.

    execute: every so many inputs that are traced are also compiled and run; 0: none.
    """
    outcome, started, shown = Outcome(), time.monotonic(), 0.0
    with tempfile.TemporaryDirectory(prefix="symjax-nnvm-fuzz-") as folder, selectors.DefaultSelector() as selector:
        stop = start + executions
        lanes = [_Lane(start + k, stop, jobs, Path(folder) / f"input{k}") for k in range(min(jobs, executions))]

        def spawn(lane: _Lane) -> None:
            lane.child = _child(target, seed, execute, lane)
            lane.heard = time.monotonic()
            assert lane.child.stdout is not None
            selector.register(lane.child.stdout, selectors.EVENT_READ, lane)

        try:
            for lane in lanes:
                spawn(lane)
            while selector.get_map():
                for key, _ in selector.select(timeout=1.0):
                    lane: _Lane = key.data
                    line = key.fileobj.readline()  # type: ignore[union-attr]
                    if line:
                        lane.heard = time.monotonic()
                        _hear(json.loads(line), lane, target, outcome, finds)
                        continue
                    selector.unregister(key.fileobj)
                    _bury(lane, target, outcome, finds)
                    if not lane.done:
                        spawn(lane)
                for lane in lanes:
                    if lane.child is not None and time.monotonic() - lane.heard > SILENCE:
                        lane.child.send_signal(signal.SIGABRT)
                        lane.heard = float("inf")
                if time.monotonic() - shown > 5:
                    shown = time.monotonic()
                    _show(target, executions, outcome, shown - started)
        finally:
            for lane in lanes:
                if lane.child is not None:
                    lane.child.kill()
                    _end(lane.child)
    outcome.seconds = time.monotonic() - started
    _show(target, executions, outcome, outcome.seconds)
    return outcome


def _child(target: str, seed: int, execute: int, lane: _Lane) -> subprocess.Popen[str]:
    stop = min(lane.stop, lane.next + RECYCLE * lane.step)
    lane.last = stop
    numbers = {"seed": seed, "start": lane.next, "stop": stop, "step": lane.step, "execute": execute}
    options = [part for name, value in numbers.items() for part in (f"--{name}", str(value))]
    command = [sys.executable, "-m", "tests.fuzz.worker", target, *options, "--record", str(lane.record)]
    errors: IO[str] = lane.record.with_suffix(".err").open("w", encoding="utf-8")
    with errors:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=dict(os.environ))


def _end(child: subprocess.Popen[str]) -> int:
    """Wait for a child that has ended, or was told to; its exit status."""
    with child:  # which closes the pipe
        return child.wait()


def _hear(line: dict[str, Any], lane: _Lane, target: str, outcome: Outcome, finds: Path) -> None:
    """A line of a child: a finding, or how far it has come."""
    lane.next = max(lane.next, line["number"] + lane.step)
    if "finding" in line:
        data = base64.b64decode(line["data"])
        _note(outcome, line["finding"], finds, target, line["number"], data, line["text"])
    else:
        outcome.counts.update(line["counts"])


def _bury(lane: _Lane, target: str, outcome: Outcome, finds: Path) -> None:
    """A child has ended: at its last number, or by an input that ended it."""
    assert lane.child is not None
    code = _end(lane.child)
    if code == 0:
        lane.next = max(lane.next, lane.last + (lane.next - lane.last) % lane.step)
    else:
        number, data = _recorded(lane)
        how = signal.Signals(-code).name if code < 0 else f"exit {code}"
        errors = lane.record.with_suffix(".err").read_text(encoding="utf-8", errors="replace")
        _note(outcome, f"the process ended: {how}", finds, target, number, data, errors[-6000:])
        if number is None:
            raise RuntimeError(f"a worker did not start: {errors[-3000:]}")
        outcome.counts["before a crash"] += max(0, (number - lane.next) // lane.step)
        lane.next = number + lane.step
    lane.child = None


def _recorded(lane: _Lane) -> tuple[int | None, bytes]:
    """The number and the bytes that the child wrote down last."""
    if not lane.record.exists():
        return None, b""
    number, _, data = lane.record.read_bytes().partition(b"\n")
    return (int(number) if number else None), data


def _note(outcome: Outcome, kind: str, finds: Path, target: str, number: int | None, data: bytes, text: str) -> None:
    """Count a finding; the first few of its kind are saved and shown."""
    outcome.findings[kind] += 1
    if outcome.findings[kind] <= SHOWN:
        finds.mkdir(parents=True, exist_ok=True)
        stem = f"{target}-{number}"
        (finds / stem).write_bytes(data)
        (finds / f"{stem}.txt").write_text(f"{kind}\nnumber {number}\n\n{text}", encoding="utf-8")
        print(f"finding: {kind}, number {number}: {text.splitlines()[0][:200] if text else ''}", flush=True)


def _show(target: str, executions: int, outcome: Outcome, seconds: float) -> None:
    done = outcome.executions
    far = ", ".join(f"{stage} {count / max(done, 1):.1%}" for stage, count in outcome.counts.most_common())
    line = f"{target}: {done:,} of {executions:,} · {done / seconds:,.1f}/s · {far} · {len(outcome.findings)} findings"
    print(line, file=sys.stderr, flush=True)
