"""Tutorials on `lowering.mx` and on MXNet: `python -m tests.peers.tutorials --source CHECKOUT --mxnet PYTHON`.

CHECKOUT is a folder of notebooks and Markdown pages: docs/python_docs or example/ of apache/mxnet at tag 1.9.1, or
zackchase/mxnet-the-straight-dope; nothing of them is kept here. The cells of a page run one by one in a process of
their own (`tutorial_cells.py`), with synthetic data, equal seeds, first values and draws, two epochs, and contexts on
the CPU; what follows a cell that fails is run. The table compares the processor seconds of the cells that pass on both,
without the import of either library, and nothing is kept from one page for the next (`--no-cache`).
"""

import argparse
import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from symjax_nnvm.tables import table_text
from tests.peers.gluon_script_data import cifar10, folders
from tests.peers.script_data import mnist, records, text

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

_EPOCHS = 2
_FENCE = re.compile(r"^```\s*\{?\.?python.*?$\n(.*?)^```", re.MULTILINE | re.DOTALL)
_NAME_OF_EPOCHS = re.compile(r"epochs?$", re.IGNORECASE)
_NAME_OF_EPOCH = re.compile(r"e$|_?epoch")
_TAB = re.compile(r"^\s*(?:#@|%%)tab +(.*)$", re.MULTILINE)
_TABS = re.compile(r"interact_select\((.*?)\)")
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?!\w)|\bnan\b|\binf\b")
_CLOCKS = re.compile(
    r"0x[0-9a-f]+|id\(\w*\): \d+|performance in[^\n]*|(?:speed|time|took|cost|duration)[^\d\n]*[\d.]+(?:e-?\d+)?"
    r"|[\d.]+(?:e-?\d+)? ?(?:s\b|ms\b|sec|samples|[a-z ]+/sec)",
    re.IGNORECASE,
)


class Cell(NamedTuple):
    """What became of a cell: its error, empty where it passed, its processor seconds, and what it printed."""

    error: str
    seconds: float
    said: str


class Compared(NamedTuple):
    """A page on both: its cells, how many pass on MXNet, of those on ours, and in how many of these the numbers agree
    where numbers are printed; the processor seconds of the cells that pass on both."""

    cells: int
    theirs: int
    both: int
    numbers: int
    agree: int
    mxnet: float
    ours: float
    problem: str


