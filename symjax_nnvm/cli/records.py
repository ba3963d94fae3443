"""Record files (.rec), MXNet's data sets of images: what is in one, is it whole, and make one from a folder or a list.

`list FILE` shows the first records; `verify FILE` reads all, exit code 1 when one is damaged; `make FILE SOURCE` writes
one from a folder, whose subfolders are the classes, or from a list of images (.lst), as MXNet's im2rec does. An index
(.idx) that is missing is made.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from symjax_nnvm.cli.argument_types import COUNT, file_path, whole
from symjax_nnvm.cli.console import note, print_json, print_table, show
from symjax_nnvm.cli.model_argument import make_folder
from symjax_nnvm.errors import CallError, RecordFormatError, plain_list, printable
from symjax_nnvm.mxnet.record_file import RecordFile
from symjax_nnvm.mxnet.record_format import unpack
from symjax_nnvm.mxnet.record_index import index_beside, make_index
from symjax_nnvm.mxnet.record_lists import list_images, read_list, write_list, write_records
from symjax_nnvm.progress import bar

_COLUMNS = ("key", "id", "label", "holds", "record", "byte", "bytes")
_SIGNATURES = ((b"\xff\xd8\xff", "JPEG"), (b"\x89PNG", "PNG"), (b"GIF8", "GIF"), (b"BM", "BMP"), (b"RIFF", "WebP"))
_MOST_PROBLEMS = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: the action, the file, and the options."""
    parser.add_argument("action", choices=tuple(_ACTIONS), metavar="ACTION", help="list, verify or make")
    parser.add_argument("file", type=file_path, metavar="FILE", help="the record file (.rec)")
    parser.add_argument("source", type=file_path, nargs="?", metavar="SOURCE", help="make: a folder, or a list (.lst)")
    parser.add_argument("--index", type=file_path, help="its index; default the same name with .idx")
    parser.add_argument("--count", type=COUNT, default=10, help="list: how many records; default 10")
    parser.add_argument("--decode", action="store_true", help="verify: decode every image, too")
    making = parser.add_argument_group("make")
    making.add_argument("--root", type=file_path, help="folder of a list's images; default that of the list")
    making.add_argument("--resize", type=whole(1, 65535), default=0, help="length of the shorter edge")
    making.add_argument("--center-crop", action="store_true", help="cut images to the square in their middle")
    making.add_argument("--channels", type=int, choices=(1, 3, 4), default=3, help="1: grey, 4: with alpha")
    making.add_argument(
        "--encoding", choices=(".jpg", ".png"), default=".jpg", help="format of the images; default .jpg"
    )
    making.add_argument(
        "--quality", type=whole(1, 100), default=95, help="of JPEG, 1 to 100; compression of PNG, 1 to 9; default 95"
    )
    making.add_argument("--pass-through", action="store_true", help="files as they are, not decoded")
    making.add_argument("--pack-label", action="store_true", help="all labels of a line, not only the first")
    making.add_argument("--skip-broken", action="store_true", help="leave out images that cannot be read")
    making.add_argument("--no-shuffle", action="store_true", help="a folder's images in the order of their names")


def run(options: argparse.Namespace) -> int:
    """Do it."""
    if options.action == "make" and options.source is None:
        raise CallError("records make needs a FILE and a SOURCE: symjax-nnvm records make train.rec images/")
    if options.action != "make" and options.source is not None:
        raise CallError(f"records {options.action} takes one FILE: {options.source} is one too many.")
    if options.action == "make" and options.index is not None:
        raise CallError("records make writes the index beside FILE, with the ending .idx: leave --index out.")
    return _ACTIONS[options.action](options)


