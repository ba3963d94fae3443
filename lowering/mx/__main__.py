"""`python -m lowering.mx script.py args…` runs a script with `import mxnet` on this namespace.

`-m module args…`, `-c code args…` and `-`, the standard input, are run as Python itself runs them. The process has the
names back that NumPy 2 dropped, such as np.float; `--numpy2` before all else leaves them out. Compiled programs are
kept in the user's cache folder for the next run, unless `--no-cache` comes first.
"""

from __future__ import annotations

import gc
import multiprocessing.pool  # noqa: F401  # scripts use it that import MXNet
import os
import runpy
import sys
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, TracebackType

from lowering.mx import install
from lowering.mx.compatibility.numpy1 import way_out
from lowering.mx.compatibility.spawned import NUMPY2, SCRIPT, wants_numpy1
from lowering.xla.kept_programs import keep_programs


def main(argv: list[str], keeps: bool = True) -> int | None:
    """Run a script, a module or code as `__main__`, with its arguments. keeps: whether compiled programs are kept.
    Returns 2 where no script is named or the script does not exist."""
    match argv:
        case ["--numpy2", *arguments]:
            os.environ[NUMPY2] = "1"
            return main(arguments, keeps)
        case ["--no-cache", *arguments]:
            return main(arguments, False)
        case [word, *_] if keeps and word not in ("-h", "--help"):
            with suppress(OSError):  # no folder to write to: programs are compiled in each run
                keep_programs()
            return main(argv, False)
        case ["-m", module, *arguments]:
            install(numpy1=wants_numpy1())
            sys.argv, sys.path[0] = [module, *arguments], str(Path.cwd())
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-c", code, *arguments]:
            _run(code, "<string>", ["-c", *arguments], "")
        case ["-", *_]:
            _run(sys.stdin.read(), "<stdin>", argv, "")
        case [script, *_] if script not in ("-h", "--help"):
            path = Path(script)
            if not path.exists():
                print(f"There is no script {script}.", file=sys.stderr)
                return 2
            if path.suffix in (".py", ".pyw"):
                _run(path.read_bytes(), os.path.abspath(script), argv, str(path.resolve().parent))
            else:  # a folder or an archive with a __main__.py, or a file of another name
                install(numpy1=wants_numpy1())
                sys.argv, sys.path[0] = argv, str(path.resolve().parent)
                runpy.run_path(os.path.abspath(script), run_name="__main__")
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return None


def _run(code: str | bytes, name: str, argv: list[str], folder: str) -> None:
    """Run code as `__main__`. Processes that `multiprocessing` spawns run a script again by the module of its spec."""
    install(numpy1=wants_numpy1())
    sys.argv, sys.path[0] = argv, folder
    module = sys.modules["__main__"] = ModuleType("__main__")
    if folder:
        module.__file__, module.__spec__ = name, ModuleSpec("lowering.mx.compatibility.spawned", None, origin=name)
        os.environ[SCRIPT] = name
    exec(compile(code, name, "exec"), module.__dict__)


def _hide_runner() -> None:
    """Print an error that ends the process without the frames of this file and of `runpy`; a hook of the script's own
    is called instead of Python's."""
    hook = sys.excepthook

    def without_runner(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        while trace is not None and (trace.tb_frame.f_globals is globals() or _is_runpy(trace)):
            trace = trace.tb_next
        hook(kind, error.with_traceback(trace), trace)

    sys.excepthook = without_runner


def _is_runpy(trace: TracebackType) -> bool:
    return trace.tb_frame.f_globals.get("__name__") == "runpy"


if __name__ == "__main__":
    gc.freeze()  # each full collection would walk all that JAX made when it was imported: 0.14 s
    try:
        sys.exit(main(sys.argv[1:]))
    except BaseException as error:
        _hide_runner()
        if fix := way_out(error):
            error.add_note(fix)
        raise
