"""Legal array files with hostile meaning: `draw_arrays(rng)`.

MXNet's lists of every record version, zip files of `.npy`, single `.npy` files and safetensors. Headers are well
formed; shapes, dtypes, counts, names and the parts of sparse arrays are extreme, empty or at odds with each other, and
what follows a header is as long as it says, a little shorter, or next to nothing.
"""

from __future__ import annotations

import io
import json
import math
import random
import struct
import warnings
import zipfile
from collections.abc import Sequence

from tests.fuzz.corpus import V0, V1, V2, V3, Field, Fields, join, zip_of

__all__ = ["draw_arrays"]

_ITEM_SIZES = {0: 4, 1: 8, 2: 2, 3: 1, 4: 4, 5: 1, 6: 8, 7: 1, 8: 2, 9: 2, 10: 4, 11: 8, 12: 2}
_EXTREME = (0, 1, 2, 255, 65535, 1 << 20, 1 << 31, (1 << 31) - 1, 1 << 32, 10**9, 1 << 40, 1 << 62, (1 << 63) - 1)
_NAMES = (
    "arg:w",
    "aux:m",
    "w",
    "arg:",
    "aux:",
    ":",
    "arg:arg:x",
    "x" * 4096,
    "é😀",
    "../x",
    "/etc/x",
    "\u202e",
    "",
    "a/b",
)
_MAX_DATA = 1 << 14


def draw_arrays(rng: random.Random) -> bytes:
    """One file of any kind."""
    kind = rng.choices([_draw_list, _draw_zip, _draw_npy_file, _draw_safetensors], [5, 3, 1, 2])[0]
    return kind(rng)


# -- what all kinds share --------------------------------------------------------------------------------------------


def _draw_shape(rng: random.Random) -> tuple[int, ...]:
    draw, rank = rng.random(), rng.choice([0, 1, 1, 1, 2, 2, 2, 3, 4, 8, 32, 33, 64])
    if draw < 0.55:
        return tuple(rng.choice([1, 1, 2, 3, 5]) for _ in range(min(rank, 6)))
    if draw < 0.75:  # empty, however large the rest is
        dims = [rng.choice([*_EXTREME[1:], 1, 1, 2]) for _ in range(rank)]
        if dims:
            dims[rng.randrange(rank)] = 0
        return tuple(dims)
    return tuple(rng.choice([1, 1, 2, rng.choice(_EXTREME)]) for _ in range(rank))


def _data(rng: random.Random, size: int) -> bytes:
    """So many bytes, or fewer where they are many, or a byte more or less."""
    size = min(size, _MAX_DATA) if rng.random() < 0.95 else min(size + rng.choice([-1, 1, 8]), _MAX_DATA)
    return rng.randbytes(max(size, 0)) if rng.random() < 0.3 else bytes(max(size, 0))


def _names(rng: random.Random, count: int) -> list[str]:
    return [rng.choice(_NAMES) if rng.random() < 0.3 else f"arg:p{i}" for i in range(count)]


# -- MXNet's lists ---------------------------------------------------------------------------------------------------


def _dims(shape: Sequence[int], letter: str = "q") -> Fields:
    return [Field("i", len(shape)), *(Field(letter, dim) for dim in shape)]


def _dense(rng: random.Random) -> Fields:
    version = rng.choice([V0, V1, V2, V2, V3])
    head = [] if version == V0 else [Field("I", version)] + ([Field("i", 0)] if version in (V2, V3) else [])
    shape, dtype = _draw_shape(rng), rng.choice([*_ITEM_SIZES])
    if version == V3 and rng.random() < 0.05:
        shape = (*shape, -1)
    context = [Field("i", rng.choice([1, 2, 3, 0, -1])), Field("i", rng.choice([0, 0, 7, -1, 1 << 30]))]
    data = _data(rng, math.prod(shape) * _ITEM_SIZES[dtype])
    return [*head, *_dims(shape, "I" if version == V0 else "q"), *context, Field("i", dtype), Field("s", data)]


