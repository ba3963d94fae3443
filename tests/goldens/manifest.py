"""Where the golden files come from: `manifest.json` holds the date, the digest and the command of each, and the wheel.

Run after making goldens, with any Python, from the project's root:

    python -m tests.goldens.manifest

A file whose content is in the manifest, whatever its name was, keeps its date; another gets today's. The suite fails
while the two differ (tests/meta/test_goldens.py).
"""

import datetime
import hashlib
import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MANIFEST = HERE / "manifest.json"

WHEEL = {
    "package": "mxnet==1.9.1",
    "wheel": "mxnet-1.9.1-py3-none-manylinux2014_x86_64.whl",
    "sha256": "65d5dac162c87a14d138d888b54494d515036d9047ae804ff51f770bd02197a6",
    "numpy": "1.23.5",
    "python": "3.11",
}
"""The MXNet that all were made with. What is installed of it is what the wheel's RECORD says."""

COMMANDS: tuple[tuple[str, str], ...] = (
    ("executor/*", "tests.goldens.executor.make"),
    ("gluon/*", "tests.goldens.gluon.make"),
    ("files/*", "tests.goldens.files.make"),
    ("gluon_layers/*", "tests.goldens.gluon_layers.make"),
    ("image/*", "tests.goldens.image.make"),
    ("json/*", "tests.goldens.json.make"),
    ("networks/*", "tests.goldens.networks.make"),
    ("numpy_files/*", "tests.goldens.numpy_files.make"),
    ("int8_networks/*", "tests.goldens.int8_networks.make"),
    ("numpy_says.txt", "tests.goldens.numpy_says"),
    ("records/*", "tests.goldens.records.make"),
    ("recurrent/*", "tests.goldens.recurrent.make"),
    ("sparse/*", "tests.goldens.sparse.make"),
    ("training/optimizers.npz", "tests.goldens.training.make_optimizers"),
    ("training/large_batches.npz", "tests.goldens.training.make_optimizers"),
    ("training/numbers.json", "tests.goldens.training.make_optimizers"),
    ("training/*", "tests.goldens.training.make"),
    ("initializer.*", "tests.goldens.initializer"),
    ("operators/*", "tests.goldens.make {family}"),
    ("more_names.json", "tests.goldens.schemas"),
    ("*.json", "tests.goldens.{stem}"),
)
"""Pattern of paths under this folder → the module that makes them, run by MXNet's Python. The first counts."""


def goldens() -> dict[str, Path]:
    """Every golden file by its path under this folder: what is no program and not the manifest."""
    files = (path for path in sorted(HERE.rglob("*")) if path.is_file() and path.suffix not in (".py", ".pyc"))
    return {path.relative_to(HERE).as_posix(): path for path in files if path != MANIFEST}


def command(name: str) -> str:
    """What makes a golden file: `python -m` these words. Raises StopIteration when no pattern is its own."""
    found = next(made_by for pattern, made_by in COMMANDS if fnmatchcase(name, pattern))
    path = Path(name).with_suffix("")
    return found.format(stem=path.name, family=".".join(path.parts[1:]))


def digest(path: Path) -> str:
    """The file's SHA-256."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read() -> dict[str, Any]:
    """The manifest: `mxnet`, and `files`, name → date, command, sha256."""
    return json.loads(MANIFEST.read_text(encoding="utf-8"))


def main() -> None:
    """Write the manifest."""
    known = {row["sha256"]: row["date"] for row in read()["files"].values()} if MANIFEST.exists() else {}
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    rows = []
    for name, path in goldens().items():
        content = digest(path)
        row = {"date": known.get(content, today), "command": command(name), "sha256": content}
        rows.append(f"    {json.dumps(name)}: {json.dumps(row)}")
    wheel = json.dumps(WHEEL, indent=2).replace("\n", "\n  ")
    text = f'{{\n  "mxnet": {wheel},\n  "files": {{\n' + ",\n".join(rows) + "\n  }\n}\n"
    MANIFEST.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
