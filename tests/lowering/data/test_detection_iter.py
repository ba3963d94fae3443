"""Batches of images with boxes are MXNet's; random steps keep boxes on their objects; wrong labels are named."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowering
from lowering.data import DetectionAugmentation, ImageDetRecordIter, RecordWriter
from lowering.data.box_augmenter import augment_detection
from lowering.data.boxes import DetectionLabel
from lowering.data.stable_draws import draws_of
from symjax_nnvm.errors import CallError, NNVMError, TrainingError
from tests.goldens.records.scenarios import DETECTION, DETECTION_LABELS, IMAGE
from tests.goldens.records.sources import IMAGES

GOLDENS = Path(__file__).parents[2] / "goldens" / "records"
THEIRS = np.load(GOLDENS / "detection.npz")


def images(folder: Path, **parameters: Any) -> ImageDetRecordIter:
    given = {**IMAGE, "path_imgrec": GOLDENS / "detection.rec", "preprocess_threads": 2, **parameters}
    if "path_imglist" in given:
        (folder / "list.lst").write_text(given["path_imglist"])
        given["path_imglist"] = folder / "list.lst"
    if "mean_img" in given:
        given["mean_img"] = folder / "mean.bin"
    return ImageDetRecordIter(**given)


# -- as MXNet --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DETECTION)
def test_batches_are_mxnets(name: str, tmp_path: Path):
    batch = next(iter(images(tmp_path, **DETECTION[name])))
    assert batch["data"].dtype == batch["softmax_label"].dtype == np.float32
    np.testing.assert_array_equal(batch["data"], THEIRS[name])
    np.testing.assert_array_equal(batch["softmax_label"], THEIRS[f"{name} label"])


def test_a_missing_mean_image_is_made_as_mxnet_makes_it(tmp_path: Path):
    for _ in range(2):  # made, and read
        images(tmp_path, **DETECTION["mean image"], num_parts=2)
        assert (tmp_path / "mean.bin").read_bytes() == (GOLDENS / "detection_mean.bin").read_bytes()


def test_means_of_channels_hold_in_the_place_of_a_mean_image(tmp_path: Path):
    given = {"mean_img": "mean", "mean_b": 9.0}
    (plain,), (both,), (image,) = (
        images(tmp_path, mean_b=9.0),
        images(tmp_path, **given),
        images(tmp_path, mean_img="mean"),
    )
    np.testing.assert_array_equal(both["data"], plain["data"])
    assert not np.array_equal(image["data"], plain["data"])


def test_deviation_labels_are_as_wide_as_the_longest_of_the_file(tmp_path: Path):
    parts = [images(tmp_path, num_parts=3, part_index=i, batch_size=1) for i in range(3)]
    assert {next(iter(part))["softmax_label"].shape for part in parts} == {(1, 26)}


# -- random steps ------------------------------------------------------------------------------------------------------

ROWS, COLUMNS = 120, 180
HEADER = np.array([2, 5], np.float32)
PLACES = np.stack([*np.meshgrid(np.arange(COLUMNS), np.arange(ROWS)), np.full((ROWS, COLUMNS), 200)], 2).astype(
    np.uint8
)
"""An image whose pixels say where they are: blue is the column, green the row."""

BOXES = np.array(
    [[0, 0.1, 0.1, 0.4, 0.5], [1, 0.5, 0.3, 0.9, 0.8], [2, 0.05, 0.6, 0.3, 0.95], [3, 0.35, 0.2, 0.6, 0.9]], np.float32
)


def augmentation(**parameters: Any) -> DetectionAugmentation:
    return DetectionAugmentation(**parameters)


def augmented(seed: int, p: DetectionAugmentation) -> tuple[np.ndarray, DetectionLabel]:
    return augment_detection(PLACES, DetectionLabel(HEADER, BOXES), p, draws_of(seed))


def region_of(image: np.ndarray) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a crop, relative to the image."""
    left, top = image[0, 0, :2]
    return left / COLUMNS, top / ROWS, (left + image.shape[1]) / COLUMNS, (top + image.shape[0]) / ROWS


