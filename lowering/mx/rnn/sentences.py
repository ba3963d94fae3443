"""Sentences as numbers, and batches of sentences of like lengths."""

from __future__ import annotations

import bisect
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from lowering.messages.counts import check_count, check_counts, checks_flags
from lowering.mx.io.desc import DataBatch, DataDesc, DataIter
from lowering.mx.ndarray import NDArray, array
from symjax_nnvm.errors import CallError


@checks_flags
def encode_sentences(
    sentences: Iterable[Iterable[Any]],
    vocab: Mapping[Any, int] | None = None,
    invalid_label: int = -1,
    invalid_key: Any = "\n",
    start_label: int = 0,
    unknown_token: Any = None,
) -> tuple[list[list[int]], dict[Any, int]]:
    """Return sentences as lists of numbers, and the number of each word.

    Args:
        sentences: lists of words.
        vocab: the numbers of known words; None to number words as they come.
        invalid_label: the number of `invalid_key`.
        invalid_key: the word that stands for the end.
        start_label: the first number to give.
        unknown_token: the word that replaces unknown ones.

    Raises:
        CallError: a word is unknown and there is no `unknown_token`.
    """
    numbers = {invalid_key: invalid_label} if vocab is None else dict(vocab)
    number, coded = start_label, []
    for words in sentences:
        sentence = list(words)
        for word in sentence:
            if word in numbers:
                continue
            if vocab is not None and not unknown_token:
                raise CallError(f"Unknown token {word}", fix="encode_sentences(..., unknown_token='<unk>')")
            number += number == invalid_label
            numbers[unknown_token or word] = number
            number += 1
        coded.append([numbers[word] if word in numbers else numbers[unknown_token] for word in sentence])
    return coded, numbers


class BucketSentenceIter(DataIter):
    """Batches of sentences of similar lengths, which are lists of numbers; labels are the next words.

    Python's and NumPy's global generators shuffle, so that their seeds give MXNet's order.

    Args:
        sentences: the sentences.
        batch_size: the number of sentences in a batch.
        buckets: the lengths; None for all lengths with at least a batch of sentences. Longer sentences are left out.
        invalid_label: the number that fills sentences up.
        data_name: the name of the data.
        label_name: the name of the labels.
        dtype: the dtype of both.
        layout: "NT", or "TN" for steps first.
    """

    @checks_flags
    def __init__(
        self,
        sentences: Iterable[Iterable[int]],
        batch_size: int,
        buckets: Sequence[int] | None = None,
        invalid_label: int = -1,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: str = "float32",
        layout: str = "NT",
    ):
        super().__init__(check_count(batch_size, "batch_size"))
        if sorted(layout) != ["N", "T"]:
            raise CallError(f"Invalid layout {layout}: Must by NT (batch major) or TN (time major)")
        sentences = [list(sentence) for sentence in sentences]
        lengths = np.bincount([len(sentence) for sentence in sentences])
        if not buckets:
            buckets = [length for length, count in enumerate(lengths) if count >= batch_size]
        sizes = sorted(check_counts(buckets, "buckets"))
        rows: list[list[np.ndarray]] = [[] for _ in sizes]
        for sentence in sentences:
            chosen = bisect.bisect_left(sizes, len(sentence))
            if chosen < len(sizes):
                padded = np.full((sizes[chosen],), invalid_label, dtype)
                padded[: len(sentence)] = sentence
                rows[chosen].append(padded)
        self.buckets = [size for size, sentences_of_size in zip(sizes, rows, strict=True) if sentences_of_size]
        self.data = [np.asarray(sentences_of_size, dtype) for sentences_of_size in rows if sentences_of_size]
        self.data_name, self.label_name = data_name, label_name
        self.dtype, self.invalid_label, self.layout = dtype, invalid_label, layout
        self.major_axis = layout.find("N")
        self.nddata: list[NDArray] = []
        """The sentences (n, length) of each bucket, in the order of this epoch: batches are rows of them."""
        self.ndlabel: list[NDArray] = []
        """Their labels (n, length)."""
        self.default_bucket_key = max(self.buckets)
        self.provide_data = self._described(data_name, self.default_bucket_key)
        self.provide_label = self._described(label_name, self.default_bucket_key)
        self.idx = [
            (i, first)
            for i, sentences_of_size in enumerate(self.data)
            for first in range(0, len(sentences_of_size) - batch_size + 1, batch_size)
        ]
        self.reset()

    def _next_words(self, sentences: np.ndarray) -> np.ndarray:
        label = np.full_like(sentences, self.invalid_label)
        label[:, :-1] = sentences[:, 1:]
        return label

    def _described(self, name: str, length: int) -> list[DataDesc]:
        shape = (self.batch_size, length)
        return [DataDesc(name, shape if self.layout == "NT" else shape[::-1], layout=self.layout)]

    def reset(self) -> None:
        """Begin the next epoch, in another order."""
        self.curr_idx = 0
        random.shuffle(self.idx)
        for bucket in self.data:
            np.random.shuffle(bucket)
        self.nddata = [array(bucket, dtype=self.dtype) for bucket in self.data]
        self.ndlabel = [array(self._next_words(bucket), dtype=self.dtype) for bucket in self.data]

    def next(self) -> DataBatch:
        """Return the next batch; at the end it raises StopIteration."""
        if self.curr_idx == len(self.idx):
            raise StopIteration
        bucket, first = self.idx[self.curr_idx]
        self.curr_idx += 1
        data, label = (
            np.asarray(whole[bucket])[first : first + self.batch_size] for whole in (self.nddata, self.ndlabel)
        )
        if self.major_axis == 1:
            data, label = data.T, label.T
        length = self.buckets[bucket]
        return DataBatch(
            [array(data, dtype=self.dtype)],
            [array(label, dtype=self.dtype)],
            pad=0,
            bucket_key=length,
            provide_data=self._described(self.data_name, length),
            provide_label=self._described(self.label_name, length),
        )
