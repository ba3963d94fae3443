"""Mutations that know the formats: JSON by tokens, array files by fields, zip files by members; and all by bytes.

Most mutants are one or two changes away from a valid file, so that they get past the first checks.
"""

from __future__ import annotations

import random
import re
import struct
import zipfile
from collections.abc import Sequence

from symjax_nnvm.ir.op import list_all_names
from tests.fuzz.corpus import Field, Fields, join, zip_of

__all__ = ["NUMBERS", "mutate_bytes", "mutate_json", "mutate_params", "mutate_zip"]

NUMBERS = [-1, 0, 1, 2, 3, 4, 7, 8, 31, 32, 33, 127, 128, 255, 256, 4095, 4096, 65535, 65536, (1 << 20) + 1]
NUMBERS += [(1 << bits) + offset for bits in (31, 32, 48, 62, 63, 64) for offset in (-1, 0, 1)]
NUMBERS += [-(1 << 31), -(1 << 63), 0x112, 0xF993FAC8, 0xF993FAC9, 0xF993FACA]

_TEXTS = ["", " ", "None", "True", "False", "0", "1", "-1", "2", "3", "100", "0.5", "-0.0", "nan", "inf", "1e400", "1L"]
_TEXTS += ["()", "(0,)", "(1,)", "(-1,)", "(2, 2)", "(1, 1, 1)", "(0, 0)", "(-1, -2)", "(None, 2)", "(1, 2, 3, 4, 5)"]
_TEXTS += ["(1000000000, 1000000000)", "[0, 2]", "[0]", "[]", "((1,2),(3,4))", "(1", "1)", "(,)", "(3L, 3L)", "{}"]
_TEXTS += ["float32", "float16", "int32", "uint8", "bool", "bfloat16", "complex64", "NCHW", "NHWC", "relu", "max"]
_TEXTS += [
    "1000000000",
    "4294967296",
    "9223372036854775808",
    "-9223372036854775809",
    "9" * 400,
    "1" * 5000,
    "x" * 70000,
]
_TEXTS += ["(" + "1," * 3000 + ")", "(" * 500, "__a__", "\\u0000", "\\ud800", "\\n", "é", "😀", "$", "null", "axis"]
_TEXTS += [
    "num_args",
    "num_outputs",
    "num_hidden",
    "kernel",
    "shape",
    "dtype",
    "mode",
    "__shape__",
    "__dtype__",
    "lr_mult",
]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+|[\[\]{},:]|[^\s"\[\]{},:]+|\s+')
_HOSTILE = ["NaN", "Infinity", "1.5", "1e999", "null", "true", "-0", "9" * 5000, "[" * 2000, '{"a":', "", "[[]]", "{}"]


def _pick_json_number(rng: random.Random) -> str:
    return str(rng.choice(NUMBERS) if rng.random() < 0.5 else rng.randrange(-2, 12))


def _new_token(rng: random.Random, token: str, tokens: Sequence[str]) -> str:
    """Something else in a token's place, mostly of the same kind."""
    draw = rng.random()
    if draw < 0.03:
        return rng.choice(_HOSTILE)
    if draw < 0.3:
        same = [other for other in rng.choices(tokens, k=20) if other[:1] == token[:1]]
        return rng.choice(same) if same else token
    if token.startswith('"'):
        if draw < 0.36:
            return f'"{rng.choice(list_all_names())}"'
        if draw < 0.75 and any(c.isdigit() for c in token):  # a number inside a parameter
            return re.sub(r"-?\d+", lambda m: m[0] if rng.random() < 0.5 else _pick_json_number(rng), token)
        return f'"{rng.choice(_TEXTS)}"'
    if token.lstrip("-").isdigit():
        return _pick_json_number(rng)
    return rng.choice(["[", "]", "{", "}", ",", ":", token + token, ""])


def mutate_json(rng: random.Random, text: str, other: str) -> bytes:
    """A symbol file with some tokens changed, moved, doubled or dropped; at times spliced with another."""
    tokens = _TOKEN.findall(text)
    if rng.random() < 0.1:
        tail = _TOKEN.findall(other)
        tokens = tokens[: rng.randrange(len(tokens))] + tail[rng.randrange(len(tail)) :]
    # Most tokens are punctuation and field names, and changing these is mostly refused at once: values come first.
    values = [i for i, token in enumerate(tokens) if token[0] in '"-0123456789' and tokens[i + 1 : i + 2] != [":"]]
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 5])):
        i = rng.choice(values) if values and rng.random() < 0.85 else rng.randrange(len(tokens))
        draw = rng.random()
        if draw < 0.9:
            tokens[i] = _new_token(rng, tokens[i], tokens)
        elif draw < 0.95:
            start, length = rng.randrange(len(tokens)), rng.randrange(1, 30)
            tokens[i:i] = tokens[start : start + length]
        elif len(tokens) > 1:
            end = i + rng.randrange(1, 12)
            tokens[i:end] = []
        values = [k for k in values if k < len(tokens)]
        if not tokens:
            break
    data = "".join(tokens).encode("utf-8", "surrogatepass")
    return mutate_bytes(rng, data, other.encode()) if rng.random() < 0.05 else data


