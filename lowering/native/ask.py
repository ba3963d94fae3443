"""`ask`: try native code of this machine in a child process, and keep the results in the user's cache.

The code behind an unpromised interface may end a process, never come back, or compute something else: oneDNN's
convolutions by `gemm`, which it takes where it has nothing better for a geometry or a processor, wait for workers that
wait for them, or read what is not theirs (seen with AVX-512, too: depth-wise and dilated, grouped in one dimension).
So each question is put to a child, which computes the very call on numbers whose result is known. An answer counts if
the child gives it in time and oneDNN reports that it used code made for that geometry.

Answers are kept by jaxlib, processor and environment: a second start asks nothing. The child ends when there have been
no questions for some seconds.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import queue
import re
import subprocess
import sys
import threading
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jaxlib.version

from lowering.convolutions.geometry import Epilogue, Geometry
from lowering.native import unpromised
from lowering.native.trials import ANSWER, BLOCKS, READY
from symjax_nnvm.errors import NNVMError
from symjax_nnvm.io.files import cache_folder, read_bounded, write_file

__all__ = ["answers_file", "ask", "trouble"]

SECONDS_TO_START = 120.0
SECONDS = 60.0
"""For one question, which takes a few hundredths of a second where all is well."""

SECONDS_OF_OTHERS = 0.5
"""For code that will not be used: a child that comes back from it answers the next question."""

_KEPT = 4096
"""Answers at most, in memory and in the file: the latest."""

_MAX_BYTES = 1 << 22
_IMPLEMENTATION = re.compile(r",cpu,(?:convolution|matmul),([^,]*),")
_OWN_CODE = ("brg", "brdgmm", "jit")
"""How the names of oneDNN's implementations begin that are made for a geometry. Others are `gemm` and `ref`."""

_PROGRAM = """
import gc, json, sys, types
gc.disable()
package = sys.modules["lowering"] = types.ModuleType("lowering")
sys.path[:], package.__path__ = json.loads(sys.argv[1])
from lowering.native.trials import main
main()
"""
"""What the child runs: it imports the modules that it needs and not the package, which would take as long again."""

_IS_CHILD = "SYMJAX_NNVM_IS_A_CHILD"
"""Environment variable of a child: an application that `sys.executable` names runs itself, and starts no other."""

_asking = threading.Lock()
_child: _Child | None = None
_trouble: str | None = None
_answers: dict[str, Any] | None = None


def ask(kind: str, geometry: Geometry | None = None, epilogue: Epilogue | None = None) -> Any:
    """Return the child's answer to a question of `lowering/native/trials.py`; None where there is no answer: the child
    ended, took too long, cannot be started, or oneDNN has no code of its own for the geometry."""
    question = [kind, *([] if geometry is None else [asdict(geometry)]), *([] if epilogue is None else [epilogue])]
    text = json.dumps(question)
    with _asking:
        answers = _answers_by_question()
        if text not in answers and _trouble is None:
            try:
                answer = _childs_answer(text)
            except BaseException:  # Ctrl-C: a late answer of the child is none to the next question
                _end()
                raise
            if _trouble is None:
                answers[text] = answer
                _keep(answers)
        return answers.get(text)


def trouble() -> str | None:
    """Why no child can be used in this process; None where one can, or where none was needed yet."""
    return _trouble


# -- the child ---------------------------------------------------------------------------------------------------------


class _Child:
    """The child process, and a thread that reads its output."""

    def __init__(self):
        self.owner = os.getpid()
        paths = [str(path) or os.getcwd() for path in sys.path]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, json.dumps([paths, [str(Path(__file__).parents[1])]])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            text=True,
            errors="replace",
            start_new_session=True,  # a terminal's signals to its programs do not reach it
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="native answers", daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines, contextlib.suppress(OSError, ValueError):
            for line in lines:
                self._lines.put(line.rstrip("\n"))
        self._lines.put(None)
        self._process.wait()  # else it stays in the table of processes until the next question

    def line(self, seconds: float) -> str | None:
        """Return the next line that the child writes; None where it ended, or wrote nothing for so long."""
        try:
            return self._lines.get(timeout=seconds)
        except queue.Empty:
            return None

    def put(self, question: str) -> bool:
        """Send the child a question; returns whether it was still alive."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(question + "\n")
            self._process.stdin.flush()
        except OSError:
            return False
        return True

    def has_ended_by_itself(self) -> bool:
        """Return whether the child ended by itself because it had nothing to do for long."""
        return self._process.poll() == 0

    def end(self) -> int:
        """Kill the child; returns its exit status, 0 where it ended by itself."""
        self._process.kill()
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        return self._process.wait()


def _environment() -> dict[str, str]:
    """Return the child's environment: the CPU, as many devices as this process has, no cache; oneDNN prints what it
    makes."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "JAX_COMPILATION_"))}
    like_here = {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(len(jax.local_devices(backend="cpu")))}
    return ours | like_here | {"ONEDNN_VERBOSE": "profile_create", "PYTHONSAFEPATH": "1", _IS_CHILD: "1"}


