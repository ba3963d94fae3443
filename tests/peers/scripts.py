"""MXNet's own example scripts, unchanged, on `lowering.mx`: `python -m tests.peers.scripts --source CHECKOUT`.

CHECKOUT is a working tree of apache/mxnet at tag 1.9.1, that of `--source100` one at tag 1.0.0; nothing of them is kept
here. `scripts.toml` lists the scripts, their arguments, and a number that each says at its end. A script runs in a
process and in a folder of its own, with data that `script_data.py` makes in place of what it would download, by
`python -m lowering.mx`. A script that does not end as the table says makes the command fail, and so does one that is
listed as failing and passes. `--mxnet PYTHON` runs the live MXNet of another interpreter beside it.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from symjax_nnvm.tables import table_text
from tests.peers.gluon_script_data import GLUON_MAKERS
from tests.peers.script_data import MAKERS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
START = str(HERE / "script_start.py")


@dataclass(frozen=True)
class Script:
    """A row of the table.

    path: in example/. args: of the command line. first: command lines that run before it, in the same folder. folder:
    where it runs, in example/, by default its own. data: (maker of `script_data`, folder, further arguments), each
    folder beside the script. beside: further folders of the checkout that it reads. number: the pattern of a line,
    whose group is the number; the last one counts. mxnet: MXNet's number; within: how far from it ours may be. until:
    the pattern of a line after which the script is ended, `times` times: it has no argument for fewer epochs. gpu, old:
    as in `script_start.py`. home: the folder where it runs is its home, too. x64: it needs 64-bit numbers. python2: it
    is converted by lib2to3 first. needs: modules without which it is skipped. seconds: its limit, which `--patience`
    multiplies. fails: why it is not expected to pass.
    """

    name: str
    path: str
    version: str = "1.9.1"
    args: str = ""
    first: Sequence[str] = ()
    folder: str = ""
    data: Sequence[Sequence[str | int]] = ()
    beside: Sequence[str] = ()
    number: str = ""
    mxnet: float | None = None
    within: float = 0.0
    until: str = ""
    times: int = 1
    gpu: bool = False
    old: bool = False
    home: bool = False
    x64: bool = False
    python2: bool = False
    needs: Sequence[str] = ()
    seconds: float = 300
    fails: str = ""


class Ended(NamedTuple):
    """What became of a run: whether it ended well, its number, what it said at the end, and how long it took."""

    well: bool
    number: float | None
    said: str
    seconds: float


def table(path: Path = HERE / "scripts.toml") -> list[Script]:
    """The scripts of the table."""
    rows = tomllib.loads(path.read_text(encoding="utf-8"))
    return [Script(name, **row) for name, row in rows.items()]


def prepare(script: Script, checkout: Path, folder: Path) -> Path:
    """Copy what a script needs of a checkout, and make its data. Returns the folder where it runs."""
    for part in (Path("example", Path(script.path).parts[0]), *script.beside):
        shutil.copytree(checkout / part, folder / part, dirs_exist_ok=True)
    if script.python2:
        convert(folder)
    own = folder / "example" / (script.folder or Path(script.path).parent)
    for maker, where, *arguments in script.data:
        place = own / str(where)
        place.mkdir(parents=True, exist_ok=True)
        (MAKERS | GLUON_MAKERS)[str(maker)](place, *arguments)
    return own


def convert(folder: Path) -> None:
    """Convert the files of a folder from Python 2."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from lib2to3.refactor import RefactoringTool, get_fixers_from_package

        tool = RefactoringTool(get_fixers_from_package("lib2to3.fixes"))
        for path in folder.rglob("*.py"):
            text = path.read_text(encoding="utf-8") + "\n"
            path.write_text(str(tool.refactor_string(text, str(path))), encoding="utf-8")


