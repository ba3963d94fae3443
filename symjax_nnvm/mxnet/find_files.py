"""Find a model's files by MXNet's names, prefixes and epochs; list the files that exist when one does not."""

from __future__ import annotations

import operator
import os
import re
from pathlib import Path

from symjax_nnvm.errors import ModelNotFoundError, ParamsFormatError, plain_list
from symjax_nnvm.io.files import path_text
from symjax_nnvm.io.guess import similar_files

SYMBOL_SUFFIX = "-symbol.json"
_PARAMS_NAME = re.compile(r"(?P<prefix>.*)-(?P<epoch>[0-9]{4,})\.params", re.DOTALL)
_MAX_EPOCH = 10**9


def prefix_of(path: str | os.PathLike[str]) -> tuple[str, int | None]:
    """Return (prefix, epoch) of a model's path: its prefix, its symbol file or its file of parameters, which alone has
    an epoch. A prefix that has a symbol file stays what it is, however it ends."""
    text = path_text(path, "prefix")
    if not Path(text + SYMBOL_SUFFIX).is_file():
        if text.endswith(SYMBOL_SUFFIX):
            return text.removesuffix(SYMBOL_SUFFIX), None
        match = _PARAMS_NAME.fullmatch(text)
        if match:
            return match["prefix"], int(match["epoch"])
    return text, None


def as_epoch(epoch: object) -> int:
    """Return the number of an epoch given as an integer or as text, `3` or `"0003"`. Raises ParamsFormatError."""
    try:
        number = int(epoch) if isinstance(epoch, str) else operator.index(epoch)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = -1
    if isinstance(epoch, bool) or not 0 <= number < _MAX_EPOCH:
        raise ParamsFormatError(
            "epoch must be a whole number",
            expected="a whole number from 0, the number in prefix-0003.params",
            got=repr(epoch)[:80],
        )
    return number


def epochs(prefix: str | os.PathLike[str]) -> dict[int, Path]:
    """Map epoch → file of parameters, of those that exist of a prefix, in ascending order."""
    path = Path(path_text(prefix, "prefix"))
    if not path.name or not path.parent.is_dir():
        return {}
    paths = {}
    for entry in path.parent.iterdir():
        match = _PARAMS_NAME.fullmatch(entry.name)
        if match and match["prefix"] == path.name:
            paths[int(match["epoch"])] = entry
    return dict(sorted(paths.items()))


def symbol_path(prefix: str) -> Path:
    """Return the symbol file of a prefix. Raises ModelNotFoundError, which lists the models in the folder."""
    path = Path(prefix + SYMBOL_SUFFIX)
    if not path.exists():
        folder = Path(prefix)
        within = folder.is_dir()  # the folder of a model was given in place of its prefix
        there = similar_files(folder / path.name if within else path, SYMBOL_SUFFIX)
        kind = "it is a folder" if within else f"there is no symbol file {path}"
        raise ModelNotFoundError(f"No model {prefix!r}: {kind}. {there}")
    return path


def params_path(prefix: str, epoch: int) -> Path:
    """Return the file of parameters of an epoch. Raises ModelNotFoundError, which lists the epochs."""
    path = Path(f"{prefix}-{epoch:04d}.params")
    if not path.exists():
        existing = epochs(prefix)
        if existing:
            there = f"{Path(prefix).name!r} has epochs {plain_list(existing, 20)}."
        else:
            there = f"{Path(prefix).name!r} has no file of any epoch. {similar_files(path, '.params')}"
        raise ModelNotFoundError(f"There are no parameters of epoch {epoch}: looked for {path}. {there}")
    return path
