"""SYMJAX_NNVM_ONEDNN: the word of the environment for what computes convolutions and dense layers on a CPU."""

from __future__ import annotations

import os
from collections.abc import Mapping

from symjax_nnvm.errors import CallError, refuse_unknown

__all__ = ["ALONE", "OURS", "SWITCH", "XLAS", "onednn_calls"]

SWITCH = "SYMJAX_NNVM_ONEDNN"
ALONE, OURS, XLAS = "0", "1", "xla"
_WORDS: Mapping[str, str] = {ALONE: "XLA alone", OURS: "our calls of oneDNN", XLAS: "XLA's own calls of oneDNN"}


def onednn_calls() -> str:
    """Return `ALONE`: none; `OURS`, the default: ours, where a child process found them right; `XLAS`: those that XLA
    makes where a program has a plain convolution, untried. Raises CallError for another word."""
    word = os.environ.get(SWITCH) or OURS
    refuse_unknown(CallError, f"{SWITCH} has an unknown word:", [word], _WORDS, "words")
    return word
