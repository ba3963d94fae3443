"""Changes to valid files that know the formats: trees of JSON and ONNX, fields of array files, members of zips, bytes.

Most mutants are one or two changes away from a valid file, so that they get past the first checks.
"""

import base64
import json
import random
import re
import struct
import zipfile
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tests.fuzz.corpus import Field, Fields, join, zip_of

__all__ = ["NUMBERS", "TEXTS", "mutate_bytes", "mutate_fields", "mutate_npy", "mutate_tree", "mutate_zip"]

NUMBERS = [-1, -2, -3, -8, -1000, -(10**9), 0, 1, 2, 3, 4, 7, 8, 31, 32, 33, 63, 64, 65, 100, 127, 128, 255, 256, 1000]
NUMBERS += [4095, 4096, 65535, 65536, (1 << 20) + 1, 10**6, 10**9, 0x112, 0xF993FAC8, 0xF993FAC9, 0xF993FACA]
NUMBERS += [(1 << bits) + offset for bits in (31, 32, 48, 62, 63, 64) for offset in (-1, 0, 1)]
NUMBERS += [-(1 << 31), -(1 << 31) - 1, -(1 << 63)]
_FLOATS = [0.5, -1.0, 1e38, 1e-30, float("inf"), float("-inf"), float("nan")]
TEXTS = "|None|True|0|1|-1|2|100|0.5|-0.0|nan|inf|1e400|1L|()|(0,)|(1,)|(-1,)|(2, 2)|(1, 1, 1)|(0, 0)|(None, 2)|(,)"
TEXTS += "|(1, 2, 3, 4, 5)|(-1, -2)|[0, 2]|[0]|(1000000000, 1000000000)|[]|((1,2),(3,4))|(1|1)|(3L, 3L)|{}|%s%n|a/b"
TEXTS += "|float32|float16|int32|uint8|bool|bfloat16|complex64|NCHW|NHWC|relu|max|1000000000|4294967296|\x1b[2J|$|null"
TEXTS += (
    "|9223372036854775808|-9223372036854775809|__a__|\0|\ud800|\n|é😀|\u202e|axis|num_args|kernel|num_outputs|x|y|w"
)
TEXTS += "|num_hidden|shape|dtype|mode|__shape__|__dtype__|lr_mult|data|sum|forward|NOTSET|SAME_UPPER|linear|cubic"
TEXTS += "|reflect|../secret|secret|/etc/passwd|ai.onnx|local|offset|location"
TEXTS = [*TEXTS.split("|"), "9" * 400, "1" * 5000, "x" * 4096, "x" * 70000, "(" + "1," * 3000 + ")", "(" * 500]
_HOSTILE = ["NaN", "Infinity", "1.5", "1e999", "null", "true", "-0", "9" * 5000, "[" * 2000, '{"a":', "", "[[]]", "{}"]
_NPY_TEXTS = "<f4|>f8|<U4|<c8|<M8[s]|(2, 3)|(|())|True|-1|{'a': 1}|L|(1099511627776, 2)|(9223372036854775807,)"
_NPY_TEXTS = [*_NPY_TEXTS.split("|"), "|b1", "|O", "|V2", "(4294967295, 4294967297)", "(0, 4611686018427387904)"]
_NPY_ITEM = re.compile(rb"'[<>|=][a-zA-Z?]\d*'|\([\d, L]*\)|True|False|[{},']")
_ZIP_RECORD = re.compile(rb"PK(\x03\x04|\x01\x02|\x05\x06|\x06\x06|\x06\x07)")

Place = tuple[Any, Any, str]
"""A dict or a list, a key or an index in it, and the key under which the value stands, or its list."""


def _number(rng: random.Random) -> int:
    return rng.choice(NUMBERS) if rng.random() < 0.5 else rng.randrange(-3, 24)


def _places(tree: Any) -> list[Place]:
    found: list[Place] = []
    waiting = [(tree, "")]
    while waiting:
        value, name = waiting.pop()
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            found.append((value, key, key if isinstance(key, str) else name))
            if isinstance(item, dict | list):
                waiting.append((item, found[-1][2]))
    return found


def mutate_tree(
    rng: random.Random,
    text: str,
    other: str,
    kinds: Sequence[str],
    binary: Collection[str] = (),
    *,
    whole: bool = False,
) -> str:
    """A JSON document with some values changed, taken from elsewhere, doubled, moved or dropped.

    kinds: names of operators. binary: keys whose texts are bytes in base64. whole: the result is JSON in any case.
    """
    tree, donors = json.loads(text), _places(json.loads(other))
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 5])):
        # A large file has many nodes of few kinds: first a key, then one of the places where it stands.
        places, named = _places(tree), {}
        for place in places:
            named.setdefault(place[2], []).append(place)
        if not named:
            break
        container, key, name = rng.choice(named[rng.choice(list(named))])
        value, draw = container[key], rng.random()
        alike = [place for place in rng.choices([*places, *donors], k=40) if place[2] == name]
        source, at, _ = rng.choice(alike or [(container, key, name)])
        taken = json.loads(json.dumps(source[at]))
        if draw < 0.1:
            del container[key]
        elif draw < 0.2 and isinstance(container, list):
            container.insert(rng.randrange(len(container) + 1), taken)
        elif draw < 0.2:
            source, at, name = rng.choice([*places, *donors])
            container[name or "x"] = json.loads(json.dumps(source[at]))
        elif draw < 0.25 and isinstance(container, list):
            rng.shuffle(container)
        elif draw < 0.45:
            container[key] = taken
        elif isinstance(value, dict | list):
            container[key] = rng.choice([[], {}, None, 1, "x", [value], [[]], [0, 0, 0]])
        elif name in binary and isinstance(value, str):
            raw = rng.choice(TEXTS).encode("utf-8", "replace") if rng.random() < 0.3 else base64.b64decode(value)
            container[key] = base64.b64encode(mutate_bytes(rng, raw, b"\0\xff\x80ab")).decode()
        else:
            container[key] = _scalar(rng, value, kinds)
    text = json.dumps(tree)
    if rng.random() < 0.05:
        i = rng.randrange(len(text))
        text = text[:i] + rng.choice(_HOSTILE) + text[i + rng.choice([0, 1, 2, 20]) :]
    return text


