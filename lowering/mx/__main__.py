"""`python -m lowering.mx script.py args…` runs a script that says `import mxnet` on this namespace.

`-m module args…` runs a module instead of a file, as Python's own -m does.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from lowering.mx import install


def main(argv: list[str]) -> int | None:
    """Run a script or a module as `__main__`, with its arguments. Returns 2 where neither is named, or there is no such
    script."""
    match argv:
        case ["-m", module, *rest]:
            install()
            sys.argv, sys.path[0] = [module, *rest], str(Path.cwd())
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case [script, *_] if script not in ("-h", "--help"):
            if not Path(script).exists():
                print(f"There is no script {script}.", file=sys.stderr)
                return 2
            install()
            sys.argv, sys.path[0] = argv, str(Path(script).resolve().parent)
            runpy.run_path(script, run_name="__main__")
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