def _indices(rng: random.Random, count: int, limit: int) -> list[int]:
    """Rising numbers below a limit; sometimes not rising, not below it, or negative."""
    if rng.random() < 0.7:
        return sorted(rng.sample(range(limit), count)) if count <= limit <= 1 << 20 else list(range(count))
    return [rng.choice([0, 0, 1, limit - 1, limit, -1, 1 << 62, -(1 << 63)]) for _ in range(count)]


def _sparse(rng: random.Random) -> Fields:
    storage, dtype = rng.choice([1, 2]), rng.choice([*_ITEM_SIZES])
    code, letter = rng.choice([(6, "q"), (6, "q"), (4, "i"), (5, "b"), (8, "h")])
    count = rng.choice([0, 0, 1, 2, 3, 100])
    rows = rng.choice([max(count, 1), 5, 127, *_EXTREME])
    columns = rng.choice([1, 3, rng.choice(_EXTREME)])
    if storage == 1:
        stored, shape = (count, columns), (rows, columns)
        parts = [_indices(rng, count, rows)]
    else:
        stored, shape = (count,), (rows, columns)
        cuts = sorted(rng.randrange(count + 1) for _ in range(max(min(rows, 200) - 1, 0)))
        pointers = [0, *cuts, count] if rng.random() < 0.7 else _indices(rng, min(rows, 200) + 1, count + 1)
        parts = [pointers, _indices(rng, count, columns)]
    if rng.random() < 0.15:
        shape = (*shape, 1) if rng.random() < 0.5 else shape[:1]
    if rng.random() < 0.15:
        stored = rng.choice([(0, *stored[1:]), (*stored, 1), (), (count + 1, *stored[1:])])
    fields = [Field("I", V2), Field("i", storage), *_dims(stored), *_dims(shape), Field("i", 1), Field("i", 0)]
    fields.append(Field("i", dtype))
    for part in parts:
        fields += [Field("i", code), *_dims([len(part)] if rng.random() < 0.95 else [len(part), 1])]
    fields.append(Field("s", _data(rng, math.prod(stored) * _ITEM_SIZES[dtype])))
    return fields + [Field(letter, number) for part in parts for number in part]


def _draw_list(rng: random.Random) -> bytes:
    count = rng.choice([0, 1, 1, 2, 3, 5, 300])
    nothing: list[Fields] = [
        [Field("I", 0)],
        [Field("I", V1), Field("i", 0)],
        [Field("I", V3), Field("i", 0), Field("i", -1)],
    ]
    fields = [Field("Q", 0x112), Field("Q", 0), Field("Q", count)]
    for _ in range(count):
        draw = rng.random()
        fields += _dense(rng) if draw < 0.6 else _sparse(rng) if draw < 0.95 else rng.choice(nothing)
    names = _names(rng, count) if rng.random() < 0.7 else []
    fields.append(Field("Q", len(names)))
    for name in names:
        raw = name.encode()
        fields += [Field("Q", len(raw)), Field("s", raw)]
    return join(fields)


# -- .npy and zip files ----------------------------------------------------------------------------------------------

_DESCRIPTIONS = {
    "<f4": 4,
    ">f4": 4,
    "<f8": 8,
    "<f2": 2,
    "|u1": 1,
    "|i1": 1,
    "<i8": 8,
    ">i8": 8,
    "|b1": 1,
    "<u2": 2,
    "=f4": 4,
}
_FOREIGN = {
    "|O": 8,
    "<c8": 8,
    "<U4": 16,
    "|S3": 3,
    "|V2": 2,
    "<M8": 8,
    "<f16": 16,
    "|b8": 8,
    "<i3": 3,
    "<u4": 4,
    "<f0": 0,
}


def _npy(rng: random.Random, shape: tuple[int, ...] | None = None, description: str | None = None) -> bytes:
    shape = _draw_shape(rng) if shape is None else shape
    sizes = _DESCRIPTIONS | (_FOREIGN if rng.random() < 0.1 else {})
    description = rng.choice([*sizes]) if description is None else description
    items = ", ".join(f"{dim}{rng.choice(['', '', '', 'L'])}" for dim in shape)
    shown = f"({items},)" if len(shape) == 1 else f"({items})"
    header = f"{{'descr': '{description}', 'fortran_order': {rng.choice(['True', 'False'])}, 'shape': {shown}, }}"
    header += " " * rng.choice([0, 1, 63, 63, 5000]) + "\n"
    version = rng.choice([1, 1, 2, 3])
    raw = header.encode()
    length = struct.pack("<H" if version == 1 else "<I", len(raw))
    data = _data(rng, math.prod(shape) * sizes.get(description, 4))
    return b"\x93NUMPY" + bytes([version, 0]) + length + raw + data