def cells_of(path: Path, words: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """The sources of a page's cells of Python, with fewer epochs and other words, and without IPython's lines."""
    content = reworded(path, words)
    if (tabs := _TABS.search(content)) and "mxnet" not in tabs[1]:
        return []
    if path.suffix == ".ipynb":
        notebook = json.loads(content)
        kinds = notebook.get("cells") or [cell for sheet in notebook["worksheets"] for cell in sheet["cells"]]
        sources = [cell.get("source", cell.get("input", "")) for cell in kinds if cell["cell_type"] == "code"]
        found = ["".join(source) for source in sources]
    else:
        found = _FENCE.findall(content)
    cells = [plain for source in found if for_mxnet(source) and (plain := without_magic(source)).strip()]
    known = {name: names for cell in cells for name, names in parameters(cell)}
    return [cut(cell, known) for cell in cells]


def reworded(path: Path, words: Mapping[str, str]) -> str:
    """A file's content with other words."""
    content = path.read_text(encoding="utf-8", errors="replace")
    for word, other in words.items():
        content = content.replace(word, other)
    return content


def for_mxnet(source: str) -> bool:
    """Whether a cell is MXNet's or everybody's, where a first line says whose it is, as in books for several."""
    tabs = _TAB.search(source)
    return tabs is None or bool({"all", "mxnet"} & set(re.split(r"[\s,]+", tabs[1])))


def without_magic(source: str) -> str:
    """A cell without lines that begin with %word or !, or end with ?; and of doctests, what is typed."""
    lines = source.splitlines()
    if any(line.startswith(">>> ") for line in lines):
        lines = [line[4:] for line in lines if line.startswith((">>> ", "... "))]
    return "\n".join(line for line in lines if not re.match(r"\s*(?:%+[a-z]|!)|.*\w\?+\s*$", line))


def parameters(source: str) -> Iterator[tuple[str, list[str]]]:
    """The functions that a cell defines, and the names of their parameters."""
    for node in _nodes(source):
        if isinstance(node, ast.FunctionDef):
            yield node.name, [each.arg for each in node.args.args]


def cut(source: str, known: Mapping[str, Sequence[str]] | None = None) -> str:
    """A cell whose numbers of epochs are two at most, those by position to functions of these parameters, too."""
    lines = source.splitlines()
    found = {(node.lineno, node.col_offset): node.end_col_offset for node in _epochs(source, known or {})}
    for (row, start), end in sorted(found.items(), reverse=True):
        line = lines[row - 1].encode()
        lines[row - 1] = (line[:start] + b"%d" % _EPOCHS + line[end:]).decode()
    return "\n".join(lines)


def _nodes(source: str) -> Iterator[ast.AST]:
    try:
        yield from ast.walk(ast.parse(source))
    except SyntaxError:  # running the cell tells
        return


def _epochs(source: str, known: Mapping[str, Sequence[str]]) -> Iterator[ast.Constant]:
    """The numbers in a cell that are given to names of numbers of epochs, and are more than two."""
    for node in _nodes(source):
        for name, value in _named_values(node, known):
            number = value.value if isinstance(value, ast.Constant) else None
            if _NAME_OF_EPOCHS.search(name) and isinstance(number, int) and number > _EPOCHS:
                assert isinstance(value, ast.Constant)
                yield value


def _named_values(node: ast.AST, known: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, ast.expr]]:
    """What a piece of a cell gives to names: by assignment, to functions, as defaults, and as ends of loops."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            yield from zip(map(ast.unparse, names), values, strict=False)
        case ast.Assign(targets=[target], value=value):
            yield ast.unparse(target), value
        case ast.FunctionDef(args=words):
            names = [each.arg for each in words.args]
            yield from zip(reversed(names), reversed(words.defaults), strict=False)
        case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=[end])):
            if _NAME_OF_EPOCH.match(name):
                yield "epochs", end
        case ast.Call(func=function, args=values, keywords=words):
            yield from ((word.arg or "", word.value) for word in words)
            if isinstance(function, ast.Name):
                yield from zip(known.get(function.id, ()), values, strict=False)
        case _:
            return


def numbers_of(said: str) -> list[float]:
    """The numbers of a text, without addresses and clocks."""
    return [float(number) for number in _NUMBER.findall(_CLOCKS.sub("", said))]


def agree(ours: str, theirs: str, nudged: str = "") -> bool | None:
    """Whether the numbers of two texts are equal but for rounding, or differ by no more than four times what MXNet's
    do where its first values are nudged; None where there are none."""
    first, second, third = (np.array(numbers_of(text)) for text in (ours, theirs, nudged))
    if not first.size and not second.size:
        return None
    own = 4 * np.abs(third - second) if third.shape == second.shape else 0
    return first.shape == second.shape and np.allclose(first, second, 1e-3, 1e-5 + own, equal_nan=True)


def compared(ours: Sequence[Cell], theirs: Sequence[Cell], count: int, nudged: Sequence[Cell] = ()) -> Compared:
    """Compare what became of a page's cells on both. nudged: on MXNet with first values that differ by a millionth."""
    pairs = [pair for pair in zip(ours, theirs, strict=False) if not pair[1].error]  # a limit may end either
    both = [pair for pair in pairs if not pair[0].error]
    sides = zip(ours, theirs, nudged or [Cell("", 0.0, "")] * count, strict=False)
    told = [[cell.said for cell in cells] for cells in sides if not (cells[0].error or cells[1].error)]
    verdicts = [verdict for texts in told if (verdict := agree(*texts)) is not None]
    problem = next((a.error.splitlines()[0] for a, _ in pairs if a.error), "")
    if not problem and (failed := next((cell.error for cell in theirs if cell.error), "")):
        problem = f"MXNet: {failed.splitlines()[0]}"
    if ours and ours[-1].error == "limit":
        problem = f"ours runs into the limit in cell {len(ours)}; {problem}"
    mxnet, own = (sum(pair[side].seconds for pair in both) for side in (1, 0))
    passed = sum(not cell.error for cell in theirs)
    return Compared(count, passed, len(both), len(verdicts), sum(verdicts), mxnet, own, problem)


def total(rows: Sequence[Compared]) -> Compared:
    """The sums of pages."""
    cells, theirs, both, numbers, agreeing = (int(sum(column)) for column in np.array([row[:5] for row in rows]).T)
    return Compared(
        cells, theirs, both, numbers, agreeing, sum(row.mxnet for row in rows), sum(row.ours for row in rows), ""
    )