def _scalar(rng: random.Random, value: Any, kinds: Sequence[str]) -> Any:
    """Another value in a scalar's place, mostly of its type."""
    draw = rng.random()
    if draw < 0.03:
        return rng.choice([None, True, 1.5, [], {}, "1"])
    if not isinstance(value, str):
        return rng.choice(_FLOATS) if isinstance(value, float) else _number(rng)
    if draw < 0.15 or (value in kinds and draw < 0.5):
        return rng.choice(kinds)
    if draw < 0.7 and any(c.isdigit() for c in value):  # a number inside a parameter
        return re.sub(r"-?\d+", lambda m: m[0] if rng.random() < 0.3 else str(_number(rng)), value)
    return rng.choice(TEXTS)


def mutate_fields(rng: random.Random, fields: Fields, other: Fields) -> bytes:
    """A file of fields with some of them changed, doubled, moved or dropped; at times spliced with another."""
    fields = list(fields)
    if rng.random() < 0.15:
        fields = fields[: rng.randrange(len(fields))] + other[rng.randrange(len(other)) :]
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 6])):
        if not fields:
            break
        i = rng.randrange(len(fields))
        letter, value = fields[i]
        draw = rng.random()
        if draw < 0.7 and isinstance(value, bytes):
            fields[i] = Field(letter, mutate_bytes(rng, value, b"\0\xff\x80ab"))
        elif draw < 0.7 and isinstance(value, int):
            fields[i] = Field(letter, rng.choice([_number(rng), _number(rng), value + rng.choice([-1, 1])]))
        elif draw < 0.8:
            fields[i] = rng.choice(other or fields)
        elif draw < 0.9:
            start = rng.randrange(len(fields))
            fields[i:i] = fields[start : start + rng.randrange(1, 8)]
        else:
            del fields[i : i + rng.randrange(1, 4)]
    data = join(fields)
    return mutate_bytes(rng, data, join(other)) if rng.random() < 0.2 else data


def mutate_npy(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """A `.npy` file with another item in its header, or with other bytes."""
    items = list(_NPY_ITEM.finditer(data, 0, 200))
    if not items or rng.random() < 0.4:
        return mutate_bytes(rng, data, other)
    start, end = rng.choice(items).span()
    new = rng.choice(_NPY_TEXTS).encode()
    mutant = bytearray(data[:start] + new + data[end:])
    if rng.random() < 0.8:  # the header says how long it is
        mutant[8:10] = ((int.from_bytes(data[8:10], "little") + start - end + len(new)) % 65536).to_bytes(2, "little")
    return bytes(mutant)


def mutate_zip(rng: random.Random, members: Mapping[str, bytes], other: Mapping[str, bytes]) -> bytes:
    """A zip file whose members' headers, or whose directory, say what is not so."""
    members, name, draw = dict(members), rng.choice(list(members)), rng.random()
    if draw < 0.1:
        members[rng.choice(["a/b.npy", "../x.npy", "x", ".npy", "arr_0.npy", "ü.npy", "a\0.npy"])] = members[name]
    elif draw < 0.15:
        members[name] += bytes(1 << 20)
    elif draw < 0.2:
        members.pop(name)
    elif draw < 0.6:
        members[name] = mutate_npy(rng, members[name], rng.choice(list(other.values())))
    data = bytearray(zip_of(members, rng.choice([0, 0, 0, 0, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])))
    if rng.random() < 0.1:  # two members of one name
        data = data.replace(b"arr_1.npy", b"arr_0.npy")
    for _ in range(rng.choice([0, 1, 1, 2])):  # most numbers of a zip file stand within 46 bytes of a signature
        place = rng.choice(list(_ZIP_RECORD.finditer(data))).start() + rng.randrange(4, 46)
        size = rng.choice([1, 2, 4])
        value = rng.choice([rng.choice(NUMBERS), rng.randrange(256), len(data)]) % (1 << 8 * size)
        data[place : place + size] = value.to_bytes(size, "little")
    return mutate_bytes(rng, bytes(data), zip_of(other)) if rng.random() < 0.2 else bytes(data)


def mutate_bytes(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Bytes with some flipped, overwritten by numbers, inserted from another input, doubled or cut off."""
    mutant = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        if not mutant:
            return bytes(other[:8])
        i = rng.randrange(len(mutant))
        match rng.randrange(6):
            case 0:
                mutant[i] ^= 1 << rng.randrange(8)
            case 1:
                mutant[i] = rng.randrange(256)
            case 2:
                size = struct.calcsize(rng.choice("BHIQ"))
                mutant[i : i + size] = (rng.choice(NUMBERS) % (1 << 8 * size)).to_bytes(size, "little")
            case 3:
                start = rng.randrange(len(other)) if other else 0
                mutant[i:i] = other[start : start + rng.randrange(1, 40)]
            case 4:
                mutant[i:i] = mutant[i : i + rng.randrange(1, 40)]
            case _:
                del mutant[i : i + rng.choice([1, 2, 4, 8, len(mutant)])]
    return bytes(mutant)
