"""How many wrong lines the tests find: `python -m tests.mutants.run --count 100 --out FILE`, an hour.

The quick tests run once and coverage.py records which of them run which line (`pip install pytest-cov`). A mutant is a
copy of the project with one operator or number changed in one expression of the two packages. It is killed when one of
the quick tests that run its line fails, or one of the other tests of its module (`tests_of`). Survivors are printed
with file and line: some change nothing that can be seen; the others want a test. What the tests do not end in time is
told apart. The same seed draws the same mutants, as long as the sources are the same; `--of FILE` tries those of an
earlier run again that are still there.
"""

import argparse
import ast
import copy
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = ("symjax_nnvm", "lowering")

SWAPS: dict[type[ast.AST], Any] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
}


class Mutant(NamedTuple):
    """One expression of a file, as it is and as it becomes."""

    file: str
    line: int
    before: str
    after: str
    start: int
    end: int


def mutants_of(file: str) -> Iterator[Mutant]:
    """Every mutant of a file."""
    data = (ROOT / file).read_bytes()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in ast.walk(ast.parse(data)):
        changed = _changed(node)
        if changed is None or not isinstance(node, ast.expr) or node.end_lineno is None or node.end_col_offset is None:
            continue
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        before = data[start:end].decode(errors="replace")
        if _is(before, node):  # Python 3.11 gives parts of f-strings other places
            yield Mutant(file, node.lineno, before, f"({ast.unparse(changed)})", start, end)


def _is(text: str, node: ast.expr) -> bool:
    """Whether a text is an expression."""
    try:
        return ast.dump(ast.parse(f"({text})", mode="eval").body) == ast.dump(node)
    except SyntaxError:
        return False


def _changed(node: ast.AST) -> ast.expr | None:
    """The expression with another operator or number; None where there is none to change."""
    other = copy.deepcopy(node)
    match other:
        case ast.Compare() if type(other.ops[0]) in SWAPS:
            other.ops[0] = SWAPS[type(other.ops[0])]()
        case ast.BoolOp() | ast.BinOp() if type(other.op) in SWAPS:
            other.op = SWAPS[type(other.op)]()
        case ast.Constant() if type(other.value) is int:
            other.value += 1
        case ast.UnaryOp(op=ast.Not()):
            return other.operand
        case _:
            return None
    assert isinstance(other, ast.expr)
    return other


@cache
def _texts() -> dict[str, str]:
    """The files of tests with what they say."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def record(place: Path, workers: int) -> None:
    """Run the quick tests in a copy of the project, and record which of them run which line."""
    wanted = "".join(f"\n  {package}" for package in PACKAGES)
    (place / ".coveragerc").write_text(f"[run]\nrelative_files = true\nsource ={wanted}\n", encoding="utf-8")
    told = ["--cov", "--cov-context=test", "--cov-report=", "-p", "no:cacheprovider"]
    subprocess.run([sys.executable, "-m", "pytest", "-m", "quick", "-n", str(workers), *told], cwd=place, check=True)


class QuickTests:
    """Tells the quick tests that run a line, as `record` wrote them down."""

    def __init__(self, recorded: Path):
        import coverage

        self._data = coverage.CoverageData(str(recorded))
        self._data.read()

    def of(self, file: str, line: int) -> list[str]:
        """Return the tests that run a line; of one that no test runs by itself, such as a line of a longer expression,
        those that run its function, and of one that runs at import, the files of tests that run any of its file."""
        lines = {number: set(filter(None, tests)) for number, tests in self._data.contexts_by_lineno(file).items()}
        functions = (
            node
            for node in ast.walk(ast.parse((ROOT / file).read_bytes()))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        )
        around = [range(node.lineno, (node.end_lineno or node.lineno) + 1) for node in functions]
        inner = min((span for span in around if line in span), key=len, default=range(0))
        ran = lines.get(line) or set().union(*(lines.get(number, ()) for number in inner))
        if not ran and not inner:
            return sorted({test.partition("::")[0] for tests in lines.values() for test in tests})
        return sorted({_ENDS.sub("", test) for test in ran})


_ENDS = re.compile(r"(@\w+)?\|\w+$")
"""What stands behind the name of a test: its group, and whether it runs or is set up."""


def tests_of(file: str) -> list[list[str]]:
    """What pytest is given for a module besides the quick tests, in turn: of an operator's file its cases, or those of
    its folder; the files of tests that import it, have its name, or read it by its path, those of its name first; the
    others of the nearest folder that mirrors its own, and where none imports it of the two nearest."""
    parts, stem = Path(file).parts, Path(file).stem
    asked: list[list[str]] = []
    if "ops" in parts:
        folder = ROOT / "tests" / "cases" / Path(*parts[parts.index("ops") + 1 :]).parent
        cases = [path for path in folder.glob("*.py") if path.stem == stem] or [*folder.glob("*.py")]
        names = {name for path in cases for name in re.findall(r"""Case\(\s*["'](\w+)""", path.read_text("utf-8"))}
        if names:
            asked.append(["tests/ops/test_ladder.py", "-k", " or ".join(sorted(names))])
    module = file.removesuffix(".py").replace("/", ".")
    package, _, last = module.rpartition(".")
    names = re.compile(rf"\b{re.escape(module)}\b|from {re.escape(package)} import [^\n]*\b{last}\b|{re.escape(file)}")
    own = [test for test in _texts() if Path(test).stem == f"test_{stem}"]
    found = own + [test for test, text in _texts().items() if test not in own and names.search(text)]
    own_package = parts[1:-1] if parts[0] == "symjax_nnvm" else parts[:-1]
    mirrors = [Path("tests", *own_package[:depth]) for depth in range(len(own_package), 0, -1)]
    beside = ([test for test in _texts() if Path(test).parent == folder] for folder in mirrors)
    near = [*chain.from_iterable(islice(filter(None, beside), 1 if found else 2))]
    others = [test for test in near if test not in found]
    return [*asked, *([*tests, "-m", "not quick"] for tests in (found, others) if tests)]