def _childs_answer(question: str) -> Any:
    """Return a child's answer. Sets `_trouble` where no child can be used."""
    for _ in range(2):  # the first child may end, because it was idle, just when it gets the question
        child = _running()
        if child is None:
            return None
        if not child.put(question):
            _end()
            continue
        own_code, seconds = question == '["one_core"]', SECONDS
        while (line := child.line(seconds)) is not None:
            if line.startswith(ANSWER):
                answer = json.loads(line[len(ANSWER) :])
                return answer if own_code and _is_answer(question, answer) else None
            if match := _IMPLEMENTATION.search(line):  # which it prints before it computes
                own_code = match[1].startswith(_OWN_CODE)
                seconds = SECONDS if own_code else SECONDS_OF_OTHERS
        if _end() != 0:
            return None
    return None


def _running() -> _Child | None:
    """Return a child that waits for a question; None, with `_trouble` set, where none can be started."""
    global _child, _trouble
    if _child is not None and _child.owner != os.getpid():  # another process's, after a fork
        _child = None
    if _child is not None and _child.has_ended_by_itself():
        _end()
    if _child is None:
        if _IS_CHILD in os.environ or getattr(sys, "frozen", False) or not sys.executable:
            _trouble = "the program is not a Python interpreter, which could be started as a child process"
            return None
        try:
            _child = _Child()
        except Exception as error:  # whatever a system raises that starts no process and no thread
            _trouble = f"no child process could be started: {error}"
            return None
        line = _child.line(SECONDS_TO_START)
        while line is not None and not line.startswith(READY):
            line = _child.line(SECONDS_TO_START)
        if line is None:
            _trouble = f"the child process did not start: it ended with {_end()}"
        elif (threads := line.removeprefix(READY)) != str(_threads()) or not _threads():
            _trouble = f"XLA computes with {_threads() or 'unknown'} threads here, with {threads} in a child process"
            _end()
    return _child


@cache
def _threads() -> int:
    """The number of threads of XLA's CPU, counted before there is a second client."""
    return unpromised.workers()


def _end() -> int:
    global _child
    ended, _child = _child, None
    return 0 if ended is None else ended.end()


# -- answers -----------------------------------------------------------------------------------------------------------


def _answers_by_question() -> dict[str, Any]:
    """Return answers by question, the oldest first."""
    global _answers
    if _answers is None:
        _answers = _read()
    return _answers


def _read() -> dict[str, Any]:
    path = answers_file()
    if path is not None:
        with contextlib.suppress(OSError, NNVMError, ValueError, TypeError, RecursionError):
            answers = dict(json.loads(read_bounded(path, _MAX_BYTES, "answers of native code")))
            return {question: answer for question, answer in answers.items() if _is_answer(question, answer)}
    return {}


def _is_answer(question: str, answer: Any) -> bool:
    """Return whether an answer fits its question: with a wrong integer oneDNN would read beyond a weight."""
    if question.startswith('["block'):
        return answer is None or (type(answer) is int and answer in BLOCKS)
    return answer is None or isinstance(answer, bool)


def _keep(answers: dict[str, Any]) -> None:
    """Write the answers, with those of other processes, if there is a file for them."""
    while len(answers) > _KEPT:
        del answers[next(iter(answers))]
    path = answers_file()
    if path is not None:
        both = [*(_read() | answers).items()]
        with contextlib.suppress(OSError, NNVMError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, json.dumps(dict(both[-_KEPT:]), indent=0))


@cache
def answers_file() -> Path | None:
    """Return the file of answers, for all processes of this jaxlib, this processor, as many threads and this
    environment; None where the processor is unknown."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").partition("\n\n")[0]
    except OSError:
        return None
    varying = ("processor", "cpu MHz", "bogomips", "core id", "apicid", "initial apicid", "microcode")
    lines = [line for line in text.splitlines() if line.partition("\t")[0].partition(":")[0].strip() not in varying]
    env = [f"{n}={v}" for n, v in os.environ.items() if n.startswith(("ONEDNN_", "DNNL_", "XLA_", "NPROC", "PJRT_"))]
    facts = [jaxlib.version.__version__, platform.machine(), str(_threads()), *_OWN_CODE, *lines, *sorted(env)]
    name = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
    return cache_folder() / f"native_{name}.json"
