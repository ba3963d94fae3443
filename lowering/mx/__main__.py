"""`python -m lowering.mx script.py args…` runs a script that says `import mxnet` on this namespace.

`-m module args…`, `-c code args…` and `-`, the standard input, are run as Python itself runs them. The process has the
names back that NumPy 2 dropped, such as np.float; `--numpy2` before all else leaves them out. What is compiled is kept
in the user's cache folder for the next run, unless `--no-cache` comes before.
"""

from __future__ import annotations

import os
import runpy
import sys
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, TracebackType

from lowering.mx import install
from lowering.mx.compatibility.spawned import NUMPY2, SCRIPT, wants_numpy1
from lowering.xla.kept_programs import keep_programs


def main(argv: list[str], keeps: bool = True) -> int | None:
    """Run a script, a module or code as `__main__`, with its arguments. keeps: what is compiled. Returns 2 where none
    is named, or there is no such script."""
    match argv:
        case ["--numpy2", *rest]:
            os.environ[NUMPY2] = "1"
            return main(rest, keeps)
        case ["--no-cache", *rest]:
            return main(rest, False)
        case [word, *_] if keeps and word not in ("-h", "--help"):
            with suppress(OSError):  # no folder to write to: programs are compiled in each run
                keep_programs()
            return main(argv, False)
        case ["-m", module, *rest]:
            install(numpy1=wants_numpy1())
            sys.argv, sys.path[0] = [module, *rest], str(Path.cwd())
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-c", code, *rest]:
            _run(code, "<string>", ["-c", *rest], "")
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
    """Have an error that ends the process be told without the frames of this file and of `runpy`, by the script's own
    hook where it has one."""
    tell = sys.excepthook

    def told(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        while trace is not None and (trace.tb_frame.f_globals is globals() or _is_runpy(trace)):
            trace = trace.tb_next
        tell(kind, error.with_traceback(trace), trace)

    sys.excepthook = told


def _is_runpy(trace: TracebackType) -> bool:
    return trace.tb_frame.f_globals.get("__name__") == "runpy"


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BaseException:
        _hide_runner()
        raise
