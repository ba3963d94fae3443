"""A folder that holds a Predictor: the network, values computed of its parameters, and the inputs it ran for.

    predictor.json                      options, signatures, and the sum (CRC-32) of every other file; which are in
    saved-1, saved-2, …                 when it is written again
        net-symbol.json, net-0000.params   the network as a checkpoint
        computed.params                    arrays that depend on parameters alone, named by what computes them

It holds no program: a process that loads it plans and traces the network anew, and compiles the requested signatures.
So geometry, layouts of weights and library calls come from this network on this machine, not from the files.
`predictor.json` is written last, so that a reader has all of the old files or all of the new, whenever a save is
interrupted. Versions 1 to 4 had programs and arrays of other names beside the network, version 5 had other sums: of
those the network alone is read.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from lowering.xla.host_memory import installed_memory
from symjax_nnvm.errors import FileError, NNVMError, explain, printable
from symjax_nnvm.io.files import StrPath, atomic_writes, make_folder, one_writer, open_regular, read_bounded, write_file
from symjax_nnvm.ir.types import DTYPE_CODES, DType, Shape
from symjax_nnvm.mxnet.array_file import write_list
from symjax_nnvm.mxnet.checkpoint import load_checkpoint, save_checkpoint
from symjax_nnvm.mxnet.params_files import named_arrays
from symjax_nnvm.symbol.symbol import Symbol

Arrays = Mapping[str, Any]

__all__ = ["Folder", "Signature", "read_folder", "write_folder"]

_ABOUT, _COMPUTED, _NETWORK = "predictor.json", "computed.params", "net"
_MEMBERS = (f"{_NETWORK}-symbol.json", f"{_NETWORK}-0000.params", _COMPUTED)
_SAVED = "saved-"
_VERSION = 6
_AS_CHECKPOINTS = (1, 2, 3, 4, 5)
_NO_FOLDER = (1, 2)  # files beside predictor.json
_BESIDE = (_COMPUTED, *_MEMBERS, "signature-*.stablehlo")
"""The files that versions 1 and 2 had beside `predictor.json`."""

_CHUNK = 1 << 20
"""Bytes that are summed at once."""

MAX_BYTES = 1 << 22
"""Bytes of `predictor.json`, at most."""

MAX_SIGNATURES = 4096

_MAX_INPUT = 1 << 40
"""Bytes of an input, at most."""


class Signature(NamedTuple):
    """Holds shapes and dtypes of the inputs by name, and whether a key came with them."""

    inputs: Mapping[str, tuple[Shape, DType]]
    key: bool


class Folder(NamedTuple):
    """The contents of a folder. network: the symbol, arguments and states. options: the options of the Predictor.
    signatures: those that were used last at the end. values: arrays computed of parameters, by address
    (`ConstantStore`); when read, views of the file."""

    network: tuple[Symbol, Arrays, Arrays]
    options: dict[str, str | None]
    signatures: Sequence[Signature]
    values: Arrays


# -- writing ---------------------------------------------------------------------------------------------------------


def write_folder(path: StrPath, folder: Folder) -> None:
    """Write a folder. Its old files stay until all new ones are written. Raises as `save_checkpoint`."""
    place = Path(path)
    place.mkdir(parents=True, exist_ok=True)
    with one_writer(place):
        old = _held_by(place)
        try:
            _tidy(place)  # of interrupted saves
            _write(place, folder)
        finally:
            _tidy(place)
        if old.get("version") in _NO_FOLDER:
            for file in [old_file for pattern in _BESIDE for old_file in place.glob(pattern)]:
                file.unlink(missing_ok=True)


def _write(place: Path, folder: Folder) -> None:
    """Write the files to a folder of their own, then `predictor.json`, which names it."""
    new = place / f"{_SAVED}{1 + max(map(_number, place.glob(f'{_SAVED}*')), default=0)}"
    make_folder(new)
    save_checkpoint(new / _NETWORK, 0, *folder.network)
    with atomic_writes(new / _COMPUTED) as (computed,):
        write_list(computed, folder.values)
    members = {name: _sum(new / name) for name in _MEMBERS}
    rows = [row for one in folder.signatures[-MAX_SIGNATURES:] if _is_readable(row := one._asdict())]
    about = {"version": _VERSION, "options": folder.options, "files": new.name, "members": members}
    text = json.dumps(about | {"signatures": rows}, indent=1)
    if len(text) > MAX_BYTES:  # a Predictor runs without signatures, too
        text = json.dumps(about | {"signatures": []}, indent=1)
    write_file(place / _ABOUT, text)


def _tidy(place: Path) -> None:
    """Remove the folders that `predictor.json` does not name."""
    named = _held_by(place).get("files")
    for other in place.glob(f"{_SAVED}*"):
        if other.name != named and _number(other):
            shutil.rmtree(other, ignore_errors=True)  # Windows keeps files that are being read


def _number(place: Path) -> int:
    text = place.name.removeprefix(_SAVED)
    return int(text) if text.isdecimal() else 0


def _held_by(place: Path) -> dict[str, Any]:
    """Return the fields of `predictor.json`; an empty dict if the file is missing or unreadable."""
    try:
        return _about(place)
    except (OSError, FileError):
        return {}


def _sum(path: Path) -> dict[str, Any]:
    with open_regular(path) as file:
        return {"bytes": os.fstat(file.fileno()).st_size, "crc32": _crc32(file)}


def _crc32(file: IO[bytes]) -> str:
    """Return the CRC-32 of a file. Sums find damage, not malice, which would change them, too; this one takes 60 ms for
    the 190 MB of ResNet-50, SHA-256 140."""
    total = 0
    while chunk := file.read(_CHUNK):
        total = zlib.crc32(chunk, total)
    return f"{total:08x}"


# -- reading ---------------------------------------------------------------------------------------------------------


def read_folder(path: StrPath) -> Folder:
    """Read a folder. Raises FileError for a folder of another kind, for fields that are not as they are written, and
    for files that are not the ones that were written; what `load_checkpoint` raises; OSError."""
    place = Path(path)
    if not (place / _ABOUT).is_file():
        raise _refused(path, f"a folder that Predictor.save wrote, with {_ABOUT}", "none")
    about = _about(place)
    while True:
        try:
            return _folder(place, about)
        except (OSError, NNVMError):
            read, about = about, _about(place)
            if about == read:  # else it was written again meanwhile
                raise


def _folder(place: Path, about: Mapping[str, Any]) -> Folder:
    if about["version"] not in _NO_FOLDER:
        place /= about["files"]
    values: Arrays = {}
    marks: dict[Path, tuple[int, ...]] = {}
    if about["version"] not in _AS_CHECKPOINTS:
        with ThreadPoolExecutor() as side_by_side:
            saved = {place / name: saved for name, saved in about["members"].items()}
            marks = {path: _mark(path) for path in saved if path.is_file()}
            for looked_at in [side_by_side.submit(_require_as_saved, *name_and_sum) for name_and_sum in saved.items()]:
                looked_at.result()
        arrays = named_arrays(place / _COMPUTED, "a predictor")
        values = {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}
    network = load_checkpoint(place / _NETWORK, 0)
    for path, mark in marks.items():  # the sum was taken of another file than was read
        if _mark(path) != mark:
            raise _refused(path.parent, f"{path.name} as it was when its sum was taken", "a file that was changed")
    return Folder(network, about["options"], [Signature(**row) for row in about["signatures"]], values)


def _mark(path: Path) -> tuple[int, ...]:
    """Return a mark that differs between two files, and between two versions of one file."""
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _require_as_saved(path: Path, saved: Mapping[str, Any]) -> None:
    """Raise FileError for another file than the one that was saved; one of another size is not read."""
    if not path.is_file():
        raise _refused(path.parent, f"a file {path.name}", "none")
    size = path.stat().st_size
    if size != saved["bytes"]:
        raise _refused(path.parent, f"{path.name} of {saved['bytes']} bytes, as it was saved", f"{size} bytes")
    if size > (most := installed_memory()):  # which may be 24 KB on the disk, and nothing between them
        raise _refused(path.parent, f"{path.name} of at most {most} bytes, the memory of this machine", f"{size} bytes")
    found = _sum(path)["crc32"]
    if found != saved["crc32"]:
        raise _refused(path.parent, f"{path.name} as it was saved, CRC-32 {saved['crc32']}", f"CRC-32 {found}")


def _about(place: Path) -> dict[str, Any]:
    """Return the fields of `predictor.json`, each checked against the schema. Raises FileError, OSError."""
    data = read_bounded(place / _ABOUT, MAX_BYTES, "a predictor's list")
    try:
        about = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _refused(place, f"{_ABOUT} as JSON", error) from None
    try:
        version = _object(version=_one_of(_VERSION, *_AS_CHECKPOINTS))(about)["version"]
        return _SCHEMAS[version](about)
    except _MisfitError as error:
        raise _refused(place, f"{_ABOUT} with {error.expected}", error.got) from None


# -- the fields of predictor.json ------------------------------------------------------------------------------------


class _MisfitError(Exception):
    """Reports a field of another form than is written: the form expected, with its place, and the value found."""

    def __init__(self, expected: str, got: object):
        self.expected, self.got = expected, f"a {type(got).__name__}" if isinstance(got, dict | list) else got


Field = Callable[[Any], Any]
"""JSON value → what is read of it. Raises _MisfitError."""


def _one_of(*choices: Any) -> Field:
    def read(value: Any) -> Any:
        if not any(type(value) is type(choice) and value == choice for choice in choices):
            raise _MisfitError(f"one of {', '.join(map(str, choices))}", value)
        return value

    return read


_PLATFORM = re.compile("[A-Za-z0-9_]{1,32}")
_CRC32 = re.compile("[0-9a-f]{8}")
_FOLDER = re.compile("saved-[1-9][0-9]{0,17}")


def _whole(most: int) -> Field:
    def read(value: Any) -> int:
        if type(value) is not int or not 0 <= value <= most:
            raise _MisfitError(f"a whole number of 0 to {most}", value)
        return value

    return read


def _text(pattern: re.Pattern[str], words: str) -> Field:
    def read(value: Any) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise _MisfitError(words, value)
        return value

    return read


def _optional(field: Field) -> Field:
    return lambda value: None if value is None else field(value)


def _list(item: Field, most: int) -> Field:
    def read(value: Any) -> list[Any]:
        if not isinstance(value, list) or len(value) > most:
            raise _MisfitError(f"a list of at most {most}", value)
        return [_within(number, item, element) for number, element in enumerate(value)]

    return read


def _pair(first: Field, second: Field) -> Field:
    def read(value: Any) -> tuple[Any, Any]:
        if not isinstance(value, list) or len(value) != 2:
            raise _MisfitError("a list of two", value)
        return _within(0, first, value[0]), _within(1, second, value[1])

    return read


def _by_name(item: Field) -> Field:
    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _MisfitError("an object", value)
        return {name: _within(name, item, element) for name, element in value.items()}

    return read


def _object(**fields: Field) -> Field:
    """Return the field of an object with these fields. Further ones, which other versions may have, are ignored."""

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _MisfitError("an object", value)
        for name in fields.keys() - value.keys():
            raise _MisfitError(f"a field {name}", "none")
        return {name: _within(name, field, value[name]) for name, field in fields.items()}

    return read


def _within(place: object, field: Field, value: Any) -> Any:
    try:
        return field(value)
    except _MisfitError as error:
        raise _MisfitError(f"{printable(str(place)[:80])}: {error.expected}", error.got) from None


def _input(value: Any) -> tuple[Shape, DType]:
    """Return shape and dtype of an input. Raises _MisfitError for more bytes than an array may have."""
    shape, dtype = _pair(_list(_whole((1 << 31) - 1), 32), _one_of(*DTYPE_CODES))(value)
    if 8 * prod(shape) > _MAX_INPUT:
        raise _MisfitError(f"an input of at most {_MAX_INPUT} bytes", shape)
    return tuple(shape), dtype


def _is_readable(row: Mapping[str, Any]) -> bool:
    """Return whether a signature can be read again."""
    try:
        _SIGNATURE(json.loads(json.dumps(row)))
    except _MisfitError:
        return False
    return True


_SIGNATURE = _object(inputs=_by_name(_input), key=_one_of(False, True))
_OPTIONS = _object(
    platform=_optional(_text(_PLATFORM, "a platform's name")),
    dtype=_optional(_one_of("bfloat16", "float16")),
)
_MEMBER = _object(bytes=_whole((1 << 63) - 1), crc32=_text(_CRC32, "8 digits of hexadecimal numbers"))
_FIRST: Mapping[str, Field] = {
    "version": _whole(_VERSION),
    "options": _OPTIONS,
    "signatures": _list(_SIGNATURE, MAX_SIGNATURES),
}
_SECOND = {**_FIRST, "files": _text(_FOLDER, "a folder's name: saved- and a number")}
_SCHEMAS: Mapping[int, Field] = {
    **dict.fromkeys(_NO_FOLDER, _object(**_FIRST)),
    **dict.fromkeys((3, 4, 5), _object(**_SECOND)),
    _VERSION: _object(**_SECOND, members=_object(**dict.fromkeys(_MEMBERS, _MEMBER))),
}


def _refused(path: StrPath, expected: str, got: object) -> FileError:
    return FileError(
        explain(
            f"{printable(os.fspath(path))} holds no predictor",
            expected=printable(expected),
            got=printable(str(got)[:200]),
            fix="Predictor.load(prefix, epoch) loads a checkpoint; predict.save(folder) writes a folder anew.",
        )
    )