def mutate_params(rng: random.Random, fields: Fields, other: Fields) -> bytes:
    """An array file with some fields changed, doubled, moved or dropped; at times spliced with another."""
    fields = list(fields)
    if rng.random() < 0.15:
        fields = fields[: rng.randrange(len(fields))] + other[rng.randrange(len(other)) :]
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 6])):
        if not fields:
            break
        i = rng.randrange(len(fields))
        field, draw = fields[i], rng.random()
        if draw < 0.7:
            if isinstance(field.value, bytes):
                value = mutate_bytes(rng, field.value, b"\0\xff\x80ab")
            else:
                value = rng.choice([rng.choice(NUMBERS), rng.randrange(0, 14), field.value + rng.choice([-1, 1])])
            fields[i] = Field(field.letter, value)
        elif draw < 0.8:
            fields[i] = rng.choice(other or fields)
        elif draw < 0.9:
            start = rng.randrange(len(fields))
            fields[i:i] = fields[start : start + rng.randrange(1, 8)]
        else:
            del fields[i : i + rng.randrange(1, 4)]
    data = join(fields)
    return mutate_bytes(rng, data, join(other)) if rng.random() < 0.2 else data


_NPY_TEXTS = [
    "<f4",
    ">f8",
    "|b1",
    "|O",
    "<U4",
    "<c8",
    "|V2",
    "<M8[s]",
    "(2, 3)",
    "(",
    "())",
    "True",
    "-1",
    "{'a': 1}",
    "L",
]
_SIGNATURES = (b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07")


def mutate_zip(rng: random.Random, members: dict[str, bytes], other: dict[str, bytes]) -> bytes:
    """A zip file whose members' headers, or whose directory, lie."""
    members = dict(members)
    if rng.random() < 0.6:
        name = rng.choice(list(members))
        member = members[name]
        draw = rng.random()
        if draw < 0.4:
            old = rng.choice([b"'<f8'", b"(2, 3)", b"(2, 2)", b"False", b"(3,)", b"'", b",", b"{", b"0"])
            new = rng.choice([*_NPY_TEXTS, str(rng.choice(NUMBERS)), f"({rng.choice(NUMBERS)}, 2)"]).encode()
            members[name] = member.replace(old, new, 1)
        elif draw < 0.8:
            members[name] = mutate_bytes(rng, member, rng.choice(list(other.values())))
        else:
            members[rng.choice(["a/b.npy", "../x.npy", "x", ".npy", "arr_0.npy", "ü.npy", "a\0.npy"])] = member
    data = bytearray(zip_of(members, rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])))
    for _ in range(rng.choice([0, 1, 1, 2])):
        # Most of a zip file's numbers stand within 46 bytes of a signature.
        found = [match.start() for signature in _SIGNATURES for match in re.finditer(re.escape(signature), data)]
        place = rng.choice(found) + rng.randrange(4, 46) if found else 0
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
                letter = rng.choice("BHIQ")
                size = struct.calcsize(letter)
                mutant[i : i + size] = (rng.choice(NUMBERS) % (1 << 8 * size)).to_bytes(size, "little")
            case 3:
                start = rng.randrange(len(other)) if other else 0
                mutant[i:i] = other[start : start + rng.randrange(1, 40)]
            case 4:
                mutant[i:i] = mutant[i : i + rng.randrange(1, 40)]
            case _:
                del mutant[i : i + rng.choice([1, 2, 4, 8, len(mutant)])]
    return bytes(mutant)
