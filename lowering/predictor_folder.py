"""A folder that holds a Predictor: the network, what was computed of its parameters, and its programs as StableHLO.

    predictor.json                        what is there: signatures, and by what names their programs take which arrays;
                                          and where: in saved-1, saved-2, … when it is written again
    net-symbol.json, net-0000.params      the network as a checkpoint: for signatures that are not there
    computed.params                       arrays that depend on parameters alone
    signature-0.stablehlo, …              what `jax.export` makes of each program

`predictor.json` is written last, so that whoever reads has all of the old files or all of the new, whenever a save is
interrupted. Nothing in it is run but the programs, which compute and do nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import jax

from lowering.convolutions.onednn import Relied
from symjax_nnvm.errors import FileError, NNVMError, explain, printable
from symjax_nnvm.files import StrPath, atomic_writes, make_folder, one_writer, read_bounded, write_file
from symjax_nnvm.geometry import Epilogue, Geometry
from symjax_nnvm.ir.types import DType, Shape
from symjax_nnvm.mxnet.array_file import write_list
from symjax_nnvm.mxnet.checkpoint import load_checkpoint, save_checkpoint
from symjax_nnvm.mxnet.params import named_arrays
from symjax_nnvm.symbol.symbol import Symbol

Arrays = Mapping[str, Any]

__all__ = ["Folder", "Signature", "read_folder", "write_folder"]

_ABOUT, _COMPUTED, _NETWORK = "predictor.json", "computed.params", "net"
_SAVED = "saved-"
_VERSION = 4
_VERSIONS = (1, 2, 3, 4)  # that can be read: 1 knew no library of convolutions, 3 no streams; those of 1 and 2 have all
_NO_FOLDER = (1, 2)  # files beside predictor.json
_BESIDE = (_COMPUTED, f"{_NETWORK}-symbol.json", f"{_NETWORK}-0000.params", "signature-*.stablehlo")
"""What versions 1 and 2 had there."""
_MAX_BYTES = 1 << 26


class Signature(NamedTuple):
    """One signature: shapes and dtypes of the inputs by name, whether a key comes with them; what the program takes
    besides: the array's name by variable, and names of parameters; the program, serialised; how the weights of its
    library's convolutions lie, which another machine may want otherwise; and of how many samples the program is, that
    streams run on parts of the inputs; None: of all."""

    inputs: Mapping[str, tuple[Shape, DType]]
    key: bool
    held: dict[str, str]
    constants: list[str]
    program: bytes
    relied_on: Relied
    rows: int | None = None

    @property
    def parts(self) -> int:
        """Of the inputs, each a stream's."""
        return 1 if self.rows is None else _samples(self.inputs) // self.rows


class Folder(NamedTuple):
    """What is in a folder. network: the symbol, arguments and states. platform: what the programs are for. options: of
    the Predictor. values: the arrays by name, views of the file. machine: where it was written, as `onednn.machine`.
    """

    network: tuple[Symbol, Arrays, Arrays]
    platform: str
    options: dict[str, str | None]
    signatures: list[Signature]
    values: Mapping[str, Any]
    machine: str | None = None


def write_folder(path: StrPath, folder: Folder) -> None:
    """Write a folder; what it held of that kind is there until all of the new is. Raises as `save_checkpoint`."""
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
            for file in [each for pattern in _BESIDE for each in place.glob(pattern)]:
                file.unlink(missing_ok=True)


def _write(place: Path, folder: Folder) -> None:
    """Files in a folder of their own, then `predictor.json`, which names it."""
    new = place / f"{_SAVED}{1 + max(map(_number, place.glob(f'{_SAVED}*')), default=0)}"
    make_folder(new)
    save_checkpoint(new / _NETWORK, 0, *folder.network)
    names = [f"signature-{number}.stablehlo" for number in range(len(folder.signatures))]
    with atomic_writes(*(new / name for name in (*names, _COMPUTED))) as (*programs, computed):
        for file, one in zip(programs, folder.signatures, strict=True):
            file.write(one.program)
        write_list(computed, folder.values)
    where = {"jax": jax.__version__, "platform": folder.platform, "machine": folder.machine}
    about = {"version": _VERSION, **where, "options": folder.options}
    rows = [_row(name, one) for name, one in zip(names, folder.signatures, strict=True)]
    write_file(place / _ABOUT, json.dumps(about | {"files": new.name, "signatures": rows}, indent=1))


def _tidy(place: Path) -> None:
    """Remove the folders that `predictor.json` does not name."""
    named = _held_by(place).get("files")
    for other in place.glob(f"{_SAVED}*"):
        if other.name != named and _number(other):
            shutil.rmtree(other, ignore_errors=True)  # Windows keeps what somebody reads


