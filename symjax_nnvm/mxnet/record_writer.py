"""`RecordWriter`: a `.rec` file and its index, byte for byte as MXNet's `MXIndexedRecordIO` writes them."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import numpy as np

from symjax_nnvm.errors import CallError
from symjax_nnvm.io.files import StrPath, atomic_writes
from symjax_nnvm.mxnet.images import encode_image
from symjax_nnvm.mxnet.record_format import IRHeader, frame, pack
from symjax_nnvm.mxnet.record_index import index_beside, index_line


class RecordWriter:
    """Writes records one after another; both files take their places, whole, when the `with` block ends.

        with RecordWriter("train.rec") as writer:
            writer.write_image(jpeg, label=3)

    path: the file. index: its index, default `train.idx` beside `train.rec`. A block that raises changes nothing.
    Raises CallError outside of the block; RecordFormatError, FileError, OSError.
    """

    def __init__(self, path: StrPath, index: StrPath | None = None):
        self._paths = (Path(path), index_beside(path) if index is None else Path(index))
        if self._paths[0] == self._paths[1]:
            raise CallError(f"{path} is its own index. Name the file .rec: its index is the same name with .idx.")
        self._stack: ExitStack | None = None
        self._count = self._position = 0

    def __enter__(self) -> RecordWriter:
        self._stack = ExitStack()
        self._records, self._index = self._stack.enter_context(atomic_writes(*self._paths))
        self._count = self._position = 0
        return self

    def __exit__(self, *error: object) -> None:
        stack, self._stack = self._stack, None
        assert stack is not None
        stack.__exit__(*error)  # pyright: ignore[reportArgumentType]

    def __len__(self) -> int:
        """Return the number of records written so far."""
        return self._count

    def write(self, record: bytes, key: int | None = None) -> int:
        """Write a record; the byte at which it begins. key: its key in the index, default how many there were."""
        if self._stack is None:
            raise CallError("Use RecordWriter in a block: with RecordWriter(path) as writer: writer.write(data).")
        position, framed = self._position, frame(record)
        self._records.write(framed)
        self._index.write(index_line(self._count if key is None else key, position))
        self._position += len(framed)
        self._count += 1
        return position

    def write_image(
        self, image: bytes | np.ndarray, label: float | np.ndarray, id: int | None = None, *, quality: int = 95
    ) -> int:
        """Write an image with its label, a number or an array of several; the byte at which its record begins.

        image: a file's bytes, which are written as they are, or pixels, uint8 (height, width, 3) in red, green, blue,
        which become a JPEG. id: the image's number and key, default how many records there were.
        """
        data = encode_image(image, quality=quality) if isinstance(image, np.ndarray) else image
        number = self._count if id is None else id
        return self.write(pack(IRHeader(0, label, number, 0), data), number)