def shares(region: tuple[float, ...], box: np.ndarray) -> tuple[float, float, float]:
    """What box and region share, by the area of both, of the region and of the box."""
    sides = np.minimum(region[2:], box[3:5]) - np.maximum(region[:2], box[1:3])
    shared = float(np.prod(np.maximum(sides, 0)))
    areas = (region[2] - region[0]) * (region[3] - region[1]), float(np.prod(box[3:5] - box[1:3]))
    return shared / (sum(areas) - shared), shared / areas[0], shared / areas[1]


CROPS: dict[str, Any] = {"data_shape": (3, ROWS, COLUMNS), "resize_mode": "shrink", "rand_crop_prob": 1.0}


@pytest.mark.parametrize(
    ("which", "name", "bounds"),
    [(0, "overlaps", (0.3, 0.6)), (1, "sample_coverages", (0.5, 0.9)), (2, "object_coverages", (0.2, 0.5))],
)
def test_crops_share_with_an_object_what_the_sampler_asks_for(which: int, name: str, bounds: tuple[float, float]):
    asked = {f"min_crop_{name}": bounds[0], f"max_crop_{name}": bounds[1], "min_crop_scales": 0.2}
    p = augmentation(**CROPS, **asked, max_crop_trials=500, crop_emit_mode="overlap", emit_overlap_thresh=0.1)
    crops = [augmented(seed, p)[0] for seed in range(60)]
    found = [[shares(region_of(image), box)[which] for box in BOXES] for image in crops]
    assert all(any(bounds[0] - 0.03 <= share <= bounds[1] + 0.03 for share in row) for row in found)
    assert len({image.shape for image in crops}) > 30


def test_crops_have_the_scales_and_ratios_that_are_asked_for():
    asked = {"min_crop_scales": 0.4, "max_crop_scales": 0.6, "min_crop_aspect_ratios": 0.5, "max_crop_aspect_ratios": 2}
    crops = [augmented(seed, augmentation(**CROPS, **asked))[0].shape[:2] for seed in range(100)]
    assert all(0.38 <= np.sqrt(h / ROWS * w / COLUMNS) <= 0.61 for h, w in crops)
    assert all(0.47 <= w / h <= 2.1 for h, w in crops)
    square = augmentation(**CROPS, min_crop_scales=0.3, max_crop_scales=0.6)
    assert all(abs(h - w) <= 1 for h, w in (augmented(seed, square)[0].shape[:2] for seed in range(50)))


@pytest.mark.parametrize("mode", ["center", "overlap"])
def test_an_object_stays_in_the_label_by_its_middle_or_by_its_overlap(mode: str):
    p = augmentation(**CROPS, min_crop_scales=0.3, crop_emit_mode=mode, emit_overlap_thresh=0.4)
    counts = set()
    for seed in range(100):
        image, label = augmented(seed, p)
        region = region_of(image)
        kept = set(label.objects[:, 0].astype(int))
        counts.add(len(kept))
        for number, box in enumerate(BOXES):
            middle = (box[1:3] + box[3:5]) / 2
            margin = min(*(middle - region[:2]), *(region[2:] - middle)) if mode == "center" else None
            margin = shares(region, box)[2] - 0.4 if margin is None else margin
            if abs(margin) > 0.03:  # a pixel more or less
                assert (number in kept) == (margin > 0)
    assert counts == {1, 2, 3, 4}


def test_no_crop_where_no_sampler_finds_one():
    p = augmentation(**CROPS, min_crop_overlaps=0.999, max_crop_scales=0.3)
    image, label = augmented(0, p)
    np.testing.assert_array_equal(image, PLACES)
    np.testing.assert_array_equal(label.objects, BOXES)
    nothing = DetectionLabel(HEADER, np.zeros((0, 5), np.float32))
    assert augment_detection(PLACES, nothing, p, draws_of(0))[0].shape != PLACES.shape  # a crop needs no object then


def test_each_sampler_comes_first_at_times():
    asked = {"num_crop_sampler": 3, "min_crop_scales": (0.2, 0.5, 0.8), "max_crop_scales": [0.3, 0.6, 0.9]}
    p = augmentation(**CROPS, **asked, crop_emit_mode="overlap", emit_overlap_thresh=0.0)
    scales = [np.sqrt(np.prod(augmented(seed, p)[0].shape[:2]) / (ROWS * COLUMNS)) for seed in range(150)]
    found = np.histogram(scales, [0.15, 0.35, 0.65, 0.95])[0]
    assert found.sum() == 150
    assert found.min() > 25


