"""`RecordFile`: the records of a `.rec` file by number, read when they are used."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, overload

import numpy as np

from symjax_nnvm.errors import RecordFormatError
from symjax_nnvm.io.files import PositionedFile, StrPath, path_text
from symjax_nnvm.io.guess import require_file
from symjax_nnvm.mxnet.images import Decoder, decode_image
from symjax_nnvm.mxnet.record_format import IRHeader, read_header, read_record, unpack
from symjax_nnvm.mxnet.record_index import index_beside, make_index, read_index, save_index, whole_index
from symjax_nnvm.progress import bar


class RecordFile:
    """Reads the records of one of MXNet's `.rec` files, as a sequence: `file[i]` is the bytes of record i.

    path: the file. index: its index, default `train.idx` beside `train.rec`; a missing one is made, by reading
    the head of each record, and written, if the folder can be written to. progress: a bar on the terminal meanwhile.
    whole: an index beside the file that is of another file, or of a part of this one, is not used.

    Records come in the index's order, as MXNet's `MXIndexedRecordIO.keys` and Gluon's `RecordFileDataset` give them;
    `file[a:b]`, and any other slice, is a RecordFile of those records. A record is read only when it is used: a file of
    any size may be opened. Threads may share one; a copy that is pickled into another process opens the file there, so
    that it is a source for `grain.MapDataset` and `grain.DataLoader` as it is.

    Raises RecordFormatError for damaged records, with the byte and a remedy; ModelNotFoundError, FileError, OSError.
    """

    def __init__(self, path: StrPath, index: StrPath | None = None, *, progress: bool = True, whole: bool = False):
        require_file(path)
        self.source = PositionedFile(path)
        """The file's bytes."""
        beside = index_beside(path) if index is None else Path(path_text(index, "index"))
        self._progress = progress
        self._labels: np.ndarray | None = None
        self.index_path: Path | None = beside
        """Where the index is; None where it was made and could not be written."""
        is_there = os.path.lexists(beside)
        read = whole_index if whole and index is None else read_index
        entries = read(beside, self.source) if is_there else None
        if entries is not None:
            self.keys, self.offsets = entries
        else:
            self.offsets = make_index(self.source, progress)
            self.keys = np.arange(len(self.offsets))
            if is_there or not save_index(beside, self.offsets.tolist()):
                self.index_path = None

    @property
    def path(self) -> Path:
        """Return the path of the `.rec` file."""
        return Path(self.source.path)

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.offsets)

    @overload
    def __getitem__(self, i: slice) -> RecordFile: ...
    @overload
    def __getitem__(self, i: int | np.integer) -> bytes: ...
    def __getitem__(self, i: int | np.integer | slice) -> bytes | RecordFile:
        """Return the bytes of record i; of a slice, a RecordFile of those records. Raises IndexError past the end."""
        return self.select(i) if isinstance(i, slice) else read_record(self.source, self._offset(i))

    def __iter__(self) -> Iterator[bytes]:
        for offset in self.offsets.tolist():
            yield read_record(self.source, offset)

    def select(self, which: slice | np.ndarray) -> RecordFile:
        """Return a RecordFile of some records, in the order in which `which` numbers (int) or marks (bool) them."""
        chosen = object.__new__(type(self))
        chosen.__dict__.update(self.__dict__)
        chosen.keys, chosen.offsets = self.keys[which], self.offsets[which]
        chosen._labels = None if self._labels is None else self._labels[which]
        return chosen

    def unpack(self, i: int | np.integer) -> tuple[IRHeader, bytes]:
        """Return the header and the image's bytes of record i, as MXNet's `recordio.unpack` gives them."""
        return unpack(self[i], self._name(i))

    def header(self, i: int | np.integer) -> IRHeader:
        """The header of record i; no more of it is read."""
        return read_header(self.source, self._offset(i), self._name(i))

    def label(self, i: int | np.integer) -> float | np.ndarray:
        """Return the label of record i: a number, or an array (k,), float32."""
        return self.header(i).label

    @property
    def labels(self) -> np.ndarray:
        """Return all labels, float32: (n,), or (n, k) where each record has k. Reads every header, once.

        Raises RecordFormatError where records have different numbers of labels.
        """
        if self._labels is None:
            labels = self._of_each("reading labels", self.label)
            widths = [np.size(label) for label in labels]
            if len(set(widths)) > 1 or len({np.ndim(label) for label in labels}) > 1:
                other = next(i for i, label in enumerate(labels) if np.shape(label) != np.shape(labels[0]))
                raise RecordFormatError(
                    f"The records of {self.path} have different numbers of labels",
                    expected=f"{widths[0]}, as record 0 has",
                    got=f"{widths[other]} in record {other}",
                    fix="Use file.label(i) for the label of one record.",
                )
            self._labels = np.array(labels, np.float32)
        return self._labels

    def image(self, i: int | np.integer, channels: int = 3, decoder: Decoder | None = None) -> np.ndarray:
        """Return the image of record i, uint8 (height, width, channels): red, green, blue; 1 for grey, 4 with alpha.

        decoder: see `lowering.data.decode_image`. Raises RecordFormatError, MissingExtraError.
        """
        return decode_image(self.unpack(i)[1], channels, decoder, where=f"The image of {self._name(i)}")

    def close(self) -> None:
        """Close the file; it is opened again when a record is used."""
        self.source.close()

    def _of_each(self, what: str, read: Callable[[int], Any]) -> list[Any]:
        values = []
        with bar(f"{what} of {self.path.name}", len(self), self._progress) as advance:
            for i in range(len(self)):
                values.append(read(i))
                advance(i)
        return values

    def _offset(self, i: int | np.integer) -> int:
        number = operator.index(i)
        if not -len(self) <= number < len(self):
            raise IndexError(f"record {number} of {len(self)} in {self.path}")
        return int(self.offsets[number])

    def _name(self, i: int | np.integer) -> str:
        return f"record {operator.index(i)} of {self.path}, at byte {self._offset(i)},"

    def __repr__(self) -> str:
        return f"RecordFile({str(self.path)!r}, {len(self)} records)"