def _number(place: Path) -> int:
    text = place.name.removeprefix(_SAVED)
    return int(text) if text.isdecimal() else 0


def _held_by(place: Path) -> dict[str, Any]:
    """What `predictor.json` says; nothing where there is none that can be read."""
    try:
        return _about(place)
    except (OSError, FileError, ValueError, RecursionError, TypeError):
        return {}


def _row(name: str, one: Signature) -> dict[str, Any]:
    return {
        "inputs": one.inputs,
        "key": one.key,
        "held": one.held,
        "constants": one.constants,
        "program": name,
        "sha256": hashlib.sha256(one.program).hexdigest(),
        "blocks": [[asdict(g), epilogue, block] for (g, epilogue), block in one.relied_on.items()],
        "rows": one.rows,
    }


def read_folder(path: StrPath) -> Folder:
    """What is in a folder. Raises FileError for what is none, and for parts that do not belong together; what
    `load_checkpoint` raises; OSError."""
    place = Path(path)
    if not (place / _ABOUT).is_file():
        raise _refused(path, f"a folder that Predictor.save wrote, with {_ABOUT}", "none")
    try:
        about = _about(place)
        while True:
            try:
                return _folder(place, about)
            except (OSError, NNVMError):
                read, about = about, _about(place)
                if about == read:  # else somebody has just written the folder again
                    raise
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise _refused(path, f"{_ABOUT} as Predictor.save writes it", f"{type(error).__name__}: {error}") from None


def _about(place: Path) -> dict[str, Any]:
    return dict(json.loads(read_bounded(place / _ABOUT, _MAX_BYTES, "a predictor's list")))


def _folder(place: Path, about: Mapping[str, Any]) -> Folder:
    if about["version"] not in _VERSIONS:
        raise _refused(place, f"version {_VERSION} or older", about["version"])
    if about["version"] not in _NO_FOLDER:
        place /= _inside(about["files"])
    found = [_signature(place, row) for row in about["signatures"]]
    options = {name: about["options"][name] for name in ("platform", "dtype")}
    network = load_checkpoint(place / _NETWORK, 0)
    values = _values(place, found)
    return Folder(network, str(about["platform"]), options, found, values, about.get("machine"))


def _inside(name: object) -> str:
    if not isinstance(name, str) or name != os.path.basename(name) or name in ("", ".", ".."):
        raise ValueError(f"{name!r} is not in the folder")
    return name


def _signature(place: Path, row: Mapping[str, Any]) -> Signature:
    inputs = {str(n): (tuple(int(size) for size in shape), str(dtype)) for n, (shape, dtype) in row["inputs"].items()}
    held = {str(name): str(array) for name, array in row["held"].items()}
    name = _inside(row["program"])
    program = read_bounded(place / name, 1 << 31, "a program")
    if hashlib.sha256(program).hexdigest() != row["sha256"]:
        raise ValueError(f"{name} is another program than the one that was saved")
    blocks: Relied = {(_geometry(g), Epilogue(*epilogue)): block for g, epilogue, block in row.get("blocks", ())}
    constants = [str(name) for name in row["constants"]]
    return Signature(inputs, bool(row["key"]), held, constants, program, blocks, _rows(row.get("rows"), inputs))


def _rows(rows: object, inputs: Mapping[str, tuple[Shape, DType]]) -> int | None:
    if rows is not None and (not isinstance(rows, int) or rows < 1 or _samples(inputs) % rows):
        raise ValueError(f"parts of {rows!r} samples")
    return rows


def _samples(inputs: Mapping[str, tuple[Shape, DType]]) -> int:
    """How many there are. Raises ValueError where that is not known."""
    (samples,) = {shape[0] if shape else None for shape, _ in inputs.values()}
    if samples is None:
        raise ValueError("inputs without samples")
    return samples


def _geometry(values: Mapping[str, Any]) -> Geometry:
    found: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    return Geometry(**found)


def _values(place: Path, signatures: Sequence[Signature]) -> dict[str, Any]:
    values = named_arrays(place / _COMPUTED, "a predictor") if any(one.held for one in signatures) else {}
    missing = {name for one in signatures for name in one.held.values()} - values.keys()
    if missing:
        raise ValueError(f"{_COMPUTED} lacks {sorted(missing)[:3]}")
    return values


def _refused(path: StrPath, expected: str, got: object) -> FileError:
    return FileError(
        explain(
            f"{printable(os.fspath(path))} holds no predictor",
            expected=expected,
            got=printable(str(got)[:200]),
            fix="Predictor.load(prefix, epoch) loads a checkpoint; predict.save(folder) writes a folder anew.",
        )
    )
