"""`mx.recordio`: record files written and read one record after another, or by the keys of an index.

The bytes are MXNet's, and a file has its place from the moment it is opened for writing; `lowering.data.RecordWriter`
has it take its place whole.
"""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from lowering.messages.counts import check_count
from lowering.mx.shared_arguments import explained_by
from symjax_nnvm.errors import CallError, NNVMError, ParamError, RecordFormatError, listed
from symjax_nnvm.io.files import GrowingFile, PositionedFile, StrPath, bounded_lines, open_regular, path_text
from symjax_nnvm.io.guess import require_file
from symjax_nnvm.mxnet.images import decode_flagged, encode_image, swap_red_and_blue
from symjax_nnvm.mxnet.record_format import IRHeader as IRHeader
from symjax_nnvm.mxnet.record_format import end_of_record, frame, read_record
from symjax_nnvm.mxnet.record_format import pack as pack
from symjax_nnvm.mxnet.record_format import unpack as unpack

_LONGEST_LINE = 4096
"""Bytes of a line of an index, at most: keys may be text."""

_FORMATS = {".jpg": ".jpg", ".jpeg": ".jpg", ".png": ".png"}


class RecordModeError(NNVMError, AssertionError):
    """A record file that is written to while it is open for reading, or the other way round."""


class RecordKeyError(NNVMError, KeyError):
    """A key that an index lacks."""


class RecordProcessError(NNVMError, RuntimeError):
    """A record file that is closed, or was opened by another process."""


class MXRecordIO:
    """A record file that is read or written from its first record to its last.

    Pickling closes it; the copy opens the file again if this one was open.

    Args:
        uri: the file's path.
        flag: "r" to read, "w" to write a new file.

    Raises:
        CallError: an argument has the wrong type.
        RecordFormatError: the file is malformed.
        ModelNotFoundError: there is no such file.
        MissingFolderError: the folder does not exist.
        FileError: the path is not a regular file.
        OSError: the file cannot be read or written.
        RecordModeError: a file opened to read is written, or the other way round.
        RecordProcessError: another process opened the file.
    """

    def __init__(self, uri: StrPath, flag: str):
        self.uri = path_text(uri, "uri")
        self.flag = flag
        self.pid: int | None = None
        self.is_open = False
        self.open()

    def open(self) -> None:
        """Open the file at its first record; a file to write is emptied."""
        if self.flag not in ("w", "r"):
            raise ParamError(f"Invalid flag {self.flag}", expected="'r' or 'w'", got=repr(self.flag))
        self.writable = self.flag == "w"
        self._at = 0
        if self.writable:
            self._open_files()
        else:
            require_file(self.uri)
            self._source = PositionedFile(self.uri)
            _ = self._source.size  # an error now, and not at the first record
        self.pid = os.getpid()
        self.is_open = True

    def _open_files(self) -> None:
        """Open what is written to."""
        self._records = GrowingFile(self.uri)

    def _close_files(self) -> None:
        """Close what was written to."""
        self._records.close()

    def __del__(self) -> None:
        if getattr(self, "is_open", False):
            self.close()

    def __getstate__(self) -> dict[str, Any]:
        was_open = self.is_open
        self.close()
        hidden = {"_records", "_source"}
        return {name: value for name, value in self.__dict__.items() if name not in hidden} | {"is_open": was_open}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, is_open=False)
        if state["is_open"]:
            self.open()

    def _check_process(self, *, reset: bool = False) -> None:
        """Raise RecordProcessError in a process that has not opened the file, or open it there."""
        if self.pid == os.getpid():
            return
        if not reset:
            problem = "Forbidden operation in multiple processes" if self.is_open else "The record file is closed"
            raise RecordProcessError(problem, fix="reset() opens the file in this process, at its first record.")
        self.reset()

    def close(self) -> None:
        """Close the file, if this process opened it."""
        if not self.is_open:
            return
        self.is_open, self.pid = False, None
        if self.writable:
            self._close_files()
        else:
            self._source.close()

    def reset(self) -> None:
        """Go back to the first record; a file to write is emptied."""
        self.close()
        self.open()

    def write(self, buf: bytes) -> None:
        """Write a record."""
        if not self.writable:
            raise RecordModeError(f"{self.uri} is open for reading", fix="MXRecordIO(path, 'w') opens it for writing.")
        self._check_process()
        if not isinstance(buf, bytes | bytearray | memoryview):
            raise CallError("A record must be bytes", got=type(buf).__name__, fix="text.encode() gives bytes.")
        framed = frame(bytes(buf))
        self._records.write(framed)
        self._at += len(framed)

    def read(self) -> bytes | None:
        """Return the next record; None at the end of the file."""
        if self.writable:
            raise RecordModeError(f"{self.uri} is open for writing", fix="MXRecordIO(path, 'r') opens it for reading.")
        self._check_process()
        if self._at >= self._source.size:
            return None
        record = read_record(self._source, self._at)
        self._at = end_of_record(self._source, self._at)
        return record