def _draw_npy_file(rng: random.Random) -> bytes:
    return _npy(rng)


def _sparse_members(rng: random.Random) -> dict[str, bytes]:
    """A sparse array as MXNet 2.0 keeps it."""
    kind = rng.choice(["row_sparse", "csr"])
    count, rows, columns = rng.choice([0, 1, 3]), rng.choice([3, 5, *_EXTREME]), rng.choice([1, 3, *_EXTREME])

    def integers(numbers: Sequence[int], description: str = "<i8") -> bytes:
        raw = struct.pack(f"<{len(numbers)}q", *(max(-(1 << 63), min(n, (1 << 63) - 1)) for n in numbers))
        head = _npy(rng, (len(numbers),), description)
        return head[: head.index(b"\n") + 1] + raw

    stored = (count, columns) if kind == "row_sparse" else (count,)
    members = {
        "data": _npy(rng, stored, "<f4"),
        "indices": integers(_indices(rng, count, rows if kind == "row_sparse" else columns)),
        "shape": integers(
            (rows, columns) if rng.random() < 0.9 else (-rows, columns, 1), rng.choice(["<i8", "<i8", "<u8"])
        ),
        "format": _npy(rng, (), "|u1") + kind.encode(),
    }
    if kind == "csr":
        members["indptr"] = integers([0, *[count] * min(rows, 200)])
    if rng.random() < 0.1:
        members.pop(rng.choice([*members]))
    return {f"w/{part}.npy": data for part, data in members.items()}


def _draw_zip(rng: random.Random) -> bytes:
    members = {f"{name.rstrip('/')[:200]}.npy": _npy(rng) for name in _names(rng, rng.choice([0, 1, 2, 3, 40]))}
    if rng.random() < 0.3:
        members |= _sparse_members(rng)
    if rng.random() < 0.2:
        members |= {f"arr_{i}.npy": _npy(rng) for i in range(rng.choice([1, 2, 5]))}
    if rng.random() < 0.05:
        members["bomb.npy"] = _npy(rng, (1 << 20,), "|u1")
    method = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
    if rng.random() < 0.03:  # the same member twice
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", method) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # which says that names are doubled
            for name, data in [*members.items(), *members.items()]:
                archive.writestr(zipfile.ZipInfo(name), data, method)
        return file.getvalue()
    return zip_of(members, method)


# -- safetensors -----------------------------------------------------------------------------------------------------

_CODES = {
    "F32": 4,
    "F64": 8,
    "F16": 2,
    "BF16": 2,
    "I64": 8,
    "I32": 4,
    "I8": 1,
    "U8": 1,
    "BOOL": 1,
    "F8_E4M3": 1,
    "U64": 8,
}


def _draw_safetensors(rng: random.Random) -> bytes:
    header: dict[str, object] = {}
    data = b""
    for name in dict.fromkeys(_names(rng, rng.choice([0, 1, 2, 5, 100]))):
        code, shape = rng.choice([*_CODES]), _draw_shape(rng)
        part = _data(rng, math.prod(shape) * _CODES[code])
        if math.prod(shape) * _CODES[code] > _MAX_DATA and rng.random() < 0.8:
            shape, part = (len(part) // _CODES[code],), part[: len(part) // _CODES[code] * _CODES[code]]
        header[name] = {"dtype": code, "shape": list(shape), "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    if rng.random() < 0.5:
        states = rng.choice([[], [*header][:1], ["missing"], [*header]])
        text = (
            json.dumps(states) if rng.random() < 0.8 else rng.choice(["{", "[" * 1000, "1", "null", '["a", 1]', "NaN"])
        )
        header["__metadata__"] = {rng.choice(["symjax_nnvm.aux", "aux", "format"]): text, "é": "x" * 1000}
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    return struct.pack("<Q", len(raw)) + raw + data