def fate(mutant: Mutant, place: Path, quick: QuickTests, seconds: float) -> tuple[str, str]:
    """What becomes of a mutant in a copy of the project: "killed", "survived", "met no test" or "not decided in time";
    and by which tests."""
    path = place / mutant.file
    whole = path.read_bytes()
    first = quick.of(mutant.file, mutant.line)
    listed = path.with_suffix(".tests")
    listed.write_text("\n".join(first), encoding="utf-8")
    path.write_bytes(whole[: mutant.start] + mutant.after.encode() + whole[mutant.end :])
    ends: list[str] = []
    try:
        for tests in [*([[f"@{listed}", "-m", "quick"]] if first else []), *tests_of(mutant.file)]:
            end, by = _run(tests, place, seconds)
            if end == "killed":
                return end, by
            ends.append(end)
    finally:
        path.write_bytes(whole)
        listed.unlink()
    return next((end for end in ("not decided in time", "survived") if end in ends), "met no test"), ""


def _run(tests: list[str], place: Path, seconds: float) -> tuple[str, str]:
    """What becomes of a copy of the project by some tests, and the test that fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
    try:
        ended = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "not decided in time", ""
    if ended.returncode in _WITHOUT_FAILURE:
        return _WITHOUT_FAILURE[ended.returncode], ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", ended.stdout, re.MULTILINE)
    return "killed", failed[1] if failed else f"pytest ended with {ended.returncode}"


_WITHOUT_FAILURE = {0: "survived", 5: "met no test"}
"""Exit codes of pytest: all tests passed; none was collected."""


def copy_of_the_project(place: Path) -> Path:
    """The files that git knows, in a folder."""
    known = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, known.decode().split("\0")):
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place / name)
    return place


def drawn_before(earlier: Path, everything: Sequence[Mutant]) -> list[Mutant]:
    """The mutants of an earlier run that are still there, at the same place or as the only ones of their text."""
    found: list[Mutant] = []
    for line in earlier.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        before = Mutant(**{name: row[name] for name in Mutant._fields})
        alike = [m for m in everything if (m.file, m.before, m.after) == (before.file, before.before, before.after)]
        same = [before] if before in alike else alike
        if len(same) == 1:
            found += same
        else:
            print(f"{before.file}:{before.line}  {before.before}  is not there any more")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--of", type=Path, help="a file that an earlier run wrote: its mutants instead of drawn ones")
    parser.add_argument("--seconds", type=float, default=600, help="for the tests of one mutant")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--recorded", type=Path, help="which test runs which line, of an earlier run of these sources")
    parser.add_argument("--out", type=Path, help="a file for a line of JSON for each mutant")
    options = parser.parse_args()
    files = [p.relative_to(ROOT).as_posix() for package in PACKAGES for p in sorted((ROOT / package).rglob("*.py"))]
    everything = [mutant for file in files for mutant in mutants_of(file)]
    if options.of is None:
        drawn = random.Random(options.seed).sample(everything, options.count)
        print(f"{len(everything):,} mutants in {len(files)} files; {options.count} of them, seed {options.seed}")
    else:
        drawn = drawn_before(options.of, everything)
    fates: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        places = [copy_of_the_project(Path(folder) / str(i)) for i in range(options.workers)]
        recorded = options.recorded or places[0] / ".coverage"
        if not recorded.is_file():
            record(places[0], options.workers)
            if options.recorded is not None:
                shutil.move(places[0] / ".coverage", recorded)

        def run(mutant: Mutant) -> tuple[Mutant, str, str]:
            place = places.pop()
            try:
                return mutant, *fate(mutant, place, QuickTests(recorded), options.seconds)
            finally:
                places.append(place)

        with ThreadPoolExecutor(options.workers) as workers:
            for mutant, end, by in workers.map(run, drawn):
                fates[end] += 1
                if end != "killed":
                    print(f"{mutant.file}:{mutant.line}  {mutant.before}  →  {mutant.after}  {end}", flush=True)
                if options.out is not None:
                    with options.out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps({**mutant._asdict(), "fate": end, "by": by}, ensure_ascii=False) + "\n")
    print(", ".join(f"{count} {end}" for end, count in fates.items()))


if __name__ == "__main__":
    main()
