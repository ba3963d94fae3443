"""Make the record files that MXNet 1.9.1 writes, and the batches that it reads from them. Run by hand in MXNet's
environment.

mxnet-env/bin/python -m tests.goldens.records.make
"""

import gc
import json
import os
import runpy
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import mxnet as mx  # type: ignore[import-not-found]
import numpy as np

from tests.goldens.make import save
from tests.goldens.records import scenarios
from tests.goldens.records.sources import IMAGES

HERE = Path(__file__).parent


def write(name: str, records: list[bytes], keys: list[int]) -> None:
    """A record file and its index."""
    writer = mx.recordio.MXIndexedRecordIO(str(HERE / f"{name}.idx"), str(HERE / f"{name}.rec"), "w")
    for key, record in zip(keys, records, strict=True):
        writer.write_idx(key, record)
    writer.close()


def packed(label: Any, number: int, data: bytes) -> bytes:
    """A record of an image."""
    return mx.recordio.pack(mx.recordio.IRHeader(0, label, number, 0), data)


def batches_of(**parameters: Any) -> list[Any]:
    """The batches of the first epoch; MXNet's iterator has then read ahead, and is not used again."""
    return list(mx.io.ImageRecordIter(verbose=False, **parameters))


def image_batches() -> dict[str, np.ndarray]:
    """Name → the batch; whole numbers as bytes."""
    arrays = {}
    for name, parameters in (scenarios.BATCHES | scenarios.CLOSE).items():
        given = {**scenarios.IMAGE, "path_imgrec": str(HERE / "images.rec"), **parameters}
        data = batches_of(**given)[0].data[0].asnumpy()
        whole = data.dtype == np.float32 and np.array_equal(data, data.astype(np.uint8))
        arrays[name] = data.astype(np.uint8) if whole else data
    mean = HERE / "mean.bin"
    mean.unlink(missing_ok=True)
    seven = batches_of(path_imgrec=str(HERE / "seven.rec"), batch_size=7, mean_img=str(mean), **scenarios.MEAN)
    return arrays | {"mean image": seven[0].data[0].asnumpy()}


def detection() -> dict[str, np.ndarray]:
    """Name and a name with "label" → the first batch."""
    arrays = {}
    mean = HERE / "detection_mean.bin"
    mean.unlink(missing_ok=True)
    for name, parameters in scenarios.DETECTION.items():
        given = {**scenarios.IMAGE, "path_imgrec": str(HERE / "detection.rec"), **parameters}
        with tempfile.NamedTemporaryFile("w", suffix=".lst") as listed:
            listed.write(given.get("path_imglist", ""))
            listed.flush()
            if "path_imglist" in given:
                given["path_imglist"] = listed.name
            if "mean_img" in given:
                given["mean_img"] = str(mean)
            batch = next(mx.io.ImageDetRecordIter(verbose=False, **given))
        arrays[name], arrays[f"{name} label"] = batch.data[0].asnumpy(), batch.label[0].asnumpy()
        gc.collect()
    return arrays


def orders() -> dict[str, Any]:
    """Name → [labels, padding] of each batch, by two labels an image."""
    found = {}
    for name, parameters in scenarios.ORDERS.items():
        files = {"path_imgrec": str(HERE / "seven.rec"), "path_imgidx": str(HERE / "seven.idx")}
        batches = batches_of(data_shape=(3, 8, 8), batch_size=2, label_width=2, **files, **parameters)
        found[name] = [[batch.label[0].asnumpy().tolist(), batch.pad] for batch in batches]
    return found


def im2rec(*arguments: str) -> None:
    """MXNet's tool; what it does here needs no OpenCV, which it imports."""
    tool = Path(mx.recordio.__file__).parent / "tools" / "im2rec.py"
    with mock.patch.object(sys, "argv", ["im2rec.py", *arguments]), mock.patch.dict(sys.modules, cv2=ModuleType("cv2")):
        runpy.run_path(str(tool), run_name="__main__")
    gc.collect()  # the tool leaves its files open


def packed_folder() -> None:
    """A folder as a list, in order and not, and as a record file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, data in scenarios.FOLDER.items():
            (folder / "root" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "root" / path).write_bytes(data)
        root = str(folder / "root")
        im2rec(str(folder / "flat"), root, "--list")
        im2rec(str(folder / "ordered"), root, "--list", "--recursive", "--no-shuffle")
        im2rec(str(folder / "packed"), root, "--list", "--recursive")
        im2rec(str(folder / "packed"), root, "--pass-through")
        for path in ("flat.lst", "ordered.lst", "packed.lst", "packed.rec", "packed.idx"):
            shutil.copy(folder / path, HERE / path)


def text() -> dict[str, Any]:
    """Name → [data, labels, padding] of each batch."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in ("CSV", "CSV_LABELS", "LIBSVM", "LIBSVM_LABELS"):
            Path(name).write_text(getattr(scenarios, name))
        iterators = {
            "csv": mx.io.CSVIter(data_csv="CSV", data_shape=(2, 2), batch_size=3),
            "csv with labels": mx.io.CSVIter(
                data_csv="CSV", data_shape=(4,), label_csv="CSV_LABELS", label_shape=(2,), batch_size=2
            ),
            "libsvm": mx.io.LibSVMIter(data_libsvm="LIBSVM", data_shape=(3,), batch_size=3),
            "libsvm with labels": mx.io.LibSVMIter(
                data_libsvm="LIBSVM", data_shape=(3,), label_libsvm="LIBSVM_LABELS", label_shape=(3,), batch_size=2
            ),
        }
        return {
            name: [
                [batch.data[0].asnumpy().tolist(), batch.label[0].asnumpy().tolist(), batch.pad] for batch in batches
            ]
            for name, batches in iterators.items()
        }


def main() -> None:
    """Write all files."""
    write("payloads", scenarios.PAYLOADS, scenarios.KEYS)
    headers = [mx.recordio.pack(mx.recordio.IRHeader(*header), b"data") for header in scenarios.HEADERS]
    write("headers", headers, list(range(len(headers))))
    images = [packed(scenarios.LABELS[i], i, IMAGES[name]) for i, name in enumerate(scenarios.JPEGS)]
    write("images", images, list(range(4)))
    tiny = IMAGES["square.png"]
    write("seven", [packed([float(i), i + 0.5], i, tiny) for i in range(7)], [10 * i for i in range(7)])
    rows = zip(scenarios.DETECTION_LABELS, scenarios.JPEGS, strict=True)
    write("detection", [packed(label, i, IMAGES[name]) for i, (label, name) in enumerate(rows)], list(range(4)))
    save(HERE / "detection.npz", detection())
    packed_folder()
    save(HERE / "batches.npz", image_batches())
    (HERE / "orders.json").write_text(json.dumps(orders()) + "\n", encoding="utf-8")
    (HERE / "text.json").write_text(json.dumps(text()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
