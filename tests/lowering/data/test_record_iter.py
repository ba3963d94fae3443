"""Batches from record files and text are MXNet's; epochs depend on the seed and the epoch; Grain reads record files."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowering
from lowering import mx
from lowering.data import CSVIter, ImageRecordIter, ImageTransform, LibSVMIter, RecordFile, RecordWriter
from lowering.data.augmenter_parameters import part_of
from lowering.data.stable_draws import draws_of
from symjax_nnvm import save_arrays
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import CallError, FileError, MissingExtraError, RecordFormatError, TrainingError
from tests.goldens.records import scenarios
from tests.goldens.records.scenarios import BATCHES, CLOSE, IMAGE, LABELS
from tests.goldens.records.sources import IMAGES

GOLDENS = Path(__file__).parents[2] / "goldens" / "records"
THEIRS = np.load(GOLDENS / "batches.npz")
SEVEN: dict[str, Any] = {
    "path_imgrec": GOLDENS / "seven.rec",
    "data_shape": (3, 8, 8),
    "batch_size": 2,
    "label_width": 2,
    "preprocess_threads": 2,
}


def images(**parameters: Any) -> ImageRecordIter:
    return ImageRecordIter(**{**IMAGE, "path_imgrec": GOLDENS / "images.rec", "preprocess_threads": 2, **parameters})


def numbers(batches: Any) -> list[list[int]]:
    """Which of the seven images are in each batch."""
    return [batch["softmax_label"][:, 0].astype(int).tolist() for batch in batches]


def flat(batches: Any) -> list[int]:
    """Which of the seven images come, one after another."""
    return [number for batch in numbers(batches) for number in batch]


# -- as MXNet --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BATCHES)
def test_batches_are_mxnets(name: str):
    (batch,) = images(**BATCHES[name])
    assert batch["data"].dtype == np.dtype(BATCHES[name].get("dtype", "float32"))
    np.testing.assert_array_equal(batch["data"], THEIRS[name])
    np.testing.assert_array_equal(batch["softmax_label"], np.array(LABELS, np.float32))


@pytest.mark.parametrize("name", CLOSE)
def test_batches_that_depend_on_opencvs_version_are_close_to_mxnets(name: str):
    """Cubic interpolation and affine maps are computed otherwise by each of OpenCV's generations."""
    (batch,) = images(**CLOSE[name])
    assert np.abs(batch["data"] - THEIRS[name].astype(float)).max() <= 4


@pytest.mark.parametrize("name", scenarios.ORDERS)
def test_the_first_epochs_order_is_mxnets(name: str):
    it = ImageRecordIter(**SEVEN, **scenarios.ORDERS[name])
    theirs = json.loads((GOLDENS / "orders.json").read_text())[name]
    assert [[batch["softmax_label"].tolist(), 2 - it.rows(i)] for i, batch in enumerate(it)] == theirs
    assert len(it) == len(theirs)


def test_clear_images_have_four_channels(tmp_path: Path):
    with RecordWriter(tmp_path / "x.rec") as writer:
        writer.write_image(IMAGES["clear.png"], 0)
    given = {"path_imgrec": tmp_path / "x.rec", "data_shape": (4, 14, 15), "batch_size": 1}
    (batch,) = ImageRecordIter(**given, mean_a=1.0, std_a=2.0)
    pixels = lowering.data.decode_image(IMAGES["clear.png"], 4).transpose(2, 0, 1).astype(np.float32)
    pixels[3] = (pixels[3] - 1) / 2
    np.testing.assert_array_equal(batch["data"][0], pixels)


