"""`Batches`: arrays in batches, in an order that depends on the seed and the number of the epoch only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import jax
import numpy as np

from lowering.messages.arguments import as_array
from lowering.messages.migration_hints import with_migration_hints
from symjax_nnvm.errors import TrainingError, cut
from symjax_nnvm.ir.types import whole_number


class Batches:
    """Batches of equally long arrays, by argument name.

    `for batch in batches` runs through epoch 0, `batches.epoch(n)` through any. Epoch n comes in the same order on
    every machine and in every version of NumPy.

    Args:
        arrays: arrays (n, …) by argument name; memory-mapped ones are read batch by batch.
        batch_size: the number of rows in a batch.
        shuffle: use a new order in each epoch.
        seed: the seed of the orders.
        last: what happens to a last batch that is not full: "drop" it, "keep" it, or "pad" it with rows from the
            epoch's start, as MXNet's NDArrayIter does. Training counts these rows; `evaluate` and `predict` leave them
            out.
        shard: (index, count) to read one of `count` equal parts of each batch, or "process" for this process's part;
            `batch_size` stays that of the whole batch. Without it `Trainer.fit` gives each process the rows of its
            devices, on any mesh; `shard` saves reading the others.

    Raises:
        TrainingError: arrays have different lengths, or an option is wrong.
    """

    @with_migration_hints("Batches", "lowering.Batches({'data': x, 'softmax_label': y}, batch_size=32)")
    def __init__(
        self,
        arrays: Mapping[str, Any],
        batch_size: int,
        shuffle: bool = False,
        seed: int = 0,
        last: Literal["drop", "pad", "keep"] = "drop",
        shard: tuple[int, int] | Literal["process"] | None = None,
    ):
        if not isinstance(arrays, Mapping):
            raise TrainingError(
                "Batches needs arrays by name",
                expected="a dict by the names of the network's arguments",
                got=type(arrays).__name__,
                fix="Batches({'data': x, 'softmax_label': y}, batch_size=32).",
            )
        if isinstance(batch_size, bool) or not isinstance(batch_size, int):
            got = type(batch_size).__name__
            raise TrainingError(
                "batch_size must be a whole number", param="batch_size", expected="a whole number", got=got
            )
        self.arrays = {name: _array(name, value) for name, value in arrays.items()}
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.seed = seed
        self.last = last
        lengths = {name: array.shape[0] if array.shape else None for name, array in self.arrays.items()}
        if not lengths or None in lengths.values() or len(set(lengths.values())) > 1:
            fix = "Axis 0 of each array must be the samples, with one label for each."
            raise TrainingError(
                "These arrays cannot be cut into batches", expected="arrays of the same length", got=lengths, fix=fix
            )
        if last not in ("drop", "pad", "keep"):
            raise TrainingError("Wrong value of last", expected="'drop', 'pad' or 'keep'", got=repr(last))
        if seed < 0:
            raise TrainingError("Wrong seed", param="seed", expected="a whole number from 0 on", got=seed)
        self.num_rows = next(iter(self.arrays.values())).shape[0]
        if batch_size < 1 or len(self) < 1:
            expected = f"1 to {self.num_rows}, the number of rows"
            raise TrainingError(
                "The data are too few for one batch", param="batch_size", expected=expected, got=batch_size
            )
        self.shard = (
            (jax.process_index(), jax.process_count()) if isinstance(shard, str) and shard == "process" else shard
        )
        if self.shard is not None:
            self.shard = self._checked_shard(self.shard)

    def _checked_shard(self, shard: Any) -> tuple[int, int]:
        """Return (index, count). Raises TrainingError for anything that is not a part, and for batches that have no
        equal parts."""
        try:
            index, count = map(whole_number, shard)
        except (TypeError, ValueError):
            index, count = 0, 0
        if not 0 <= index < count:
            expected = "(index, count) with index from 0 to count - 1, or 'process'"
            raise TrainingError("Wrong shard", param="shard", expected=expected, got=cut(repr(shard), 100))
        over = self.num_rows % self.batch_size if self.last == "keep" else 0
        if self.batch_size % count or over % count:
            raise TrainingError(
                f"A batch cannot be split into {count} equal parts",
                param="shard",
                expected=f"a multiple of {count}",
                got=f"{over} rows in the last batch" if self.batch_size % count == 0 else self.batch_size,
                fix="Use last='drop' or 'pad', which make all batches equally long, or leave out shard.",
            )
        return index, count

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return self.num_rows // self.batch_size if self.last == "drop" else -(-self.num_rows // self.batch_size)

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        return self.epoch(0)

    def epoch(self, n: int, start: int = 0) -> Iterator[dict[str, np.ndarray]]:
        """Return the batches of an epoch.

        Args:
            n: the number of the epoch, from 0 on.
            start: the number of the first batch to return.
        """
        order = self._order(n)
        index, count = self.shard or (0, 1)
        for i in range(start, len(self)):
            size = self.batch_size if self.last == "pad" else self.rows(i)
            first = i * self.batch_size + index * (size // count)
            last = first + size // count
            rows: Any = slice(first, last) if last <= self.num_rows else np.arange(first, last) % self.num_rows
            rows = rows if order is None else order[rows]
            yield {name: np.asarray(array[rows]) for name, array in self.arrays.items()}

    def rows(self, i: int) -> int:
        """Return the number of rows in batch i, over all its parts, that do not only fill it up."""
        return min(self.batch_size, self.num_rows - i * self.batch_size)

    def _order(self, n: int) -> np.ndarray | None:
        if not self.shuffle:
            return None
        # NumPy promises the bits of a bit generator for all time, but not what `permutation` makes of them.
        numbers = np.random.PCG64(np.random.SeedSequence([self.seed, n])).random_raw(self.num_rows)
        return np.argsort(numbers, kind="stable")


def _array(name: str, value: Any) -> np.ndarray:
    """Return NumPy's arrays as they are, for a file is read batch by batch; masked ones are refused."""
    if isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray):
        return value
    return np.asarray(as_array(value, name, TrainingError))
