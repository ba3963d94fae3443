"""Vocabulary: a number for each token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

from symjax_nnvm.errors import CallError, SymbolValueError

UNKNOWN = 0
"""The number of all tokens that are not known."""


class VocabularyError(CallError, AssertionError):
    """Invalid parameters of a vocabulary. MXNet asserts."""


class Vocabulary:
    """The tokens of a counter, numbered by frequency, after the unknown token, 0, and those that are reserved.

    most_freq_count: the maximal number of tokens of the counter; of equally frequent ones the first in order. min_freq:
    the minimal count of a token. Raises VocabularyError, an AssertionError, for reserved tokens that are the unknown
    one or come twice.
    """

    def __init__(
        self,
        counter: Counter[Any] | None = None,
        most_freq_count: int | None = None,
        min_freq: int = 1,
        unknown_token: Hashable = "<unk>",
        reserved_tokens: Sequence[Any] | None = None,
    ):
        if min_freq <= 0:
            raise VocabularyError("`min_freq` must be set to a positive value.")
        reserved = list(reserved_tokens or ())
        if unknown_token in reserved:
            raise VocabularyError("`reserved_token` cannot contain `unknown_token`.")
        if len(set(reserved)) < len(reserved):
            raise VocabularyError("`reserved_tokens` cannot contain duplicate reserved tokens.")
        self._unknown_token: Any = unknown_token
        self._reserved_tokens = None if reserved_tokens is None else reserved
        self._idx_to_token: list[Any] = [unknown_token, *reserved]
        if counter is not None:
            if not isinstance(counter, Counter):
                raise VocabularyError("`counter` must be an instance of collections.Counter.")
            most = len(self._idx_to_token) + (len(counter) if most_freq_count is None else most_freq_count)
            for token in sorted(sorted(counter), key=lambda token: -counter[token]):
                if counter[token] < min_freq or len(self._idx_to_token) == most:
                    break
                if token != unknown_token and token not in reserved:
                    self._idx_to_token.append(token)
        self._token_to_idx = {token: i for i, token in enumerate(self._idx_to_token)}

    def __len__(self) -> int:
        return len(self._idx_to_token)

    @property
    def token_to_idx(self) -> dict[Any, int]:
        """Token → number."""
        return self._token_to_idx

    @property
    def idx_to_token(self) -> list[Any]:
        """Return the tokens in the order of their numbers."""
        return self._idx_to_token

    @property
    def unknown_token(self) -> Any:
        """What stands for all tokens that are not known."""
        return self._unknown_token

    @property
    def reserved_tokens(self) -> list[Any] | None:
        """The tokens that have numbers whether they occur in a text or not."""
        return self._reserved_tokens

    def to_indices(self, tokens: Any) -> Any:
        """Return the number of a token, or a list of those of a list; 0 for one that is not known."""
        if isinstance(tokens, list):
            return [self._token_to_idx.get(token, UNKNOWN) for token in tokens]
        return self._token_to_idx.get(tokens, UNKNOWN)

    def to_tokens(self, indices: Any) -> Any:
        """The token of a number, or a list of those of a list. Raises SymbolValueError, a ValueError, for others."""
        if isinstance(indices, list):
            return [self.to_tokens(index) for index in indices]
        if not isinstance(indices, int) or indices >= len(self):
            expected = f"a whole number below {len(self)}"
            raise SymbolValueError(f"Token index {indices} in the provided `indices` is invalid", expected=expected)
        return self._idx_to_token[indices]
