"""Text → JSON values, bounded before anything is decoded: the first check of a file from an untrusted source."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from symjax_nnvm.errors import JSONFormatError
from symjax_nnvm.io.symbol_json.attrs import brief

MAX_VALUES = 1 << 25
"""How many JSON values a text may hold: those of about three million nodes. Decoded, each takes up to 72 bytes."""

_FEW_CONTAINERS = 1 << 18


def decode(text: object) -> Any:
    """Return the JSON value of a text, duplicate keys refused."""
    if not isinstance(text, str):
        raise JSONFormatError("Graph JSON must be text", got=type(text).__name__)
    _refuse_bulk(text)
    try:
        # MXNet writes control characters as they are, which strict JSON forbids.
        document = json.loads(text, strict=False, object_pairs_hook=_unique)
        if not text.isascii():
            text.encode()
        if "\\u" in text:
            json.dumps(document, ensure_ascii=False).encode()
    except JSONFormatError:
        raise
    except RecursionError:
        raise JSONFormatError("Malformed graph JSON: the values are nested too deep.") from None
    except UnicodeEncodeError:
        raise JSONFormatError("Malformed graph JSON: a string has half of a surrogate pair.") from None
    except json.JSONDecodeError as error:
        # What is cut off ends where a value, a comma or a quotation mark should follow.
        ends = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        fix = " The text seems to be cut off: fetch the file again." if ends else ""
        raise JSONFormatError(f"Malformed graph JSON: {error}.{fix}") from None
    except ValueError as error:  # a number of too many digits
        raise JSONFormatError(f"Malformed graph JSON: {error}.") from None
    return document


def _refuse_bulk(text: str) -> None:
    """Bound what decoding would allocate, before it does."""
    containers = text.count("[") + text.count("{")
    values = text.count(",") + containers  # every value but one follows one of these
    if values > MAX_VALUES:
        raise JSONFormatError(
            "Graph JSON is too large to be read",
            expected=f"at most {MAX_VALUES} values, those of about three million nodes",
            got=f"about {values}",
        )
    # The shortest thing that a graph has many of is an entry, `[1,0],`; empty containers take twenty times their text.
    if containers > len(text) // 6 + _FEW_CONTAINERS:
        raise JSONFormatError(
            "Malformed graph JSON: it is mostly brackets", got=f"{containers} in {len(text)} characters"
        )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    by_key = dict(pairs)
    if len(by_key) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        name = by_key.get("name")
        raise JSONFormatError(
            f"Malformed graph JSON: field {brief(twice)} occurs twice in one object",
            node=name[:80] if isinstance(name, str) else None,
            got=f"fields {brief([key for key, _ in pairs])}",
        )
    return by_key
