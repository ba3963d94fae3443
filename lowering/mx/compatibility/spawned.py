"""The script of `python -m lowering.mx` in a process that `multiprocessing` spawned, as this module."""

import os
from pathlib import Path

SCRIPT = "_LOWERING_MX_SCRIPT"
"""The environment variable with the script's path for spawned processes, which get only a module's name from Python."""

NUMPY2 = "_LOWERING_MX_NUMPY2"
"""The environment variable that is set where a script is to have no names that NumPy 2 dropped."""


def wants_numpy1() -> bool:
    """Return whether a script is to have the names that NumPy 2 dropped."""
    return NUMPY2 not in os.environ


if __name__ == "__mp_main__":
    from lowering.mx import install

    install(numpy1=wants_numpy1())
    exec(compile(Path(os.environ[SCRIPT]).read_bytes(), os.environ[SCRIPT], "exec"), globals())
