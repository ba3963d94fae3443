"""Loading a large array file: time and memory of ours against `numpy.load` of the same arrays, each in a fresh process.

    python benchmarks/load_params.py [--megabytes 500] [--folder DIR]

`open` is until every array is known by name, shape and dtype; `touch` reads every byte once (a sum). Cold means that
the file was dropped from the system's cache before. Peak is the process's largest resident size, less what it was after
importing; mapped pages, which the system may drop at any time, count in it. Private is the part that is the process's
own.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.contenders import fresh, print_table
from symjax_nnvm import load_arrays, save_arrays

SHAPES = ((1024, 1024), (512, 256, 3, 3), (4096, 1000), (64,), (2048,))


def make(folder: Path, megabytes: int) -> None:
    """One set of float32 arrays as `.params` and as `.npz`."""
    rng = np.random.default_rng(0)
    arrays: dict[str, np.ndarray] = {}
    left = megabytes * 2**20
    while left > 0:
        name = f"arg:layer{len(arrays)}_weight"
        arrays[name] = rng.random(SHAPES[len(arrays) % len(SHAPES)], np.float32)
        left -= arrays[name].nbytes
    save_arrays(folder / "w.params", arrays)
    np.savez(folder / "w.npz", allow_pickle=False, **arrays)
    os.sync()


def drop_from_cache(path: Path) -> None:
    """Make the next read go to the disk."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def status(key: str) -> float:
    """A field of /proc/self/status in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key + ":")) / 1024


def measure(path: Path) -> dict[str, float]:
    """Times in ms and sizes in MB of one load, in this process."""
    before, private = status("VmHWM"), status("RssAnon")
    start = time.perf_counter()
    if path.suffix == ".params":
        arrays = load_arrays(path)
        assert isinstance(arrays, dict)
        opened = time.perf_counter()
    else:
        # An .npz is read array by array, when asked for; all of them are wanted.
        with np.load(path) as archive:
            arrays = {name: archive[name] for name in archive.files}
        opened = time.perf_counter()
    total = sum(float(np.asarray(array).sum(dtype=np.float32)) for array in arrays.values())
    end = time.perf_counter()
    assert total > 0
    return {
        "open": 1e3 * (opened - start),
        "touch": 1e3 * (end - start),
        "peak": status("VmHWM") - before,
        "private": status("RssAnon") - private,
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument(
        "--folder", type=Path, default=None, help="where the files are made (default: a temporary folder)"
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--measure", type=Path, default=None, help="load this file in this process")
    chosen = parser.parse_args()
    if chosen.measure is not None:
        print(json.dumps(measure(chosen.measure)))
        return
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        folder = Path(name)
        make(folder, chosen.megabytes)
        rows = []
        for path, what in ((folder / "w.params", "load_arrays(w.params)"), (folder / "w.npz", "numpy.load(w.npz)")):
            for cache in ("cold", "warm"):
                runs = []
                for _ in range(chosen.repeat):
                    if cache == "cold":
                        drop_from_cache(path)
                    runs.append(fresh(__file__, "--measure", path))
                best = {key: min(run[key] for run in runs) for key in runs[0]}
                cells = [f"{best['open']:.1f}", f"{best['touch']:.1f}", f"{best['peak']:.0f}", f"{best['private']:.0f}"]
                rows.append([what, cache, *cells])
        print_table(["file", "cache", "open ms", "touched ms", "peak MB", "private MB"], rows, left=2)


if __name__ == "__main__":
    main()