def test_a_mean_image_is_subtracted(tmp_path: Path):
    mean = np.random.default_rng(0).uniform(0, 255, (3, 10, 12)).astype(np.float32)
    save_arrays(tmp_path / "mean.bin", {"mean_img": mean})
    (plain,), (batch,) = images(), images(mean_img=tmp_path / "mean.bin", scale=0.5)
    np.testing.assert_array_equal(batch["data"], (plain["data"] - mean) * np.float32(0.5))
    save_arrays(tmp_path / "other.bin", {"mean_img": np.zeros(2, np.float32)})
    with pytest.raises(
        TrainingError, match=r"The file holds no mean image.*expected one array \(3, 10, 12\); got \[\(2,\)\]"
    ):
        images(mean_img=tmp_path / "other.bin")
    with pytest.raises(
        TrainingError, match="The mean image cannot be read: No such file.*ImageRecordIter makes the file"
    ):
        ImageTransform(data_shape=(3, 8, 8), mean_img=tmp_path / "none.bin")


def test_a_missing_mean_image_is_made_as_mxnet_makes_it(tmp_path: Path):
    given = {**SEVEN, **scenarios.MEAN, "batch_size": 7, "mean_img": tmp_path / "mean.bin"}
    ImageRecordIter(**given, num_parts=3, part_index=1, shuffle=True)  # every part makes that of all
    assert (tmp_path / "mean.bin").read_bytes() == (GOLDENS / "mean.bin").read_bytes()
    (tmp_path / "mean.bin").unlink()
    (made,), (again,) = ImageRecordIter(**given), ImageRecordIter(**given)
    np.testing.assert_array_equal(made["data"], THEIRS["mean image"])
    np.testing.assert_array_equal(again["data"], made["data"])


