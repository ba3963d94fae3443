"""Every contender gets all cores that the process may use, and says so above the table.

MXNet takes half of the logical cores unless OMP_NUM_THREADS says otherwise, onnxruntime a thread for each physical core
unless its session says otherwise; XLA takes all. A comparison in which one side has half of the machine says nothing.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

_VERSION = "from importlib.metadata import version; print({name!r}, version({name!r}))"


def cores() -> int:
    """How many cores the process may use (`taskset` counts)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def with_all_cores() -> dict[str, str]:
    """The environment of a contender: as many OpenMP threads as cores, unless the caller said otherwise."""
    return {"OMP_NUM_THREADS": str(cores()), **os.environ}


def who(packages: Sequence[tuple[str, str | None]]) -> str:
    """A line on threads and versions. packages: (name, the Python that has it; None: it takes no part)."""
    found = [
        subprocess.run(
            [python, "-c", _VERSION.format(name=name)], env=with_all_cores(), capture_output=True, text=True
        ).stdout.strip()
        for name, python in packages
        if python
    ]
    threads: Mapping[str, str] = with_all_cores()
    return f"threads: {cores()} (OMP_NUM_THREADS={threads['OMP_NUM_THREADS']}); {', '.join(filter(None, found))}"
