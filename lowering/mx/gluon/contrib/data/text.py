"""WikiText: the words of articles as numbers, and the words after them, read from files that are there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from lowering.mx.base import data_dir
from lowering.mx.contrib.text.utils import count_tokens_from_str
from lowering.mx.contrib.text.vocab import Vocabulary
from lowering.mx.gluon.data.dataset import DownloadedDataset
from lowering.mx.ndarray.creation import array
from symjax_nnvm.errors import FileError, ModelNotFoundError, ParamError
from symjax_nnvm.io.files import StrPath, read_bounded

__all__ = ["WikiText2", "WikiText103"]

_END = "<eos>"
_MOST = 1 << 30
"""Bytes of a text, at most; WikiText-103 has 540 million."""
_FILES = {"train": "wiki.train.tokens", "validation": "wiki.valid.tokens", "test": "wiki.test.tokens"}


class _WikiText(DownloadedDataset):
    """A text as rows of seq_len words: samples are (numbers of words, numbers of the next words), int32 (seq_len,).

    root: the folder of the text's files, or the one that has their folder. segment: "train", "validation" or "test".
    vocab: the numbers of words, a `mx.contrib.text.vocab.Vocabulary`; default is made of the text's words. Raises
    ParamError, a ValueError, for another segment; ModelNotFoundError, which names the file to get and its folder.
    """

    _name = ""
    _root: str

    def __init__(self, root: StrPath | None = None, segment: str = "train", vocab: Any = None, seq_len: int = 35):
        if segment not in _FILES:
            raise ParamError("No such segment", expected=f"one of {sorted(_FILES)}", got=repr(segment))
        self._vocab, self._counter = vocab, None
        self._segment, self._seq_len = segment, seq_len
        super().__init__(os.path.join(data_dir(), "datasets", self._name) if root is None else root, None)

    @property
    def vocabulary(self) -> Any:
        """Return the numbers of words."""
        return self._vocab

    @property
    def frequencies(self) -> Any:
        """Return how often each word is in the text."""
        return self._counter

    def _get_data(self) -> None:
        name = _FILES[self._segment]
        places = [Path(self._root, name), Path(self._root, self._name, name)]
        path = next((place for place in places if place.exists()), None)
        if path is None:
            problem = f"No such file: {places[0].absolute()}. {type(self).__name__} is read from files"
            raise ModelNotFoundError(f"{problem}: unpack {self._name}-v1.zip into this folder.")
        content = read_bounded(path, _MOST, "a text", FileError).decode("utf-8", "replace")
        self._counter = count_tokens_from_str(content)
        if self._vocab is None:
            self._vocab = Vocabulary(counter=self._counter, reserved_tokens=[_END])
        lines = (line.split() for line in content.splitlines())
        words = [word for line in lines if line for word in (*line, _END)]
        numbers = np.asarray(self._vocab.to_indices(words), np.int32)
        rows = (len(numbers) - 1) // self._seq_len
        self._data, self._label = (
            array(numbers[first : first + rows * self._seq_len].reshape(rows, self._seq_len), dtype=np.int32)
            for first in (0, 1)
        )


class WikiText2(_WikiText):
    """The text of two million words: see `_WikiText`. Default folder `datasets/wikitext-2` in `mx.base.data_dir()`."""

    _name = "wikitext-2"


class WikiText103(_WikiText):
    """The text of 103 million words: see `_WikiText`. Default folder `datasets/wikitext-103` in
    `mx.base.data_dir()`."""

    _name = "wikitext-103"