def test_objects_stay_where_their_boxes_are(tmp_path: Path):
    """A red rectangle is where its box says after a crop, a border, a mirror and a change of size."""
    pixels = np.zeros((200, 300, 3), np.uint8)
    pixels[60:140, 90:210, 0] = 255
    with RecordWriter(tmp_path / "x.rec") as writer:
        writer.write_image(lowering.data.encode_image(pixels, ".png"), np.array([2, 6, 5, 0.3, 0.3, 0.7, 0.7, 0.25]))
    random = {"rand_crop_prob": 0.6, "rand_pad_prob": 0.6, "rand_mirror_prob": 0.5, "max_pad_scale": 3.0}
    random |= {"min_crop_scales": 0.5, "min_crop_aspect_ratios": 0.5, "max_crop_aspect_ratios": 2.0}
    it = images(
        tmp_path, path_imgrec=tmp_path / "x.rec", data_shape=(3, 100, 100), batch_size=1, inter_method=0, **random
    )
    seen = set()
    for n in range(80):
        (batch,) = it.epoch(n)
        (number, *box, extra) = batch["softmax_label"][0, 6:].tolist()
        assert (number, extra) == (5, 0.25)
        ys, xs = np.nonzero(batch["data"][0, 0] == 255)
        np.testing.assert_allclose(box, np.array([xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]) / 100, atol=0.03)
        seen.add(tuple(np.round(box, 2)))
    assert len(seen) > 60


@pytest.mark.slow("computes much")
def test_borders_are_as_large_as_their_scale():
    p = augmentation(data_shape=(3, 900, 900), resize_mode="shrink", rand_pad_prob=0.5, max_pad_scale=4.0)
    padded = [augmented(seed, p) for seed in range(100)]
    scales = np.array([image.shape[0] / ROWS for image, _ in padded])
    assert 30 < (scales > 1).sum() < 70
    assert 3.5 < scales.max() <= 4
    for image, label in padded:
        box = label.objects[0, 1:] * np.tile(np.array(image.shape[1::-1]), 2)
        assert abs(box[2] - box[0] - 0.3 * COLUMNS) < 4
        assert (image == 127).all(2).sum() >= image.shape[0] * image.shape[1] - ROWS * COLUMNS


@pytest.mark.parametrize("name", ["hue", "saturation", "illumination", "contrast"])
def test_colours_change_by_chance_and_within_bounds(name: str):
    grey = np.full((4, 4, 3), [100, 120, 140], np.uint8)
    label = DetectionLabel(HEADER, BOXES)
    most = 0.5 if name == "contrast" else 20
    p = augmentation(data_shape=(3, 4, 4), **{f"random_{name}_prob": 0.5, f"max_random_{name}": most})
    seen = [augment_detection(grey, label, p, draws_of(seed))[0] for seed in range(200)]
    assert 60 < sum(not np.array_equal(image, grey) for image in seen) < 130
    lightness = [(int(image.max()) + int(image.min())) / 2 / 120 for image in seen]
    low, high = {"contrast": (0.5, 1.5), "illumination": (100 / 120, 140 / 120)}.get(name, (1, 1))
    assert low - 0.02 <= min(lightness) <= low + 0.1
    assert high - 0.1 <= max(lightness) <= high + 0.02
    never = augmentation(data_shape=(3, 4, 4), **{f"max_random_{name}": most})
    assert not never.random
    np.testing.assert_array_equal(augment_detection(grey, label, never, draws_of(0))[0], grey)


def test_what_is_drawn_depends_on_the_seed_and_the_epoch(tmp_path: Path):
    random = {"rand_mirror_prob": 0.5, "rand_pad_prob": 0.5, "max_pad_scale": 2.0, "shuffle": True}
    one, other, again = (images(tmp_path, **random, seed=seed, preprocess_threads=seed) for seed in (1, 2, 1))
    first, second, third = (next(it.epoch(3))["data"] for it in (one, other, again))
    np.testing.assert_array_equal(first, third)
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, next(one.epoch(4))["data"])


