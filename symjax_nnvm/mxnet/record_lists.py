"""Record files from lists of images (`.lst`), as MXNet's `im2rec` makes them; and such lists from folders.

A line of a list is the image's number, its labels and its path below a root, with tabs between.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from symjax_nnvm.errors import NNVMError, RecordFormatError
from symjax_nnvm.io.files import StrPath, read_bounded, write_file
from symjax_nnvm.mxnet.images import decode_bgr, decode_image, encode_image, opencv
from symjax_nnvm.mxnet.record_format import MAX_RECORD
from symjax_nnvm.mxnet.record_writer import RecordWriter
from symjax_nnvm.progress import bar

SUFFIXES = (".jpeg", ".jpg", ".png")
_MAX_LIST = 1 << 30
_SEED = 100
"""The seed of im2rec's random order."""


class ImageRow(NamedTuple):
    """A line of a list. id: the image's number. labels: one or several. path: below the root."""

    id: int
    labels: tuple[float, ...]
    path: str


def list_images(
    root: StrPath, recursive: bool = True, shuffle: bool = True, suffixes: Sequence[str] = SUFFIXES
) -> list[ImageRow]:
    """Return the images of a folder, as `im2rec --list` lists them: numbered by name, then in its random order.

    recursive: those of all folders below, too; the label is then the number of the folder, in the order of their names,
    and 0 otherwise. Raises RecordFormatError where there is none.
    """
    rows: list[ImageRow] = []
    classes: dict[str, int] = {}
    for folder, folders, files in os.walk(root, followlinks=True):
        folders.sort()
        for name in sorted(files):
            path = os.path.join(folder, name)
            if os.path.splitext(name)[1].lower() in suffixes and os.path.isfile(path):
                label = classes.setdefault(folder, len(classes)) if recursive else 0
                rows.append(ImageRow(len(rows), (float(label),), os.path.relpath(path, root)))
        if not recursive:
            break
    if not rows:
        kinds = ", ".join(suffixes)
        raise RecordFormatError(f"There are no images in {os.fspath(root)}", expected=f"files that end in {kinds}")
    if shuffle:
        random.Random(_SEED).shuffle(rows)
    return rows


def write_list(path: StrPath, rows: Iterable[ImageRow]) -> None:
    """Write a list. Raises RecordFormatError for a path that no line can hold, FileError, OSError."""
    lines = []
    for row in rows:
        if set("\t\n\r") & set(row.path):
            raise RecordFormatError(
                f"{row.path!r} cannot be written to a list: it contains a tab or a line's end. Rename it."
            )
        lines.append("\t".join((str(row.id), *(f"{label:f}" for label in row.labels), row.path)) + "\n")
    write_file(path, "".join(lines))


def read_list(path: StrPath) -> list[ImageRow]:
    """Return the lines of a list. Raises RecordFormatError for a list that is malformed, FileError, OSError."""
    data = read_bounded(path, _MAX_LIST, "a list of images", RecordFormatError)
    rows = []
    for i, line in enumerate(data.decode("utf-8", "surrogateescape").split("\n"), 1):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.strip().split("\t")]
        try:
            number, labels = int(fields[0]), tuple(float(field) for field in fields[1:-1])
            if not labels or not fields[-1] or "\0" in fields[-1] or not all(map(math.isfinite, labels)):
                raise ValueError
        except ValueError:
            raise RecordFormatError(
                f"{os.fspath(path)}: line {i} is not a line of an image list",
                expected="a whole number, one or more numbers as labels, and a path, with tabs between",
                got=repr(line[:200]),
            ) from None
        rows.append(ImageRow(number, labels, fields[-1]))
    return rows


def write_records(
    path: StrPath,
    rows: Sequence[ImageRow],
    root: StrPath,
    *,
    pass_through: bool = False,
    resize: int = 0,
    center_crop: bool = False,
    channels: int = 3,
    encoding: str = ".jpg",
    quality: int = 95,
    pack_label: bool = False,
    skip_broken: bool = False,
    progress: bool = True,
) -> list[str]:
    """Write a record file and its index from images in files below `root`, in the order of the list, as `im2rec`.

    pass_through: files as they are, which loses nothing and needs no decoder; else images are decoded, cut to the
    square in their middle (center_crop), their shorter side made `resize` long (0: left as it is), and encoded as
    `encoding`, ".jpg" or ".png", with `quality`. pack_label: all labels of a row, not only the first. skip_broken:
    what cannot be read or decoded is left out. Returns a line for each image that was left out.

    Raises RecordFormatError, MissingExtraError, FileError, OSError; nothing is written then.
    """
    if not rows:
        raise RecordFormatError(f"There is no image for {os.fspath(path)}: the list is empty.")
    left_out = []
    with RecordWriter(path) as writer, bar(f"writing {Path(path).name}", len(rows), progress) as advance:
        for i, row in enumerate(rows):
            try:
                data = read_bounded(os.path.join(root, row.path), MAX_RECORD, "a record", RecordFormatError)
                if not pass_through:
                    data = _encoded(data, row.path, resize, center_crop, channels, encoding, quality)
            except (RecordFormatError, OSError) as error:
                if not skip_broken:
                    raise _broken(row, error) from error
                left_out.append(f"{row.path}: {error}")
                continue
            labels = np.array(row.labels, np.float32)
            writer.write_image(data, labels if pack_label and labels.size > 1 else labels.item(0), row.id)
            advance(i)
    return left_out


def _encoded(
    data: bytes, path: str, resize: int, center_crop: bool, channels: int, encoding: str, quality: int
) -> bytes:
    if not (resize or center_crop):
        return encode_image(decode_image(data, channels, where=path), encoding, quality)
    image = decode_bgr(data, channels, path)
    height, width = image.shape[:2]
    if center_crop:
        side = min(height, width)
        top, left = (height - side) // 2, (width - side) // 2
        image = image[top : top + side, left : left + side]
        height = width = side
    if resize:
        size = (resize, height * resize // width) if height > width else (width * resize // height, resize)
        image = opencv().resize(image, size)
    return encode_image(image.reshape(*image.shape[:2], channels)[..., _SWAPPED[channels]], encoding, quality)


_SWAPPED: dict[int, Any] = {1: slice(None), 3: [2, 1, 0], 4: [2, 1, 0, 3]}


def _broken(row: ImageRow, error: NNVMError | OSError) -> RecordFormatError:
    reason = str(error) if isinstance(error, NNVMError) else f"{error.strerror or error}."
    fix = "skip_broken=True (--skip-broken) leaves such images out."
    return RecordFormatError(f"Image {row.id} of the list, {row.path}: {reason} {fix}")
