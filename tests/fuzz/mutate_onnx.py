"""Mutations of ONNX models by the fields of their messages: numbers, names, dtypes, nodes, attributes, tensors, graphs.

Most mutants are one or two changes away from a valid model, so that they get past the package onnx's own checks.
"""

from __future__ import annotations

import math
import random
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor

from tests.fuzz.mutate import NUMBERS, mutate_bytes

__all__ = ["mutate_onnx"]

_FLOATS = (0.0, -1.0, 0.5, 2.0, 1e-30, 1e38, math.inf, -math.inf, math.nan)
_TEXTS = ("", "x", "y", "w", "sum", "forward", "NOTSET", "SAME_UPPER", "linear", "cubic", "reflect", "../secret",
          "secret", "/etc/passwd", "ai.onnx", "local", "n" * 5000, "\x1b[2J", "é", "offset", "location")  # fmt: skip
_KINDS = sorted({schema.name for schema in onnx.defs.get_all_schemas()})
_BITS = {"INT32": 32, "INT64": 64, "UINT32": 32, "UINT64": 64, "ENUM": 32}

_TYPES = [name for name in dir(FieldDescriptor) if name.startswith("TYPE_")]
_NAMES = {getattr(FieldDescriptor, name): name.removeprefix("TYPE_") for name in _TYPES}
"""The number of a field's type → its name."""

_MEANING = frozenset(
    {
        *("AttributeProto.f", "AttributeProto.i", "AttributeProto.s", "AttributeProto.floats", "AttributeProto.ints"),
        *("NodeProto.op_type", "NodeProto.input", "NodeProto.attribute", "GraphProto.initializer", "GraphProto.node"),
        *("TensorProto.dims", "TensorProto.raw_data", "TensorProto.int64_data", "TypeProto.Tensor.elem_type"),
        *("TensorShapeProto.Dimension.dim_value", "TensorShapeProto.Dimension.dim_param", "TensorShapeProto.dim"),
    }
)
"""Fields that decide what is computed, rather than what is called how."""

Place = tuple[Any, Any, int | None]
"""A message, one of its fields, and a place in it if it is repeated."""


def mutate_onnx(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """A model with some fields changed, doubled, moved, dropped, or taken from another; at times some bytes of it."""
    model, donor = onnx.ModelProto.FromString(data), _places(onnx.ModelProto.FromString(other))
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 5])):
        places = _places(model)
        if not places:
            break
        # A big model's names would be most of what is changed: kinds of fields first, those with meaning before others.
        kinds: dict[str, list[Place]] = {}
        for place in places:
            kinds.setdefault(place[1].full_name.removeprefix("onnx."), []).append(place)
        names = [name for name in kinds if name in _MEANING] if rng.random() < 0.7 else []
        _change(rng, rng.choice(kinds[rng.choice(names or list(kinds))]), places, donor)
    made = model.SerializeToString(deterministic=True)
    return mutate_bytes(rng, made, other) if rng.random() < 0.1 else made


def _places(message: Any) -> list[Place]:
    """Everything that is set in a message and in those inside it."""
    found: list[Place] = []
    waiting = [message]
    while waiting:
        each = waiting.pop()
        for field, value in each.ListFields():
            if _is_one(value):
                found.append((each, field, None))
                waiting.extend([value] if field.message_type else [])
            else:
                found.extend((each, field, i) for i in range(min(len(value), 20)))
                waiting.extend(value if field.message_type else [])
    return found


def _is_one(value: Any) -> bool:
    return isinstance(value, int | float | str | bytes) or hasattr(value, "DESCRIPTOR")


def _change(rng: random.Random, place: Place, places: list[Place], donor: list[Place]) -> None:
    message, field, i = place
    draw = rng.random()
    alike = [each for each in rng.choices([*places, *donor], k=40) if _alike(each[1], field)]
    if i is not None and draw < 0.3:
        _rearrange(rng, getattr(message, field.name), i, rng.choice(alike) if alike else place)
    elif draw < 0.35:
        message.ClearField(field.name)
    elif draw < 0.42:
        _set_another(rng, message)
    elif field.message_type:
        source = _value(rng.choice(alike)) if alike else None
        target = _value(place)
        if source is not None and source is not target:
            copied = type(source)()
            copied.CopyFrom(source)
            target.CopyFrom(copied)
    else:
        old = _value(place)
        new = _value(rng.choice(alike)) if alike and rng.random() < 0.4 else _scalar(rng, field, old)
        if i is None:
            setattr(message, field.name, new)
        else:
            getattr(message, field.name)[i] = new


def _alike(field: Any, other: Any) -> bool:
    """Whether values of one field fit into another."""
    return field.type == other.type and field.message_type == other.message_type and field.enum_type == other.enum_type


def _value(place: Place) -> Any:
    message, field, i = place
    value = getattr(message, field.name)
    return value if i is None else value[i]


def _rearrange(rng: random.Random, values: Any, i: int, source: Place) -> None:
    """Drop, double or move an element of a repeated field, or put one of another there."""
    draw = rng.random()
    if draw < 0.4:
        del values[i]
    elif draw < 0.7:
        values.append(_value(source))
    else:
        taken = list(values)
        rng.shuffle(taken)
        del values[:]
        values.extend(taken)


def _set_another(rng: random.Random, message: Any) -> None:
    """Set a field that may not have been set."""
    field = rng.choice(message.DESCRIPTOR.fields)
    value = getattr(message, field.name)
    if field.message_type:
        if _is_one(value):
            value.SetInParent()
        else:
            value.add()
    elif _is_one(value):
        setattr(message, field.name, _scalar(rng, field, value))
    else:
        value.append(_scalar(rng, field, None))


def _scalar(rng: random.Random, field: Any, old: Any) -> Any:
    """A value for a field, hostile more often than not."""
    kind = _NAMES[field.type]
    if kind in _BITS:
        near = old + rng.choice([-1, 1]) if isinstance(old, int) and rng.random() < 0.3 else None
        number = near if near is not None else rng.choice(NUMBERS) if rng.random() < 0.5 else rng.randrange(-3, 24)
        return _wrapped(kind, number) if kind != "ENUM" else rng.choice(field.enum_type.values).number
    if kind in ("FLOAT", "DOUBLE"):
        return rng.choice(_FLOATS)
    text = rng.choice(_KINDS) if rng.random() < 0.4 else rng.choice(_TEXTS)
    if kind == "STRING":
        return text
    return mutate_bytes(rng, old or b"", b"\0\xff\x80ab") if rng.random() < 0.7 else text.encode()


def _wrapped(kind: str, number: int) -> int:
    """A number as one of the bits that a field has."""
    bits = _BITS[kind]
    number %= 1 << bits
    return number - (1 << bits) if kind.startswith("INT") and number >> (bits - 1) else number
