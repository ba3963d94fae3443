"""Run the tests of another project on ours, file by file, and hold the results against a list."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from symjax_nnvm.tables import table_text

ROOT = Path(__file__).parents[2]


class Row(NamedTuple):
    """What became of a test: "passed", "skipped", "failed"; what it said; how long it took, in seconds."""

    test: str
    outcome: str
    said: str
    seconds: float


def run_file(plugin: str, tests: Path, seconds: int, only: str) -> list[Row]:
    """The rows of one file of tests, in a process of its own. One that dies leaves the rows of the tests before."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "rows"
        (Path(folder) / "data").mkdir()  # which tests of MXNet write into
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(tests.parent)]),
            "PEER_RESULTS": str(results),
            "PEER_SECONDS": str(seconds),
        }
        plugins = ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", "tests.peers.rows", "-p", plugin]
        command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(tests.parent), *plugins]
        command += [str(tests), *(["-k", only] if only else [])]
        ended = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
        lines = results.read_text(encoding="utf-8").splitlines() if results.is_file() else []
        rows = [Row(**json.loads(line)) for line in lines]
        if ended.returncode not in (0, 1, 5):
            last = rows[-1].test if rows else "its start"
            problem = f"The process ended with {ended.returncode} after {last}: what comes next did not run"
            rows.append(Row(tests.name, "failed", f"{problem}\n{(ended.stdout + ended.stderr)[-2000:]}", 0.0))
        return rows


def compare(
    plugin: str, paths: Sequence[Path], listed: Path, seconds: int, workers: int, only: str, out: Path | None
) -> int:
    """Run files of tests, and hold them against a list, as `report` does.

    plugin: the module that makes ours look like the other project.
    """
    with ThreadPoolExecutor(workers) as threads:
        results = threads.map(lambda path: run_file(plugin, path, seconds, only), paths)
        return report(zip((path.stem for path in paths), results, strict=True), listed, out)


def report(results: Iterable[tuple[str, Iterable[Row]]], listed: Path, out: Path | None) -> int:
    """Print a table by file of tests, and what is not as the list says.

    results: a name of a file of tests, and its rows. listed: a TOML file, by file of tests: the tests that are not
    expected to pass, each with its reason. out: a file for a line of JSON for each row. Returns 1 where a test fails
    that is not listed, or one that is listed passes.
    """
    reasons: dict[str, dict[str, str]] = tomllib.loads(listed.read_text(encoding="utf-8"))
    wrong: list[str] = []
    table: list[tuple[str, ...]] = []
    for group, rows in results:
        known = reasons.get(group, {})
        counts: dict[str, int] = dict.fromkeys(("passed", "skipped", "listed", "failed"), 0)
        for row in rows:
            name = row.test.rpartition("::")[2]
            outcome = "listed" if row.outcome == "failed" and name in known else row.outcome
            counts[outcome] += 1
            if outcome == "failed":
                wrong.append(f"{row.test}: {row.said.splitlines()[0] if row.said else ''}")
            elif outcome == "passed" and name in known:
                wrong.append(f"{row.test} passes, and is listed")
            if out is not None:
                with out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row._asdict()) + "\n")
        table.append((group, str(sum(counts.values())), *map(str, counts.values())))
        print(f"{group}: {counts}", file=sys.stderr, flush=True)
    totals = [str(sum(int(row[i]) for row in table)) for i in range(1, 6)]
    print(table_text(("file", "run", "passed", "skipped", "listed", "failed"), [*table, ("all", *totals)], right=5))
    print("\n".join(wrong))
    return 1 if wrong else 0


def arguments(description: str | None, source: str, files: Sequence[str]) -> argparse.Namespace:
    """The arguments of the command. source: what the checkout is of. files: names of all its files of tests."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, help=f"a checkout of {source}")
    parser.add_argument("--seconds", type=int, default=300, help="for one test")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="as pytest's -k")
    parser.add_argument("--out", type=Path, help="a file for a line of JSON for each test")
    parser.add_argument("files", nargs="*", default=files, help="names of files, without test_ and .py")
    return parser.parse_args()