def test_angles_come_from_a_list():
    given: dict[str, Any] = {"resize": 16, "batch_size": 1, "fill_value": 0}
    turned = [next(iter(images(**given, rotate_list=[angle])))["data"] for angle in (0, 90, 270)]
    epochs = [next(images(**given, rotate_list="0,90,270").epoch(n))["data"] for n in range(20)]
    found = [[np.array_equal(epoch, one) for one in turned].index(True) for epoch in epochs]
    assert set(found) == {0, 1, 2}


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("csv", lambda: CSVIter("CSV", (2, 2), 3)),
        ("csv with labels", lambda: CSVIter("CSV", (4,), 2, label_csv="CSV_LABELS", label_shape=(2,))),
        ("libsvm", lambda: LibSVMIter("LIBSVM", (3,), 3)),
        ("libsvm with labels", lambda: LibSVMIter("LIBSVM", (3,), 2, label_libsvm="LIBSVM_LABELS", label_shape=(3,))),
    ],
)
def test_text_is_read_as_mxnet_reads_it(name: str, make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for text in ("CSV", "CSV_LABELS", "LIBSVM", "LIBSVM_LABELS"):
        Path(text).write_text(getattr(scenarios, text))
    batches = make()
    theirs = json.loads((GOLDENS / "text.json").read_text())[name]
    assert len(batches) == len(theirs)
    for i, (batch, (data, labels, padding)) in enumerate(zip(batches, theirs, strict=True)):
        np.testing.assert_array_equal(batch["data"], np.float32(data))
        np.testing.assert_array_equal(batch["softmax_label"], np.float32(labels))
        assert batches.batch_size - batches.rows(i) == padding


# -- epochs ----------------------------------------------------------------------------------------------------------


def test_an_epoch_is_a_function_of_the_seed_and_its_number():
    random = {"shuffle": True, "rand_crop": True, "rand_mirror": True, "brightness": 0.3, "batch_size": 3}
    it = images(**random, seed=4)
    first = [list(it.epoch(n)) for n in (0, 1)]
    again = images(**random, seed=4, preprocess_threads=1, prefetch_buffer=0)
    for n in (1, 0):
        for ours, theirs in zip(again.epoch(n), first[n], strict=True):
            np.testing.assert_array_equal(ours["data"], theirs["data"])
    np.testing.assert_array_equal(next(iter(it.epoch(1, 1)))["data"], first[1][1]["data"])
    others = [*images(**random, seed=5), *images(**random, seed=4, seed_aug=7)]
    assert not any(np.array_equal(batch["data"], other["data"]) for batch in first[0] for other in others)
    kept_order = next(iter(images(**random, seed=4, seed_aug=7)))["softmax_label"]
    np.testing.assert_array_equal(kept_order, first[0][0]["softmax_label"])


def test_a_sample_is_drawn_alike_in_whatever_part_it_is():
    random = {**SEVEN, "rand_crop": True, "rand_mirror": True, "batch_size": 7}
    (whole,) = ImageRecordIter(**random)
    (part,) = ImageRecordIter(**random, num_parts=2, part_index=1, round_batch=False)
    np.testing.assert_array_equal(part["data"], whole["data"][4:])


def test_shuffled_parts_hold_each_image_once():
    parts = [ImageRecordIter(**SEVEN, num_parts=2, part_index=i, shuffle=True, round_batch=False) for i in (0, 1)]
    orders = [[flat(part.epoch(n)) for part in parts] for n in range(3)]
    assert all(sorted(order[0]) == [0, 1, 2, 3] and sorted(order[1]) == [4, 5, 6] for order in orders)
    assert len({str(order) for order in orders}) == 3
    assert [part.num_rows for part in parts] == [4, 3]


@pytest.mark.parametrize(("count", "num_parts"), [(0, 1), (7, 3), (2, 5), (9, 3)])
def test_parts_are_all_there_is(count: int, num_parts: int):
    assert [i for part in range(num_parts) for i in part_of(count, num_parts, part)] == list(range(count))


def test_deviation_each_epoch_begins_with_the_first_image_and_a_last_batch_may_be_short():
    filled = ImageRecordIter(**SEVEN)
    assert [numbers(filled.epoch(n)) for n in (0, 1)] == [[[0, 1], [2, 3], [4, 5], [6, 0]]] * 2
    short = ImageRecordIter(**SEVEN, round_batch=False)
    assert numbers(short) == [[0, 1], [2, 3], [4, 5], [6]]
    assert [short.rows(i) for i in range(len(short))] == [2, 2, 2, 1]


def test_labels_come_from_a_list(tmp_path: Path):
    lines = [f"{i}\t{10 * i}\t{i}\t5\tx.png\n" for i in range(8)]
    (tmp_path / "other.lst").write_text("".join(lines))
    batch = next(iter(ImageRecordIter(**SEVEN, path_imglist=tmp_path / "other.lst")))
    assert batch["softmax_label"].tolist() == [[0, 0], [10, 1]]
    one = {**SEVEN, "label_width": 1}
    assert next(iter(ImageRecordIter(**one, path_imglist=tmp_path / "other.lst")))["softmax_label"].tolist() == [0, 10]
    (tmp_path / "few.lst").write_text("".join(lines[:1]))
    with pytest.raises(
        TrainingError, match=r"Record 1 of .*seven\.rec has no label. Add a line .* the image's number, 1"
    ):
        list(ImageRecordIter(**SEVEN, path_imglist=tmp_path / "few.lst"))
    with pytest.raises(TrainingError, match="expected 9 labels; got 3 of image 0 in .*few.lst"):
        ImageRecordIter(**{**SEVEN, "label_width": 9}, path_imglist=tmp_path / "few.lst")


def test_a_loop_that_ends_early_leaves_nothing_behind():
    it = ImageRecordIter(**SEVEN, prefetch_buffer=2)
    for _ in range(50):
        epoch = it.epoch(0)
        next(epoch)
        epoch.close()  # type: ignore[attr-defined]


@pytest.mark.slow("compiles")
def test_trainers_take_it():
    net = sym.FullyConnected(sym.Flatten(sym.Variable("data")), num_hidden=4, name="fc")
    net = sym.SoftmaxOutput(net, name="softmax")
    it = images(mean_r=128, mean_g=128, mean_b=128, scale=1 / 128, batch_size=3, shuffle=True)
    trainer = lowering.Trainer(net, "sgd", {"learning_rate": 0.1})
    trainer.init(0, data=(3, 3, 10, 12))
    assert trainer.fit(it, epochs=30, metrics=["accuracy"], progress=False)["accuracy"][-1] == 1
    assert trainer.evaluate(it, ["accuracy"])["accuracy"] == 1
    (probabilities,) = trainer.predict(it)
    assert probabilities.shape == (4, 4)  # without what fills the last batch


# -- random steps ------------------------------------------------------------------------------------------------------

RANDOM: dict[str, dict[str, Any]] = {
    "crop": {"rand_crop": True},
    "crop size": {"min_crop_size": 8, "max_crop_size": 15, "rand_crop": True},
    "resized crop": {"random_resized_crop": True, "min_random_area": 0.3, "max_aspect_ratio": 0.2},
    "rotation": {"max_rotate_angle": 20},
    "shear": {"max_shear_ratio": 0.3},
    "scale": {"min_random_scale": 0.9, "max_random_scale": 1.5},
    "aspect ratio": {"max_aspect_ratio": 0.3},
    "brightness": {"brightness": 0.4},
    "contrast": {"contrast": 0.4},
    "saturation": {"saturation": 0.4},
    "hue": {"random_h": 30, "random_s": 30, "random_l": 30},
    "pca": {"pca_noise": 0.2},
    "contrast of numbers": {"max_random_contrast": 0.3},
    "illumination": {"max_random_illumination": 20},
    "interpolation": {"resize": 13, "inter_method": 10},
    "mirror": {"rand_mirror": True},
}  # fmt: skip


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", RANDOM)
def test_random_steps_change_images_within_bounds(name: str):
    (plain,) = images(resize=RANDOM[name].get("resize", -1))
    seen = [next(images(**RANDOM[name]).epoch(n))["data"] for n in range(6)]
    assert all(batch.shape == plain["data"].shape for batch in seen)
    assert len({batch.tobytes() for batch in seen}) > 1
    assert all(np.isfinite(batch).all() for batch in seen)
    assert np.mean([np.abs(batch - plain["data"]).mean() for batch in seen]) < 90


def test_random_mirrors_are_half_of_the_images():
    record = RecordFile(GOLDENS / "images.rec")[0]
    transform = ImageTransform(data_shape=(3, 10, 12), rand_mirror=True)
    plain = ImageTransform(data_shape=(3, 10, 12))(record)["data"]
    rng = np.random.default_rng(0)
    mirrored = [transform(record, rng)["data"] for _ in range(200)]
    assert {a.tobytes() for a in mirrored} == {plain.tobytes(), np.ascontiguousarray(plain[..., ::-1]).tobytes()}
    assert 70 < sum(np.array_equal(a, plain) for a in mirrored) < 130


def test_random_crops_reach_every_place():
    record = RecordFile(GOLDENS / "images.rec")[0]  # 20 × 28
    pixels = RecordFile(GOLDENS / "images.rec").image(0).transpose(2, 0, 1)
    transform = ImageTransform(data_shape=(3, 18, 26), rand_crop=True, dtype="uint8")
    rng = np.random.default_rng(0)
    assert {transform(record, rng)["data"].tobytes() for _ in range(150)} == {
        np.ascontiguousarray(pixels[:, y : y + 18, x : x + 26]).tobytes() for y in range(3) for x in range(3)
    }


def test_draws_are_the_same_everywhere():
    """Numbers of NumPy's bit generators, which it promises; not of its functions, which it does not."""
    draws = draws_of(1, 2, 3)
    assert [draws.whole(0, 99) for _ in range(8)] == [67, 11, 51, 35, 70, 47, 71, 38]
    assert draws.shuffled(5) == [0, 2, 1, 4, 3]
    values = [draws.normal(2.0) for _ in range(4000)]
    assert abs(np.mean(values)) < 0.1
    assert abs(np.std(values) - 2) < 0.1


# -- what is refused ---------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "misspelt": ({"rand_mirorr": True}, r"has no parameter \['rand_mirorr'\].*Did you mean 'rand_mirror'"),
    "augmenter": ({"aug_seq": "aug_det"}, "does not support aug_seq: there is only the augmenter"),
    "rotate_list": ({"rotate_list": "0,right"}, "'rotate_list'; expected whole degrees: '0,90,180'"),
    "data_shape": ({"data_shape": (10, 12)}, r"expected \(channels, height, width\) with 1, 3 or 4.*got \(10, 12\)"),
    "two channels": ({"data_shape": (2, 10, 12)}, r"parameter 'data_shape'"),
    "inter_method": ({"inter_method": 5}, "parameter 'inter_method'; expected 0, 1, 2, 3, 4, 9 or 10; got 5"),
    "dtype": ({"dtype": "float16"}, "expected float32, uint8, int8; got 'float16'"),
    "a text": ({"resize": "256"}, "parameter 'resize'; expected a int; got '256'|expected a whole number"),
    "infinite": ({"mean_r": np.inf}, "parameter 'mean_r'; expected a number; got inf"),
    "std": ({"std_r": 0.0}, "expected numbers other than 0"),
    "crop sizes": ({"max_crop_size": 5}, r"parameter 'min_crop_size, max_crop_size'.*got \(-1, 5\)"),
    "large crops": ({"max_crop_size": 19, "min_crop_size": 19}, "at most 18, the shorter edge; got 19. With resize=19"),
    "areas": ({"min_random_area": 2.0}, "parameter 'min_random_area, max_random_area'"),
    "ratios": ({"max_aspect_ratio": 1.5}, "parameter 'min_aspect_ratio, max_aspect_ratio'.*ratios above 0"),
    "two crops": ({"random_resized_crop": True, "rand_crop": True}, "expected none of rand_crop, .* beside it"),
    "colours": ({"brightness": 0.1, "data_shape": (1, 8, 8)}, "expected 3 channels, for brightness"),
    "threads": ({"preprocess_threads": 0}, "preprocess_threads or prefetch_buffer is out of range"),
    "part": (
        {"num_parts": 2, "part_index": 2},
        "no such part.*got part 2 of 2. With jax.distributed use num_parts=jax",
    ),
    "empty part": (
        {"num_parts": 6, "part_index": 5},
        "There are no images in this part; got part 5 of 6. .* has 4 records",
    ),
    "batch_size": ({"batch_size": 0}, "The data are too few for one batch"),
    "label_width": ({"label_width": 2}, r"Record 0 of .* expected 2; got 1. label_width=1, or path_imglist="),
    "no alpha": ({"data_shape": (4, 8, 8)}, "Record 0 of .*, image 0, does not have 4 channels of 8 bits"),
}


