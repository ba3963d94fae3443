"""Guess what a file is, for the error of a loader that was given another one; suggest names for a file that is missing.

A user who passed the wrong file can act on what the file is, not on where it is broken.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from symjax_nnvm.errors import JSONFormatError, ModelNotFoundError, closest, plain_list
from symjax_nnvm.io.files import path_text
from symjax_nnvm.io.formats import HEAD, format_of_bytes

_DOWNLOAD = "probably of an error while downloading. Download the file again"
_KINDS = (
    (b"version https://git-lfs", "a Git LFS pointer, not the file it points to. Fetch it with: git lfs pull"),
    (b"<!doctype", f"an HTML page, {_DOWNLOAD}"),
    (b"<html", f"an HTML page, {_DOWNLOAD}"),
    (b"<?xml", f"an XML document, {_DOWNLOAD}"),
    (b"\x80", "a Python pickle (optimiser states?). Pickles run code when they are read and are never loaded"),
    (b"\x1f\x8b", "compressed with gzip. Unpack it first"),
    (b"\x89hdf", "an HDF5 file, perhaps of Keras. Convert the model to MXNet's files first"),
    (b"\x89png", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"\x08", "a protocol buffer, perhaps an ONNX model. symjax_nnvm.from_onnx reads those"),
    (b"{", "JSON, probably a symbol. Load it with symbol.load"),
)
"""How files begin that are not array files, in lower case, and what they are, with what to do."""


def guess_file_type(head: bytes, size: int) -> str | None:
    """Return `an HTML page, …`: the kind of a file of these first bytes and this size, and a remedy; else None."""
    row = format_of_bytes(head, size)
    if row is not None:
        return f"{row.title}. Read its arrays with symjax_nnvm.load_arrays; a symbol is another file, *-symbol.json"
    start = head.lstrip().lower()
    return next((meaning for begin, meaning in _KINDS if head.startswith(begin) or start.startswith(begin)), None)


def symbol_text(data: bytes, path: str | os.PathLike[str]) -> str:
    """Return the text of a symbol file. Raises JSONFormatError, which names the file's real kind."""
    if not data.strip():
        raise JSONFormatError(f"{os.fspath(path)} is not a symbol file: it is empty.")
    if not data.lstrip().startswith(b"{"):
        kind = guess_file_type(data[:HEAD], len(data))
        if kind is not None:
            raise JSONFormatError(f"{os.fspath(path)} is not a symbol file: it is {kind}.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JSONFormatError(
            f"{os.fspath(path)} is not a symbol file: it is not UTF-8 at byte {error.start}; it begins with "
            f"{data[:8]!r}."
        ) from None


def require_file(path: str | os.PathLike[str], argument: str = "path") -> None:
    """Raise ModelNotFoundError unless the path exists; the message lists its folder.

    argument: the path's name in the function that was called, for the PathError of anything that is not a path.

    A text that is not a path, because of a NUL character, is refused when it is opened.
    """
    if "\0" not in path_text(path, argument) and not Path(path).exists():
        raise ModelNotFoundError(f"No such file: {os.fspath(path)}. {similar_files(Path(path))}")


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let errors of what a symbol file holds begin with the file's name. Raises JSONFormatError."""
    try:
        yield
    except JSONFormatError as error:
        raise JSONFormatError(f"{os.fspath(path)}: {error}") from error.__cause__


def similar_files(path: Path, suffix: str = "") -> str:
    """Return a sentence on the files in a path's folder whose names end in `suffix`, those first that are most like its
    own; names are without the suffix, as the user types them."""
    folder = path.parent
    if not folder.is_dir():
        return f"There is no folder {folder}."
    listed = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(suffix) and entry.is_file())
    names = [name.removesuffix(suffix) for name in listed if not name.startswith(".")]
    if not names:
        return f"No file{suffix and f' *{suffix}'} is in {folder.resolve()}."
    stem = path.name.removesuffix(suffix)
    close = [name for name in names if stem and name.startswith(stem)][:3] or closest(stem, names)
    hint = f"Did you mean {' or '.join(repr(str(folder / name)) for name in close)}? " if close else ""
    others = [name for name in names if name not in close]
    return f"{hint}In {folder.resolve()}: {plain_list([*close, *others])}."