def make_files(files: Path) -> None:
    """Make what pages download: files of the same names, or of the same endings."""
    mnist(files)
    _zip(files / "mnist.zip", files, sorted(path.name for path in files.glob("*ubyte")))
    cifar = files / "cifar"
    cifar.mkdir()
    cifar10(cifar)
    for name, count in (("train", 320), ("test", 64)):
        records(cifar, name, count)
    _zip(files / "cifar10.zip", files, [f"cifar/{path.name}" for path in sorted(cifar.glob("*.*"))])
    with tarfile.open(files / "cifar-10-binary.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(cifar, "cifar-10-batches-bin")
    folders(files / "pictures", 8, 250, "first", "second")
    for name in ("any.tgz", "any.tar"):
        with tarfile.open(files / name, "w:gz", compresslevel=1) as archive:
            archive.add(files / "pictures", "pictures")
    for ending in ("png", "jpg", "jpeg"):
        shutil.copy(files / "pictures" / "first" / "0.png", files / f"any.{ending}")
    records(files, "any", 64, 64, classes=2)
    labels = [f"n{i:08d} kind{i}, other{i}" for i in range(1000)]
    (files / "any.txt").write_text("\n".join(labels) + "\n")
    (files / "any.json").write_text(json.dumps(labels))


def _zip(path: Path, folder: Path, names: Sequence[str]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.write(folder / name, name)


_DATA_SETS = {"mnist": "*ubyte.gz", "fashion-mnist": "*ubyte.gz", "cifar10": "cifar/*.bin"}
"""Folder of MXNet's data sets → the files."""

_MISSING: dict[str, tuple[str, Callable[[Path], None]]] = {
    "ptb.train.txt": ("data/nlp", lambda folder: text(folder, "ptb."))
}
"""A file that pages read and a checkout may lack: its folder, and what makes it."""


class Pages(NamedTuple):
    """Pages of a kind: what makes what they download, how their processes begin (`script_start.py`), a regular
    expression that their paths contain, words with those in their place, and modules that these are replaced in."""

    make_files: Callable[[Path], None]
    how: str
    only: str = ""
    words: Mapping[str, str] = MappingProxyType({})
    modules: tuple[str, ...] = ()


TUTORIALS = Pages(make_files, "gpu old")


def prepare(page: Path, checkout: Path, files: Path, folder: Path) -> Path:
    """Link a checkout's files into a folder, and the data sets. Returns where the page runs."""
    shutil.copytree(checkout, folder, copy_function=os.symlink, ignore=shutil.ignore_patterns(".git"))
    for name, (where, make) in _MISSING.items():
        if (folder / where).is_dir() and not (folder / where / name).exists():
            for path in (folder / where).glob(f"{name.partition('.')[0]}.*"):
                path.unlink()  # a link: what makes the file makes those that belong to it
            make(folder / where)
    own = (folder / page.relative_to(checkout)).parent
    places = [(folder / ".mxnet" / "datasets" / name, pattern) for name, pattern in _DATA_SETS.items()]
    if not (own / "data").exists():
        places += [(own / "data", pattern) for pattern in {*_DATA_SETS.values(), "*ubyte"}]
    for place, pattern in places:
        place.mkdir(parents=True, exist_ok=True)
        for path in files.glob(pattern):
            (place / path.name).symlink_to(path)
    return own


def run(page: Path, checkout: Path, files: Path, python: Sequence[str], seconds: float, kind: Pages) -> list[Cell]:
    """Run the cells of a page by a command that runs a file, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder) / "tree"
        own = prepare(page, checkout, files, top)
        for name in kind.modules:
            (top / name).unlink()
            (top / name).write_text(reworded(checkout / name, kind.words), encoding="utf-8")
        cells, results = Path(folder) / "cells.json", Path(folder) / "results"
        cells.write_text(json.dumps(cells_of(page, kind.words)))
        results.touch()
        env = {**os.environ, "PEER_SCRIPT": kind.how, "PYTHONHASHSEED": "0", "PYTHONPATH": f"{ROOT}{os.pathsep}{top}"}
        env |= {"HOME": str(top), "MXNET_HOME": str(top / ".mxnet")}
        words = [*python, str(HERE / "tutorial_cells.py"), *map(str, (cells, results, files, seconds))]
        ended = subprocess.Popen(words, cwd=own, env=env, stdin=-3, stdout=-3, stderr=-1, start_new_session=True)
        try:
            _, said = ended.communicate(timeout=10 * seconds)
        except subprocess.TimeoutExpired:  # it waits for something, maybe for processes of its own
            os.killpg(ended.pid, signal.SIGKILL)
            _, said = ended.communicate()
        rows = [Cell(**json.loads(line)) for line in results.read_text(encoding="utf-8").splitlines()]
        if ended.returncode:
            rows.append(Cell(f"ended with {ended.returncode}: {said.decode(errors='replace')[-300:]}", 0.0, ""))
        return rows


def main(kind: Pages = TUTORIALS, about: str | None = __doc__) -> int:
    """Returns 1 where a page that passes on MXNet does not pass on ours."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, help="a folder of notebooks and Markdown pages")
    parser.add_argument("--mxnet", required=True, help="an interpreter that has MXNet 1.9.1")
    parser.add_argument(
        "--only", default=kind.only, help="a regular expression that a page's path in the folder contains"
    )
    parser.add_argument("--limit", type=float, default=60, help="processor seconds of a page on MXNet; ours has thrice")
    parser.add_argument("--known", type=Path, help="a file of what MXNet said, which is read, or written where missing")
    parser.add_argument("--out", type=Path, help="a file for a line of JSON for each page")
    options = parser.parse_args()
    checkout = options.source.resolve()
    pages = sorted(path for ending in ("md", "ipynb") for path in checkout.rglob(f"*.{ending}"))
    pages = [page for page in pages if re.search(options.only, str(page.relative_to(checkout))) and cells_of(page)]
    known = json.loads(options.known.read_text()) if options.known and options.known.exists() else {}
    rows: list[tuple[str, Compared]] = []
    restless = 0
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder)
        kind.make_files(files)
        for page in sorted(pages, key=lambda page: len(cells_of(page))):
            name = str(page.relative_to(checkout))
            if name not in known:
                known[name] = run(page, checkout, files, [options.mxnet], options.limit, kind)
            theirs = [Cell(*row) for row in known[name]]
            ours: list[Cell] = []
            if any(not cell.error for cell in theirs):
                command = [sys.executable, "-m", "lowering.mx", "--no-cache"]
                ours = run(page, checkout, files, command, 3 * options.limit, kind)
            row = compared(ours, theirs, len(cells_of(page)))
            rows.append((name, row))
            if row.agree < row.numbers:
                other = kind._replace(how=f"{kind.how} nudged")
                nudged = run(page, checkout, files, [options.mxnet], options.limit, other)
                restless += compared(ours, theirs, row.cells, nudged).agree == row.numbers and row.both == row.cells
            print("  ".join(_shown(*rows[-1])), file=sys.stderr, flush=True)
            if options.out is not None:
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"page": name, "ours": ours, "mxnet": theirs}) + "\n")
            if options.known is not None:
                options.known.write_text(json.dumps(known))
    rows = [(name, row) for name, row in rows if row.theirs]
    whole = [row for _, row in rows if row.theirs == row.both]
    shown = [_shown(name, row) for name, row in rows]
    for title, part in ((f"all {len(rows)}", [row for _, row in rows]), (f"{len(whole)} that pass", whole)):
        shown.append(_shown(title, total(part)))
    passed = [row for row in whole if row.theirs == row.cells]
    equal = sum(row.agree == row.numbers for row in passed)
    there = sum(row.theirs == row.cells for _, row in rows)
    print(table_text(("page", "cells", "MXNet", "both", "equal", "MXNet s", "ours s", "ratio", "why"), shown))
    print(f"pages whose every cell passes: {there} on MXNet, {len(passed)} of them here, {equal} with equal numbers,")
    print(f"and {restless} whose numbers differ less than MXNet's own where its first values differ by a millionth")
    return int(len(whole) < len(rows))


def _shown(name: str, row: Compared) -> tuple[str, ...]:
    ratio = f"{row.ours / row.mxnet:.2f}" if row.mxnet else ""
    counts = (str(row.cells), str(row.theirs), str(row.both), f"{row.agree}/{row.numbers}")
    return (name, *counts, f"{row.mxnet:.2f}", f"{row.ours:.2f}", ratio, row.problem[:120])


if __name__ == "__main__":
    sys.exit(main())
