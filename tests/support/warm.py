"""Child processes that need not import: each is forked from a process that has imported `lowering.mx`."""

import atexit
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from types import ModuleType

ROOT = Path(__file__).parents[2]


def run(
    arguments: Sequence[str],
    *,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    input: str = "",
    timeout: float = 300,
) -> subprocess.CompletedProcess[str]:
    """What Python does with `-c code …`, `-m module …` or `script.py …`, in a process that has made no array yet.

    `subprocess.run` is for what a process does that has imported nothing, and for other variables of JAX's and XLA's,
    which are read by imports.
    """
    if not hasattr(os, "fork"):
        command = [sys.executable, *arguments]
        return subprocess.run(
            command, cwd=cwd, env=env, input=input, timeout=timeout, capture_output=True, text=True, check=False
        )
    job = {"arguments": [*arguments], "cwd": str(cwd), "env": dict(os.environ if env is None else env)}
    with ExitStack() as stack:
        files = [stack.enter_context(TemporaryFile("w+")) for _ in range(3)]
        files[0].write(input)
        files[0].seek(0)
        server, text = _server(), json.dumps(job).encode()
        server.settimeout(timeout)
        socket.send_fds(server, [len(text).to_bytes(8, "big")], [file.fileno() for file in files])
        server.sendall(text)
        try:
            code = int(server.recv(16))
        except TimeoutError:
            _server.cache_clear()  # it waits for what hangs
            raise subprocess.TimeoutExpired([*arguments], timeout) from None
        for file in files:
            file.seek(0)
        return subprocess.CompletedProcess([*arguments], code, files[1].read(), files[2].read())


@cache
def _server() -> socket.socket:
    """A connection to the process that is forked."""
    ours, theirs = socket.socketpair()
    code = f"import lowering.mx\nfrom tests.support.warm import serve\nserve({theirs.fileno()})"
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, pass_fds=[theirs.fileno()]
    )
    atexit.register(lambda: (ours.close(), process.wait()))
    theirs.close()
    return ours


def serve(descriptor: int) -> None:
    """Fork for each job that a connection brings, and do it in the child; until the other side closes it."""
    connection = socket.socket(fileno=descriptor)
    while True:
        size, files, _, _ = socket.recv_fds(connection, 8, 3)
        if not size:
            return
        job = json.loads(connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of forks and threads: there are none yet
            child = os.fork()
        if not child:
            break
        for file in files:
            os.close(file)
        connection.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
    connection.close()
    for place, file in enumerate(files):
        os.dup2(file, place)
        os.close(file)
    os.environ.clear()
    os.environ.update(job["env"])
    os.chdir(job["cwd"])
    code = _done(job["arguments"])
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # taking all modules apart takes Python longer than most jobs


def _done(arguments: list[str]) -> int:
    """The exit code of a job that is done, whose error, if there is one, is told as Python tells it."""
    try:
        _execute(arguments)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        if isinstance(error, KeyboardInterrupt):
            sys.stdout.flush()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        return 1
    return 0


def _execute(arguments: list[str]) -> None:
    match arguments:
        case ["-c", code, *more]:
            sys.argv, sys.path[0] = ["-c", *more], ""
            module = sys.modules["__main__"] = ModuleType("__main__")
            exec(compile(code, "<string>", "exec", dont_inherit=True), vars(module))
        case ["-m", module, *more]:
            sys.argv, sys.path[0] = [module, *more], os.getcwd()
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case [script, *_]:
            sys.argv, sys.path[0] = arguments, str(Path(script).resolve().parent)
            runpy.run_path(script, run_name="__main__")
