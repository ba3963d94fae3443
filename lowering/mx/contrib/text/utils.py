"""Tokens counted."""

from __future__ import annotations

import re
from collections import Counter


def count_tokens_from_str(
    source_str: str,
    token_delim: str = " ",
    seq_delim: str = "\n",
    to_lower: bool = False,
    counter_to_update: Counter[str] | None = None,
) -> Counter[str]:
    """How often each token is in a text, added to counter_to_update, if that is given.

    token_delim, seq_delim: regular expressions between tokens and between sequences. to_lower: in lower case.
    """
    tokens = [token for token in re.compile(f"{token_delim}|{seq_delim}").split(source_str) if token]
    counter: Counter[str] = Counter() if counter_to_update is None else counter_to_update
    counter.update([token.lower() for token in tokens] if to_lower else tokens)
    return counter