@pytest.mark.parametrize(("parameters", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_wrong_parameters(parameters: dict[str, Any], message: str):
    with pytest.raises((TrainingError, CallError, RecordFormatError), match=message):
        list(images(**parameters))


def test_what_is_forgotten():
    with pytest.raises(CallError, match=r"ImageRecordIter: missing a required argument: 'batch_size'.*For example"):
        ImageRecordIter(GOLDENS / "images.rec", (3, 8, 8))  # type: ignore[call-arg]
    with pytest.raises(TrainingError, match="A random transform needs a generator.*Use Grain's random_map"):
        ImageTransform(data_shape=(3, 8, 8), rand_crop=True)(RecordFile(GOLDENS / "images.rec")[0])


def test_what_means_nothing_is_taken():
    (batch,) = images(ctx="gpu", device_id=0, verbose=False, aug_seq="aug_default", shuffle_chunk_size=64)
    np.testing.assert_array_equal(batch["data"], THEIRS["crop"])


def test_a_damaged_image_is_named(tmp_path: Path):
    with RecordWriter(tmp_path / "x.rec") as writer:
        writer.write_image(IMAGES["square.png"], 0)
        writer.write_image(b"damaged", 1, id=77)
    it = ImageRecordIter(tmp_path / "x.rec", (3, 8, 8), 1)
    with pytest.raises(RecordFormatError, match=r"Record 1 of .*x\.rec, image 77, cannot be decoded"):
        list(it)


def test_opencv_is_needed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(MissingExtraError, match=r"OpenCV.*pip install 'symjax-nnvm\[data\]'"):
        list(images())


TEXTS: dict[str, tuple[Any, str, str]] = {
    "a header": (lambda p: CSVIter(p, (2,), 1), "a,b\n1,2\n", "not a CSV .*: could not convert.*row 0.*tail -n"),
    "rows of other lengths": (lambda p: CSVIter(p, (2,), 1), "1,2\n1\n", "not a CSV file"),
    "another length": (lambda p: CSVIter(p, (3,), 1), "1,2\n", r"expected 3 numbers, for the shape \(3,\); got 2"),
    "an empty file": (lambda p: CSVIter(p, (3,), 1), "", "not a CSV file of numbers.*no data"),
    "a dtype": (lambda p: CSVIter(p, (2,), 1, dtype="float16"), "1,2\n", "expected float32, float64, int32, int64"),
    "fewer labels": (lambda p: CSVIter(p, (1,), 1, label_csv=GOLDENS / "flat.lst"), "1\n", "not a CSV file"),
    "columns from 1": (lambda p: LibSVMIter(p, (2,), 1), "1 1:1 2:1\n", r"line 1 .* from 0 to 1; got 2.*\(3,\)"),
    "no column": (lambda p: LibSVMIter(p, (2,), 1), "1 0:1\n1 x:1\n", "line 2 is not in LibSVM's format; expected `l"),
    "no value": (lambda p: LibSVMIter(p, (2,), 1), "1 1\n", r"line 1 is not in LibSVM's format.*got b'1 1\\n'"),
    "labels": (lambda p: LibSVMIter(p, (2,), 1, label_shape=(2,)), "1 1:1\n", r"Each row has one label.*label_libsvm="),
    "too large": (lambda p: LibSVMIter(p, (1 << 40,), 1), "1 1:1\n", "too large for a dense array: 1 rows.*max_bytes="),
}  # fmt: skip


@pytest.mark.parametrize(("make", "text", "message"), TEXTS.values(), ids=TEXTS.keys())
def test_damaged_text(make: Any, text: str, message: str, tmp_path: Path):
    (tmp_path / "x").write_text(text)
    with pytest.raises(TrainingError, match=message):
        make(tmp_path / "x")


def test_text_options(tmp_path: Path):
    (tmp_path / "x").write_text("1,2\n3,4\n5,6\n")
    (tmp_path / "y").write_text("1\n2\n")
    whole = CSVIter(tmp_path / "x", (2,), 2, dtype="int64", round_batch=False, data_name="x", label_name="y")
    assert [batch["x"].tolist() for batch in whole] == [[[1, 2], [3, 4]], [[5, 6]]]
    assert next(iter(whole))["y"].dtype == next(iter(whole))["x"].dtype == np.int64
    with pytest.raises(TrainingError, match="The labels do not fit the data; expected 3 rows; got 2 rows"):
        CSVIter(tmp_path / "x", (2,), 2, label_csv=tmp_path / "y")
    with pytest.raises(CallError, match="CSVIter: does not take .*For example"):
        CSVIter(tmp_path / "x", (2,), 2, header=True)  # type: ignore[call-arg]
    with pytest.raises(FileError, match="got a folder"):
        CSVIter(tmp_path, (2,), 2)
    (tmp_path / "z").write_text("0 1:1\n\n1 0:2\n2\n")
    parts = [LibSVMIter(tmp_path / "z", (2,), 1, num_parts=2, part_index=i) for i in (0, 1)]
    assert [[batch["data"].tolist() for batch in part] for part in parts] == [[[[0, 1]], [[2, 0]]], [[[0, 0]]]]


# -- Grain -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow("compiles")
def test_a_record_file_is_a_source_for_grain():
    grain = pytest.importorskip("grain", reason="the extra `data` is not installed")
    file = RecordFile(GOLDENS / "seven.rec")
    transform = ImageTransform(data_shape=(3, 8, 8), label_width=2, rand_crop=True)

    def batches(shard: slice) -> list[dict[str, np.ndarray]]:
        data = grain.MapDataset.source(file).seed(3).shuffle().random_map(transform)
        return list(data[shard].batch(2).to_iter_dataset(grain.ReadOptions(num_threads=2)))

    whole = batches(slice(None))
    assert [batch["data"].shape for batch in whole] == [(2, 3, 8, 8)] * 3 + [(1, 3, 8, 8)]
    for ours, again in zip(whole, batches(slice(None)), strict=True):
        np.testing.assert_array_equal(ours["data"], again["data"])
    halves = [flat(batches(slice(part, None, 2))) for part in (0, 1)]
    assert sorted(halves[0] + halves[1]) == sorted(flat(whole)) == list(range(7))


WORKERS = """
import os, sys
import grain
from absl import flags
from symjax_nnvm.mxnet.record_file import RecordFile

class WithProcess(grain.transforms.Map):
    def map(self, record):
        return os.getpid(), record

if __name__ == "__main__":
    flags.FLAGS(sys.argv[:1])  # Grain's own, which it reads when it starts processes
    file = RecordFile(sys.argv[1])
    sampler = grain.samplers.IndexSampler(len(file), shuffle=True, seed=0, num_epochs=1)
    loader = grain.DataLoader(data_source=file, sampler=sampler, operations=[WithProcess()], worker_count=2)
    seen = list(loader)
    print(len({process for process, _ in seen} - {os.getpid()}), sorted(r for _, r in seen) == sorted(file))
"""


@pytest.mark.nightly("four processes")
@pytest.mark.slow("starts processes")
def test_grains_workers_read_record_files(tmp_path: Path):
    """Each worker is a process, which opens the file itself."""
    pytest.importorskip("grain", reason="the extra `data` is not installed")
    program = tmp_path / "program.py"
    program.write_text(WORKERS)
    done = subprocess.run(
        [sys.executable, program, GOLDENS / "seven.rec"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.split() == ["2", "True"], done.stderr


def test_what_grain_is_given_can_be_pickled(tmp_path: Path):
    shutil.copy(GOLDENS / "seven.rec", tmp_path)
    transform = ImageTransform(data_shape=(3, 8, 8), label_width=2, rand_mirror=True)
    file, again = pickle.loads(pickle.dumps((RecordFile(tmp_path / "seven.rec"), transform)))
    one, other = (t(file[0], np.random.default_rng(5))["data"] for t in (transform, again))
    np.testing.assert_array_equal(one, other)


def test_images_are_decoded_while_batches_are_waited_for(monkeypatch: pytest.MonkeyPatch):
    """prefetch_buffer batches are begun before the first is given."""
    it = ImageRecordIter(**{**SEVEN, "preprocess_threads": 8}, prefetch_buffer=2)
    begun: list[int] = []
    sample = it._sample

    def noted(number: int, epoch: int) -> Any:
        begun.append(number)
        return sample(number, epoch)

    monkeypatch.setattr(it, "_sample", noted)
    epoch = it.epoch(0)
    next(epoch)
    until = time.monotonic() + 5
    while len(begun) < 6 and time.monotonic() < until:
        time.sleep(0.01)
    assert sorted(begun) == [0, 1, 2, 3, 4, 5]
    epoch.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "read",
    [
        lambda path: CSVIter(path, (2,), 1),
        lambda path: LibSVMIter(path, (2,), 1),
        lambda path: mx.io.CSVIter(path, (2,), batch_size=1),
    ],
    ids=["CSVIter", "LibSVMIter", "mx.io.CSVIter"],
)
def test_a_line_that_does_not_end_is_not_read_whole(read: Any, tmp_path: Path):
    with (tmp_path / "sparse").open("wb") as file:
        file.write(b"1 0:2\n" if read.__code__.co_names[0] == "LibSVMIter" else b"1,2\n")
        file.truncate(1 << 40)
    with pytest.raises(TrainingError, match=r"sparse: line 2 is too long: expected at most \d+ bytes"):
        read(tmp_path / "sparse")