def _list(options: argparse.Namespace) -> int:
    file = RecordFile(options.file, options.index)
    rows = [_described(file, i) for i in range(min(len(file), options.count))]
    if options.json:
        print_json({"records": len(file), "shown": rows})
        return 0
    print_table(_COLUMNS, [[_cell(row[name]) for name in _COLUMNS] for row in rows], right=3)
    hidden = len(file) - len(rows)
    show(f"records: {len(file)}" + (f", {hidden} not shown (--count)" if hidden else ""))
    return 0


def _described(file: RecordFile, i: int) -> dict[str, Any]:
    """Return a row of the table; a record of something else than an image has no id and no label."""
    record = file[i]
    where = {"key": int(file.keys[i]), "record": i, "byte": int(file.offsets[i]), "bytes": len(record)}
    try:
        header, data = unpack(record)
    except RecordFormatError:
        return {**where, "id": None, "label": None, "holds": None}
    kind = next((name for start, name in _SIGNATURES if data.startswith(start)), None)
    return {**where, "id": header.id, "label": np.asarray(header.label).tolist(), "holds": kind}


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return plain_list((f"{label:g}" for label in value), most=4)
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _verify(options: argparse.Namespace) -> int:
    problems: list[str] = []
    counts: dict[str, Any] = {"records": 0, "bytes": 0, "without_header": 0}
    try:
        file = RecordFile(options.file, options.index)
        counts["records"] = len(file)
        with bar(f"reading {options.file.name}", len(file)) as advance:
            for i in range(len(file)):
                advance(i)
                try:
                    _count(file, i, counts, options.decode)
                except RecordFormatError as error:
                    problems.append(str(error))
        begun = make_index(file.source)
        counts["not_in_the_index"] = int(np.setdiff1d(begun, file.offsets).size)
    except RecordFormatError as error:
        problems.append(str(error))
    problems = list(dict.fromkeys(problems))
    if options.json:
        print_json(counts | {"problems": problems})
        return int(bool(problems))
    for problem in problems[:_MOST_PROBLEMS]:
        show(printable(problem))
    more = len(problems) - _MOST_PROBLEMS
    notes = [f"{more} more problems"] if more > 0 else []
    notes += [f"{counts['without_header']} without the header of an image"] if counts["without_header"] else []
    notes += [f"{counts['not_in_the_index']} not in the index"] if counts.get("not_in_the_index") else []
    what = f"{len(problems)} damaged" if problems else "whole" + (", and every image can be decoded" * options.decode)
    read = f"{printable(str(options.file))}: {counts['records']} records, {counts['bytes']} bytes in them"
    show("; ".join([f"{read}: {what}", *notes]))
    return int(bool(problems))


def _count(file: RecordFile, i: int, counts: dict[str, Any], decode: bool) -> None:
    """Read a record. Raises RecordFormatError for one that is damaged, or, with `decode`, is not an image."""
    record = file[i]
    counts["bytes"] += len(record)
    if decode:
        file.image(i)
        return
    try:
        unpack(record)
    except RecordFormatError:
        counts["without_header"] += 1


def _make(options: argparse.Namespace) -> int:
    of_folder = options.source.is_dir()
    if of_folder:
        rows, root = list_images(options.source, shuffle=not options.no_shuffle), options.source
    else:
        rows, root = read_list(options.source), options.root or options.source.parent
    written = [options.file, index_beside(options.file)]
    make_folder(options.file)
    how = ("resize", "center_crop", "channels", "encoding", "quality", "pass_through", "pack_label", "skip_broken")
    left_out = write_records(options.file, rows, root, **{name: getattr(options, name) for name in how})
    if of_folder:
        written.append(written[1].with_suffix(".lst"))
        write_list(written[-1], rows)
    if options.json:
        described = {
            "files": [str(path) for path in written],
            "records": len(rows) - len(left_out),
            "left_out": left_out,
        }
        print_json(described)
        return 0
    for line in left_out:
        show(printable(f"left out: {line}"))
    note(f"written: {plain_list(written)}; {len(rows) - len(left_out)} records")
    return 0


_ACTIONS = {"list": _list, "verify": _verify, "make": _make}