def test_one_mirror_of_all_draws_nothing():
    assert not augmentation(data_shape=(3, 8, 8), rand_mirror_prob=1.0, random_hue_prob=1.0).random
    assert augmentation(data_shape=(3, 8, 8), rand_mirror_prob=0.9).random


# -- what is refused ---------------------------------------------------------------------------------------------------

NO_LABELS: dict[str, tuple[list[float], str]] = {
    "short": ([2, 5, 0, 0.1, 0.1, 0.2], "6 numbers, but needs at least 7"),
    "a class alone": ([3.0], "1 numbers"),
    "header": ([1, 5, 0, 0.1, 0.1, 0.2, 0.2], "a header of 1 numbers"),
    "long header": ([8, 5, 0, 0.1, 0.1, 0.2, 0.2], "a header of 8 numbers"),
    "object": ([2, 4, 0, 0.1, 0.1, 0.2, 0.2, 1], "objects of 4 numbers"),
    "no number": ([2, np.nan, 0, 0.1, 0.1, 0.2, 0.2, 1], "objects of 0 numbers"),
    "remainder": (
        [2, 5, 0, 0.1, 0.1, 0.2, 0.2, 1],
        "6 numbers after the header, which is not a multiple of an object's 5",
    ),
}


@pytest.mark.parametrize(("label", "message"), NO_LABELS.values(), ids=NO_LABELS.keys())
def test_a_record_without_a_label_for_detection_is_named(label: list[float], message: str, tmp_path: Path):
    with RecordWriter(tmp_path / "x.rec") as writer:
        writer.write_image(IMAGES["square.png"], np.array(DETECTION_LABELS[0]))
        writer.write_image(IMAGES["square.png"], np.array(label))
    with pytest.raises(TrainingError, match=rf"Record 1 of .*x.rec has no label for detection: it has {message}"):
        list(ImageDetRecordIter(tmp_path / "x.rec", (3, 8, 8), 2))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "misspelt": ({"rand_mirror": True}, r"ImageDetRecordIter has no parameter \['rand_mirror'\]"),
    "augmenter": ({"aug_seq": "aug_default"}, "ImageDetRecordIter does not support aug_seq: .* det_aug_default"),
    "emit": ({"crop_emit_mode": "centre"}, "'crop_emit_mode'; expected 'center' or 'overlap'; got 'centre'"),
    "resize": ({"resize_mode": "fill"}, "'resize_mode'; expected 'force' or 'shrink' or 'fit'"),
    "dtype": ({"dtype": "uint8"}, "'dtype'; expected float32"),
    "thresh": ({"emit_overlap_thresh": -0.1}, "'emit_overlap_thresh'"),
    "samplers": ({"num_crop_sampler": 2, "min_crop_scales": (0.1, 0.2, 0.3)}, "one for each of num_crop_sampler=2"),
    "a text": ({"min_crop_scales": "0.1"}, "'min_crop_scales'; expected a number"),
    "scales": ({"min_crop_scales": 1.0}, "0 ≤ the first < the second ≤ 1, in sampler 0"),
    "overlaps": ({"min_crop_overlaps": 2.0}, "the first at most the second, in sampler 0"),
    "colours": ({"random_hue_prob": 0.5, "data_shape": (1, 8, 8)}, "expected 3 channels, for random_hue_prob"),
    "label_width": ({"label_width": 7}, r"Record 1 of .*does not have label_width labels.*expected 7; got 22"),
    "label_pad_width": ({"label_pad_width": 21}, "'label_pad_width'; expected 22; got 21"),
    "part": ({"num_parts": 2, "part_index": 2}, "no such part"),
    "threads": ({"preprocess_threads": 0}, "preprocess_threads or prefetch_buffer"),
    "channels": ({"data_shape": (4, 8, 8)}, "Record 0 of .*, image 0, does not have 4 channels of 8 bits"),
}


@pytest.mark.parametrize(("parameters", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_wrong_parameters(parameters: dict[str, Any], message: str, tmp_path: Path):
    with pytest.raises((NNVMError, CallError), match=message):
        list(images(tmp_path, **parameters))