@explained_by(MXRecordIO)
class MXIndexedRecordIO(MXRecordIO):
    """A record file with an index, whose records are read in any order.

    A forked process opens the file for itself when it reads a record by its key. Raises what MXRecordIO raises.

    Args:
        idx_path: the path of the index, with lines of a key, a tab and the byte at which the key's record begins.
        key_type: makes a key of the text in the index.

    Raises:
        RecordKeyError: the index does not have a key; the error is a KeyError, too.
    """

    def __init__(self, idx_path: StrPath, uri: StrPath, flag: str, key_type: Callable[[Any], Any] = int):
        self.idx_path = path_text(idx_path, "idx_path")
        if not callable(key_type):
            raise CallError(
                "key_type must convert text to a key", expected="int, str, or a function of a text", got=repr(key_type)
            )
        self.idx: dict[Any, int] = {}
        self.keys: list[Any] = []
        self.key_type = key_type
        self.fidx: GrowingFile | None = None
        super().__init__(uri, flag)

    def open(self) -> None:
        """Open both files; the index is read, or emptied."""
        self.idx, self.keys, self.fidx = {}, [], None
        super().open()
        if self.writable:
            return
        with open_regular(self.idx_path) as file:
            for number, line in enumerate(bounded_lines(file, _LONGEST_LINE, RecordFormatError), 1):
                fields = line.decode("utf-8", "surrogateescape").strip().split("\t")
                try:
                    key, offset = self.key_type(fields[0]), int(fields[1])
                    if not 0 <= offset < 1 << 63:
                        raise ValueError
                except (ValueError, IndexError):
                    raise RecordFormatError(
                        f"{self.idx_path}: line {number} is not a key, a tab and the byte of a record",
                        got=repr(line[:64]),
                        fix="Remove it; lowering.data.RecordFile(uri, idx_path) then makes one, with keys from 0.",
                    ) from None
                self.idx[key] = offset
                self.keys.append(key)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "fidx": None}

    def _open_files(self) -> None:
        with ExitStack() as opened:
            self.fidx = opened.enter_context(GrowingFile(self.idx_path))
            super()._open_files()
            opened.pop_all()

    def _close_files(self) -> None:
        super()._close_files()
        if self.fidx is not None:
            self.fidx.close()

    def seek(self, idx: Any) -> None:
        """Go to the record of a key: `read()` reads it."""
        if self.writable:
            raise RecordModeError(f"{self.uri} is open for writing", fix="Open it with 'r' to read records.")
        self._check_process(reset=True)
        self._at = self._place(idx)

    def _place(self, idx: Any) -> int:
        """Return the byte at which a key's record begins. Raises RecordKeyError."""
        try:
            return self.idx[idx]
        except (KeyError, TypeError):
            problem = f"{self.idx_path} has no record under the key {idx!r:.100}"
            kind = getattr(self.key_type, "__name__", repr(self.key_type))
            expected = f"one of {listed(self.keys, 10)}, which key_type={kind} made from the text of the index"
            raise RecordKeyError(problem, expected=expected) from None

    def tell(self) -> int:
        """Return the byte at which the next record will be written."""
        if not self.writable:
            raise RecordModeError(
                f"{self.uri} is open for reading", fix="Use idx, which maps each key to the position of its record."
            )
        return self._at

    def read_idx(self, idx: Any) -> bytes | None:
        """Return the record of a key; several threads may read at once."""
        self.seek(idx)
        offset = self._place(idx)  # and not the file's own position: another thread may have moved it
        if offset >= self._source.size:
            return None
        record = read_record(self._source, offset)
        self._at = end_of_record(self._source, offset)
        return record

    def write_idx(self, idx: Any, buf: bytes) -> None:
        """Write a record under a key."""
        position = self.tell()
        try:
            key = self.key_type(idx)
        except (TypeError, ValueError) as error:
            problem, fix = f"key_type cannot convert {idx!r:.100} to a key: {error}", "key_type=str takes text as keys."
            raise ParamError(problem, param="idx", fix=fix) from error
        self.write(buf)
        assert self.fidx is not None
        self.fidx.write(f"{key}\t{position}\n".encode("utf-8", "surrogateescape"))
        self.idx[key] = position
        self.keys.append(key)


def unpack_img(s: bytes, iscolor: int = -1) -> tuple[IRHeader, np.ndarray]:
    """Return the header and the image of a record: uint8 (height, width, 3 or 4) in blue, green, red, or (height,
    width).

    Args:
        s: the record.
        iscolor: 0 for grey, 1 for 3 channels, -1 for the channels that the image has.

    Raises:
        RecordFormatError: the record is not an image.
        MissingExtraError: neither OpenCV nor Pillow is installed.
    """
    check_count(iscolor, "iscolor", least=-1)
    header, data = unpack(s)
    return header, decode_flagged(data, iscolor, "The image in the record")


def pack_img(header: Any, img: np.ndarray, quality: int = 95, img_fmt: str = ".jpg") -> bytes:
    """Return a record of a header and an image.

    Args:
        header: the header, or its four fields as a tuple.
        img: uint8 (height, width, 3) in blue, green, red, or (height, width) grey.
        quality: the quality of a JPEG, 1 to 100; the compression of a PNG, 1 to 9.
        img_fmt: ".jpg" or ".png".

    Raises:
        RecordFormatError: the image cannot be encoded.
        CallError: an argument has the wrong type.
        MissingExtraError: neither OpenCV nor Pillow is installed.
    """
    if not isinstance(quality, numbers.Integral):
        expected = "1 to 100 of a JPEG, 1 to 9 of a PNG"
        raise CallError("quality must be a whole number", param="quality", expected=expected, got=repr(quality))
    if not isinstance(img_fmt, str):
        raise CallError(
            "img_fmt must be a file name's ending", param="img_fmt", expected="'.jpg' or '.png'", got=repr(img_fmt)
        )
    image = np.asarray(img)
    image = image[..., None] if image.ndim == 2 else image
    image = swap_red_and_blue(image) if image.ndim == 3 and image.shape[2] in (3, 4) else image
    return pack(header, encode_image(image, _FORMATS.get(img_fmt.lower(), img_fmt), quality))
