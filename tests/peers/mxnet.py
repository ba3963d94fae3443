"""MXNet's own unit tests on `lowering.mx`: `python -m tests.peers.mxnet --source CHECKOUT`.

CHECKOUT is a working tree of apache/mxnet at tag 1.9.1; nothing of it is kept here. Each file of tests runs in a
process of its own in which `import mxnet` is `lowering.mx` (`lowering.mx.install`). `mxnet.toml` lists the tests that
are not expected to pass, each with a reason; a test that fails and is not there makes the command fail, and so does one
that is there and passes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from symjax_nnvm.tables import table_text

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_suffix(".toml")

FILES = (
    *("symbol", "attr", "executor", "infer_shape", "infer_type", "module", "io", "metric", "init", "rnn", "viz"),
    *("autograd", "model_parallel", "multi_device_exec", "recordio", "optimizer", "ndarray", "kvstore"),
    *("kvstore_custom", "contrib_control_flow", "contrib_krprod", "contrib_stes_op", "contrib_hawkesll", "contrib_io"),
    *("contrib_svrg_module", "contrib_svrg_optimizer", "contrib_optimizer", "contrib_operator", "contrib_autograd"),
    *("contrib_text", "random", "operator", "higher_order_grad", "loss", "image", "sparse_operator", "profiler"),
)


class Row(NamedTuple):
    """What became of a test: "passed", "skipped", "failed"; what it said; how long it took."""

    test: str
    outcome: str
    said: str
    seconds: float


def run_file(tests: Path, seconds: int, only: str) -> list[Row]:
    """The rows of one file of tests. A process that dies leaves the rows of the tests before."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "rows"
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(tests.parent)]),
            "PEER_RESULTS": str(results),
            "PEER_SECONDS": str(seconds),
        }
        plain = ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", "tests.peers.plugin", "-c", os.devnull]
        command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(tests.parent), *plain, str(tests)]
        ended = subprocess.run(
            [*command, *(["-k", only] if only else [])], cwd=folder, env=env, capture_output=True, text=True
        )
        lines = results.read_text(encoding="utf-8").splitlines() if results.is_file() else []
        rows = [Row(**json.loads(line)) for line in lines]
        if ended.returncode not in (0, 1, 5) and not any(row.outcome == "failed" for row in rows):
            rows.append(Row(tests.name, "failed", (ended.stdout + ended.stderr)[-2000:], 0.0))
        return rows


def main() -> int:
    """Print the table, and what is not as the list says. Returns 1 where something is not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, help="a checkout of apache/mxnet, tag 1.9.1")
    parser.add_argument("--seconds", type=int, default=120, help="for one test")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="as pytest's -k")
    parser.add_argument("--out", type=Path, help="a file for a line of JSON for each test")
    parser.add_argument("files", nargs="*", default=FILES, help="names of files, without test_ and .py")
    options = parser.parse_args()
    listed: dict[str, dict[str, str]] = tomllib.loads(LIST.read_text(encoding="utf-8"))
    folder = options.source / "tests" / "python" / "unittest"
    paths = [folder / f"test_{name}.py" for name in options.files]
    wrong: list[str] = []
    table: list[tuple[str, ...]] = []
    with ThreadPoolExecutor(options.workers) as workers:
        for path, rows in zip(
            paths, workers.map(lambda path: run_file(path, options.seconds, options.only), paths), strict=True
        ):
            reasons = listed.get(path.stem, {})
            counts = dict.fromkeys(("passed", "skipped", "listed", "failed"), 0)
            for row in rows:
                name = row.test.rpartition("::")[2]
                outcome = "listed" if row.outcome == "failed" and name in reasons else row.outcome
                counts[outcome] += 1
                if outcome == "failed":
                    wrong.append(f"{row.test}: {row.said.splitlines()[0] if row.said else ''}")
                elif outcome == "passed" and name in reasons:
                    wrong.append(f"{row.test} passes, and is listed")
                if options.out is not None:
                    with options.out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row._asdict()) + "\n")
            table.append((path.stem, str(len(rows)), *map(str, counts.values())))
            print(f"{path.stem}: {counts}", file=sys.stderr, flush=True)
    totals = [str(sum(int(row[i]) for row in table)) for i in range(1, 6)]
    print(table_text(("file", "run", "passed", "skipped", "listed", "failed"), [*table, ("all", *totals)]))
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
