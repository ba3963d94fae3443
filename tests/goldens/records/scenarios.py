"""What the record files' goldens hold, read by who makes them in MXNet and by the tests."""

import struct
from typing import Any

from tests.goldens.records.sources import IMAGES

MAGIC = struct.pack("<I", 0xCED7230A)

PAYLOADS: list[bytes] = [
    b"",
    b"a",
    b"four",
    b"no multiple of 4.",
    MAGIC,
    MAGIC * 3,
    b"1234" + MAGIC + b"5",
    b"12" + MAGIC + b"not at a multiple of 4",
    MAGIC + b"at the start, and at the end: " + b"  " + MAGIC,
    MAGIC[:3] + MAGIC[3:] + MAGIC[:3],
    bytes(range(256)),
]
"""Records of any bytes, the magic number where it splits them and where it does not."""

KEYS = [3, 1, 4, 15, 9, 2, 6, 5, 35, 8, 97]

HEADERS: list[tuple[Any, ...]] = [
    (0, 3.5, 7, 0),
    (5, 1, 2**63, 2**40),
    (0, [1.0, -2.5, 3e38], 12, 1),
    (0, [0.25], 0, 0),
    (0, float("nan"), 1, 0),
]
"""(flag, label, id, id2) as `recordio.pack` is given them, before the data b"data"."""

JPEGS = ("wide.jpg", "high.jpg", "square.png", "turned.jpg")
LABELS = [2.0, 0.0, 3.0, 1.0]

IMAGE = {"data_shape": (3, 10, 12), "batch_size": 4}
BATCHES: dict[str, dict[str, Any]] = {
    "crop": {},
    "upscaled": {"data_shape": (3, 24, 26)},
    "resize": {"resize": 14},
    "nearest": {"resize": 14, "inter_method": 0},
    "area": {"resize": 13, "inter_method": 3},
    "lanczos": {"resize": 17, "inter_method": 4},
    "by the sizes": {"resize": 13, "inter_method": 9},
    "mirror": {"mirror": True},
    "pad": {"pad": 3, "fill_value": 9, "data_shape": (3, 22, 20)},
    "crop size": {"max_crop_size": 15, "min_crop_size": 15},
    "quarter turn": {"rotate": 90},
    "uint8": {"dtype": "uint8"},
    "int8": {"dtype": "int8", "mean_r": 123.5, "mean_g": 116.28, "mean_b": 103.53},
    "grey": {"data_shape": (1, 10, 12)},
    "normalised": {"mean_r": 123.68, "mean_g": 116.28, "mean_b": 103.53, "std_r": 58.4, "std_g": 57.1, "std_b": 57.4},
    "scaled": {"mean_r": 10.0, "scale": 0.0078125, "resize": 14, "mirror": True},
}
"""Name → parameters of ImageRecordIter beside IMAGE; none of them random."""

MEAN: dict[str, Any] = {"scale": 0.3, "mirror": True, "std_r": 1.7, "data_shape": (3, 8, 8), "label_width": 2}
"""Parameters of the iterator over the seven images that makes `mean.bin`."""

CLOSE: dict[str, dict[str, Any]] = {
    "cubic": {"resize": 14, "inter_method": 2},
    "rotate": {"rotate": 30, "fill_value": 7},
    "rotate list": {"rotate_list": "30", "fill_value": 7},
    "random scale": {"max_random_scale": 1.3, "min_random_scale": 1.3},
    "aspect ratio": {"max_aspect_ratio": 1.25, "min_aspect_ratio": 1.25},
}
"""As BATCHES; of these another version of OpenCV gives other bytes, a few units apart."""

ORDERS: dict[str, dict[str, Any]] = {
    "whole": {},
    "part 0 of 2": {"num_parts": 2, "part_index": 0},
    "part 1 of 2": {"num_parts": 2, "part_index": 1},
    "part 1 of 3": {"num_parts": 3, "part_index": 1},
}
"""Name → parameters; seven images in batches of 2: which come in which batch, and how many fill the last."""

DETECTION_LABELS: list[list[float]] = [
    [2, 5, 1, 0.1, 0.2, 0.5, 0.6],
    [4, 6, 9, 8, 0, 0.25, 0.0, 1.0, 0.7, 1, 3, 0.5, 0.5, 0.5, 0.9, 0, 2, 0.3, 0.1, 0.4, 0.3, 1],
    [2, 5, 0, 0.0, 0.0, 1.0, 1.0, 2, 0.2, 0.6, 0.3, 0.9],
    [7, 5, 1, 2, 3, 4, 5],
]
"""Labels of the JPEGS for detection: objects of 5 and 6 numbers, one whose box has no area, and a header alone."""

DETECTION_LIST = "".join(
    "\t".join([str(i), "2", "5", *(f"{0.1 * k:.2f}" for k in range(5 * (i + 1))), f"{i}.jpg"]) + "\n" for i in range(5)
).replace("0.20\t0.30\t0.40", "0.20\t0.80\t0.90")

DETECTION: dict[str, dict[str, Any]] = {
    "force": {},
    "shrink": {"resize_mode": "shrink", "data_shape": (3, 20, 24)},
    "fit": {"resize_mode": "fit", "data_shape": (3, 32, 35), "mean_r": 5.0, "scale": 0.5},
    "resize": {"resize": 14},
    "nearest": {"inter_method": 0},
    "area": {"inter_method": 3},
    "lanczos": {"inter_method": 4, "data_shape": (3, 25, 25)},
    "by the sizes": {"inter_method": 9},
    "mirror": {"rand_mirror_prob": 1.0},
    "grey": {"data_shape": (1, 10, 12), "mean_r": 3.0, "std_g": 7.0},
    "normalised": {"mean_r": 123.68, "mean_g": 116.28, "std_r": 58.4, "std_b": 57.4, "scale": 0.3},
    "a mean below 0": {"mean_r": -5.0},
    "wide labels": {"label_pad_width": 40, "label_pad_value": 7.5},
    "list": {"path_imglist": DETECTION_LIST, "label_width": -1},
    "list of a width": {"path_imglist": DETECTION_LIST, "label_width": 7},
    "mean image": {"mean_img": "mean", "scale": 0.3, "std_r": 1.7},
    "part 0 of 3": {"num_parts": 3, "part_index": 0, "label_pad_width": 30, "batch_size": 2},
    "part 1 of 3": {"num_parts": 3, "part_index": 1, "label_pad_width": 30, "batch_size": 2},
    "part 2 of 3": {"num_parts": 3, "part_index": 2, "label_pad_width": 30, "batch_size": 2},
}
"""Name → parameters of ImageDetRecordIter beside IMAGE; a path_imglist is the list's text. None of them random."""

FOLDER = {
    "cats/b.jpg": IMAGES["wide.jpg"],
    "cats/a.JPG": IMAGES["high.jpg"],
    "dogs/c.png": IMAGES["square.png"],
    "dogs/old/d.jpeg": IMAGES["turned.jpg"],
    "dogs/notes.txt": b"no image",
    "e.jpg": IMAGES["wide.jpg"],
}
"""The files of a folder that im2rec.py lists, and packs as they are."""

CSV = "1,2,3,4\n5,6,7,8.5\n-1e3, 2 ,nan,4\n9,9,9,9\n"
CSV_LABELS = "0,1\n1,2\n2,3\n3,4\n"
LIBSVM = "1.0 0:0.5 2:1.2\n-2.0\n-3.0 0:0.6 1:2.4 2:1.2\n4 2:-1.2\n"
LIBSVM_LABELS = "1.0\n-2.0 0:0.125\n-3.0 2:1.2\n4 1:1.0 2:-1.2\n"