def run(script: Script, checkout: Path, python: Sequence[str]) -> Ended:
    """Run a script in a folder of its own. python: the command that runs a file."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        own = prepare(script, checkout, Path(folder))
        path = str(Path(folder) / "example" / script.path)
        for line in script.first:
            first, *arguments = shlex.split(line)
            well, said = command(
                [*python, START, str(Path(folder) / "example" / first), *arguments], own, script, until=""
            )
            if not well:
                return Ended(False, None, said, time.monotonic() - began)
        well, said = command([*python, START, path, *shlex.split(script.args)], own, script, script.until)
    found = re.findall(script.number, said) if script.number else []
    return Ended(well, float(found[-1]) if found else None, said, time.monotonic() - began)


def command(words: Sequence[str], folder: Path, script: Script, until: str) -> tuple[bool, str]:
    """Run a command until it ends, or until it said a line often enough. Returns whether it did, and what it said."""
    how = " ".join(name for name in ("gpu", "old") if getattr(script, name))
    env = {**os.environ, "PEER_SCRIPT": how, "PYTHONHASHSEED": "0", "MPLBACKEND": "Agg", "PYTHONUNBUFFERED": "1"}
    env |= {"PYTHONPATH": str(ROOT), **({"JAX_ENABLE_X64": "1"} if script.x64 else {})}
    env |= {"HOME": str(folder)} if script.home else {}
    into, out, both = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(
        words, cwd=folder, env=env, stdin=into, stdout=out, stderr=both, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        timer = threading.Timer(script.seconds, process.kill)
        timer.start()
        lines, count = [], 0
        for line in process.stdout:
            lines.append(line)
            count += bool(until and re.search(until, line))
            if count == script.times:
                process.kill()
                break
        in_time = timer.is_alive()
        timer.cancel()
        if not in_time:
            lines.append(f"longer than {script.seconds:g} s\n")
    return in_time and (count == script.times or process.returncode == 0), "".join(lines)


def verdict(script: Script, ended: Ended) -> str:
    """What is wrong with a run; empty where nothing is."""
    lines = [line for line in ended.said.splitlines() if line.strip()]
    if not ended.well:
        return lines[-1] if lines else "it said nothing"
    if script.number and ended.number is None:
        return f"no line is as {script.number!r}"
    if script.mxnet is not None and (ended.number is None or not abs(ended.number - script.mxnet) <= script.within):
        return f"{ended.number}, MXNet {script.mxnet} ± {script.within}"
    return ""


def main() -> int:
    """Returns 1 where a script does not end as the table says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, help="a checkout of apache/mxnet at tag 1.9.1")
    parser.add_argument("--source100", type=Path, help="one at tag 1.0.0; without it its scripts are left out")
    parser.add_argument("--mxnet", help="an interpreter that has MXNet 1.9.1, to run the scripts with it, too")
    parser.add_argument("--no-ours", action="store_true", help="run them with --mxnet alone")
    parser.add_argument("--patience", type=float, default=1, help="a factor of the limits, for a machine that is busy")
    parser.add_argument("--out", type=Path, help="a file for a line of JSON for each script")
    parser.add_argument("names", nargs="*", help="rows of the table; default: all")
    options = parser.parse_args()
    sources = {"1.9.1": options.source, "1.0.0": options.source100}
    wrong: list[str] = []
    rows: list[tuple[str, ...]] = []
    for script in table():
        checkout = sources[script.version]
        if checkout is None or (options.names and script.name not in options.names):
            continue
        script = replace(script, seconds=script.seconds * options.patience)
        theirs = run(script, checkout, [options.mxnet]) if options.mxnet else None
        missing = [name for name in script.needs if find_spec(name) is None]
        ours, result, problem = None, "skipped", f"needs {', '.join(missing)}"
        if not missing and not options.no_ours:
            ours = run(script, checkout, [sys.executable, "-m", "lowering.mx"])
            problem = verdict(script, ours)
            result = ("listed" if script.fails else "failed") if problem else "passed"
            if result == "failed" or (result == "passed" and script.fails):
                wrong.append(f"{script.name}: {problem or 'it passes, and is listed'}")
        shown = [script.name, script.version, result]
        for ended in (ours, theirs):
            shown += ["", ""] if ended is None else [_text(ended.number, ended.well), f"{ended.seconds:.0f}"]
        rows.append((*shown, _text(script.mxnet, True), script.fails or problem))
        print("  ".join(rows[-1]), file=sys.stderr, flush=True)
        if options.out is not None:
            with options.out.open("a", encoding="utf-8") as file:
                said = {side: ended._asdict() for side, ended in (("ours", ours), ("mxnet", theirs)) if ended}
                file.write(json.dumps({"name": script.name, "result": result, "problem": problem, **said}) + "\n")
    print(table_text((("script", "version", "result", "ours", "s", "live MXNet", "s", "MXNet", "why")), rows))
    print("\n".join(wrong))
    return 1 if wrong else 0


def _text(number: float | None, well: bool) -> str:
    return ("" if well else "stopped ") + ("" if number is None else f"{number:.5g}")


if __name__ == "__main__":
    sys.exit(main())
