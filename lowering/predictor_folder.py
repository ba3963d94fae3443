"""A folder that holds a Predictor: the network, what was computed of its parameters, and its programs as StableHLO.

    predictor.json                        what is there: signatures, and by what names their programs take which arrays
    net-symbol.json, net-0000.params      the network as a checkpoint: for signatures that are not there
    computed.params                       arrays that depend on parameters alone
    signature-0.stablehlo, …              what `jax.export` makes of each program

Nothing in it is run but the programs, which compute and do nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import jax

from lowering.convolutions.onednn import Relied
from symjax_nnvm.errors import FileError, explain, printable
from symjax_nnvm.files import StrPath, atomic_writes, read_bounded
from symjax_nnvm.geometry import Epilogue, Geometry
from symjax_nnvm.ir.types import DType, Shape
from symjax_nnvm.mxnet.array_file import write_list
from symjax_nnvm.mxnet.checkpoint import save_checkpoint
from symjax_nnvm.mxnet.params import named_arrays
from symjax_nnvm.symbol.symbol import Symbol

__all__ = ["Folder", "Signature", "read_folder", "write_folder"]

_ABOUT, _COMPUTED = "predictor.json", "computed.params"
_VERSION = 2
_VERSIONS = (1, 2)  # that can be read: 1 knew no library of convolutions
_MAX_BYTES = 1 << 26


class Signature(NamedTuple):
    """One signature: shapes and dtypes of the inputs by name, whether a key comes with them; what the program takes
    besides: the array's name by variable, and names of parameters; the program, serialised; and how the weights of its
    library's convolutions lie, which another machine may want otherwise."""

    inputs: Mapping[str, tuple[Shape, DType]]
    key: bool
    held: dict[str, str]
    constants: list[str]
    program: bytes
    relied_on: Relied


class Folder(NamedTuple):
    """What is in a folder but the network. platform: what the programs are for. options: of the Predictor.

    values: the arrays by name, views of the file.
    """

    platform: str
    options: dict[str, str | None]
    signatures: list[Signature]
    values: Mapping[str, Any]


def network_of(path: StrPath) -> Path:
    """The prefix of the network's checkpoint, of epoch 0."""
    return Path(path) / "net"


def write_folder(
    path: StrPath, symbol: Symbol, args: Mapping[str, Any], aux: Mapping[str, Any], folder: Folder
) -> None:
    """Write a folder; what it held of that kind is replaced. Raises as `save_checkpoint`."""
    place = Path(path)
    place.mkdir(parents=True, exist_ok=True)
    save_checkpoint(network_of(path), 0, symbol, args, aux)
    rows = [
        {
            "inputs": one.inputs,
            "key": one.key,
            "held": one.held,
            "constants": one.constants,
            "program": f"signature-{number}.stablehlo",
            "sha256": hashlib.sha256(one.program).hexdigest(),
            "blocks": [[asdict(g), epilogue, block] for (g, epilogue), block in one.relied_on.items()],
        }
        for number, one in enumerate(folder.signatures)
    ]
    about = {"version": _VERSION, "jax": jax.__version__, "platform": folder.platform, "options": folder.options}
    names = [*(row["program"] for row in rows), _COMPUTED, _ABOUT]
    with atomic_writes(*(place / name for name in names)) as (*programs, computed, listed):
        for file, one in zip(programs, folder.signatures, strict=True):
            file.write(one.program)
        write_list(computed, folder.values)
        listed.write(json.dumps(about | {"signatures": rows}, indent=1).encode())


def read_folder(path: StrPath) -> Folder:
    """What is in a folder. Raises FileError for what is none, and for parts that do not belong together; what
    `load_arrays` raises; OSError."""
    place = Path(path)
    if not (place / _ABOUT).is_file():
        raise _refused(path, f"a folder that Predictor.save wrote, with {_ABOUT}", "none")
    try:
        about = json.loads(read_bounded(place / _ABOUT, _MAX_BYTES, "a predictor's list"))
        if about["version"] not in _VERSIONS:
            raise _refused(path, f"version {_VERSION} or older", about["version"])
        found = [_signature(place, row) for row in about["signatures"]]
        options = {name: about["options"][name] for name in ("platform", "dtype")}
        return Folder(str(about["platform"]), options, found, _values(place, found))
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise _refused(path, f"{_ABOUT} as Predictor.save writes it", f"{type(error).__name__}: {error}") from None


def _signature(place: Path, row: Mapping[str, Any]) -> Signature:
    inputs = {str(n): (tuple(int(size) for size in shape), str(dtype)) for n, (shape, dtype) in row["inputs"].items()}
    held = {str(name): str(array) for name, array in row["held"].items()}
    if (name := str(row["program"])) != os.path.basename(name):
        raise ValueError(f"{name!r} is not in the folder")
    program = read_bounded(place / name, 1 << 31, "a program")
    if hashlib.sha256(program).hexdigest() != row["sha256"]:
        raise ValueError(f"{name} is another program than the one that was saved")
    blocks: Relied = {(_geometry(g), Epilogue(*epilogue)): block for g, epilogue, block in row.get("blocks", ())}
    return Signature(inputs, bool(row["key"]), held, [str(name) for name in row["constants"]], program, blocks)


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
