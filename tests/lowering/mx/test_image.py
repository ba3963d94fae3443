"""`mx.image`: what MXNet makes of the same images with the same seeds, without OpenCV, and what is refused."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowering import mx
from lowering.mx.image import pixels
from lowering.mx.image.iterator import BrokenImageError
from symjax_nnvm.errors import MissingExtraError, missing_extra
from symjax_nnvm.mxnet import images
from tests.goldens.image import scenarios
from tests.goldens.records.sources import IMAGES

GOLDENS = Path(__file__).parents[2] / "goldens" / "image"

IMAGE = np.random.default_rng(2).integers(0, 256, (13, 17, 3)).astype(np.uint8)


def without_opencv(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if OpenCV were not installed."""

    def missing() -> Any:
        raise missing_extra("This needs OpenCV", "data")

    monkeypatch.setattr(pixels, "opencv", missing)
    monkeypatch.setattr(images, "opencv", missing)


def nd(values: Any) -> mx.nd.NDArray:
    values = np.asarray(values)
    return mx.nd.array(values, dtype=values.dtype)


# -- as MXNet --------------------------------------------------------------------------------------------------------


def compare(most: Callable[[str], float]) -> None:
    """Hold every scenario against MXNet's result; most: name → the largest difference that there may be."""
    with np.load(GOLDENS / "values.npz") as archive:
        stored = dict(archive)
    names = []
    for name, value in scenarios.arrays(mx):
        expected = stored[name]
        names.append(name)
        assert (value.shape, value.dtype) == (expected.shape, expected.dtype), name
        difference = np.abs(value.astype(np.float64) - expected).max() if value.size else 0
        assert difference <= most(name), f"{name}: {difference}"
    assert sorted(names) == sorted(stored)


@pytest.mark.slow("computes much")
def test_every_scenario_is_mxnets():
    # The cubic interpolation of bytes is not the same in all versions of OpenCV.
    compare(lambda name: 1 if name.startswith("resized uint8 2") else 1e-3)


@pytest.mark.slow("computes much")
def test_without_opencv_every_scenario_is_mxnets(monkeypatch: pytest.MonkeyPatch):
    without_opencv(monkeypatch)
    # Pillow's grey of a PNG is rounded otherwise.
    compare(lambda name: 1 if name.startswith("decoded") and ".png 0" in name else 1e-3)


def test_augmenters_dump_what_mxnets_dump():
    stored = json.loads((GOLDENS / "texts.json").read_text())
    assert json.loads(json.dumps(scenarios.texts(mx))) == stored


def test_img_is_the_same_module_and_has_mxnets_modules():
    assert mx.img is mx.image
    assert mx.image.image.imread is mx.image.imread
    assert mx.image.det is mx.image.detection
    with pytest.raises(AttributeError, match=r"mx.image has no 'imdecod'. Did you mean.*imdecode"):
        mx.image.imdecod  # noqa: B018


# -- decoding --------------------------------------------------------------------------------------------------------


def test_images_are_read_from_files(tmp_path: Path):
    (tmp_path / "a.png").write_bytes(IMAGES["square.png"])
    image = mx.image.imread(str(tmp_path / "a.png"))
    assert (image.dtype, image.shape) == (np.uint8, (16, 16, 3))
    assert np.array_equal(image.asnumpy(), mx.image.imdecode(bytearray(IMAGES["square.png"])).asnumpy())
    from_array = mx.image.imdecode(np.frombuffer(IMAGES["square.png"], np.uint8), to_rgb=False).asnumpy()
    assert np.array_equal(from_array, image.asnumpy()[..., ::-1])
    out = mx.nd.zeros((16, 16, 3), dtype="uint8")
    assert mx.image.imdecode(nd(np.frombuffer(IMAGES["square.png"], np.uint8)), out=out) is out
    assert np.array_equal(out.asnumpy(), image.asnumpy())


def test_what_is_no_image_is_told(tmp_path: Path):
    for data, words in ((b"", "empty buffer"), (b"nonsense", "cannot be decoded")):
        with pytest.raises(mx.MXNetError, match=words):
            mx.image.imdecode(data)
    with pytest.raises(mx.MXNetError, match="No such file"):
        mx.image.imread(tmp_path / "nowhere.jpg")
    with pytest.raises(ValueError, match="buf must be of type bytes"):
        mx.image.imdecode("text")
    with pytest.raises(mx.MXNetError, match="flag"):
        mx.image.imdecode(IMAGES["square.png"], flag=-1)
    with pytest.raises(mx.MXNetError, match="out= does not fit"):
        mx.image.imdecode(IMAGES["square.png"], out=mx.nd.zeros((16, 16, 3)))


def test_a_missing_decoder_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    without_opencv(monkeypatch)

    def missing() -> Any:
        raise missing_extra("Images need OpenCV or Pillow", "data")

    monkeypatch.setattr(images, "_pillow", missing)
    with pytest.raises(MissingExtraError, match=r"symjax-nnvm\[data\]"):
        mx.image.imdecode(IMAGES["square.png"])


# -- sizes -----------------------------------------------------------------------------------------------------------


def test_sizes_that_cannot_be_are_refused():
    for call in (
        lambda: mx.image.imresize(nd(IMAGE), 0, 4),
        lambda: mx.image.imresize(nd(IMAGE), 4, 4, interp=9),
        lambda: mx.image.imresize(nd(IMAGE[0]), 4, 4),
        lambda: mx.image.imresize(nd(IMAGE[:0]), 4, 4),
        lambda: mx.image.imresize(nd(IMAGE), 4, 4, out=mx.nd.zeros((4, 4, 3))),
        lambda: mx.image.copyMakeBorder(nd(IMAGE), 1, 1, 1, 1, 7),
        lambda: mx.image.copyMakeBorder(nd(IMAGE), -1, 1, 1, 1),
        lambda: mx.image.resize_short(nd(IMAGE), 5, 11),
        lambda: mx.image.random_size_crop(nd(IMAGE), (4, 4), 0.5, (1, 1), area_range=1),
    ):
        with pytest.raises(mx.MXNetError):
            call()


def test_images_are_not_written_by_what_cuts_and_resizes():
    image = nd(IMAGE)
    for part in (mx.image.fixed_crop(image, 0, 0, 5, 4), mx.image.imresize(image, 4, 4)):
        part[:] = 0
    assert np.array_equal(image.asnumpy(), IMAGE)


def test_old_names_of_parameters_warn():
    with pytest.warns(DeprecationWarning, match="min_area"):
        mx.image.random_size_crop(nd(IMAGE), (4, 4), None, (1, 1), min_area=0.3)
    with pytest.warns(DeprecationWarning, match="min_area"):
        augmenter = mx.image.RandomSizedCropAug((4, 4), None, (1, 1), min_area=0.3)
    assert augmenter(nd(IMAGE)).shape == (4, 4, 3)
    with pytest.raises(mx.MXNetError, match="unexpected"):
        mx.image.RandomSizedCropAug((4, 4), 0.3, (1, 1), least=0.3)


def test_rotations_that_cannot_be_are_refused():
    image = mx.nd.zeros((3, 4, 5))
    for error, call in (
        (ValueError, lambda: mx.image.imrotate(image, 3, zoom_in=True, zoom_out=True)),
        (TypeError, lambda: mx.image.imrotate(image, mx.nd.array([1, 2]))),
        (TypeError, lambda: mx.image.imrotate(image.astype("float16"), 3)),
        (ValueError, lambda: mx.image.imrotate(image[0], 3)),
        (ValueError, lambda: mx.image.imrotate(image.expand_dims(0), mx.nd.array([1, 2]))),
    ):
        with pytest.raises(error):
            call()


# -- augmenters and iterators ----------------------------------------------------------------------------------------


def test_augmenters_that_cannot_be_are_refused():
    for call in (
        lambda: mx.image.CreateAugmenter((3, 4, 4), rand_resize=True),
        lambda: mx.image.CreateAugmenter((3, 4, 4), mean=[1, 2, 3]),
        lambda: mx.image.CreateMultiRandCropAugmenter([0.1, 0.2], max_attempts=[1, 2, 3]),
    ):
        with pytest.raises(mx.MXNetError):
            call()
    with pytest.raises(TypeError, match="Borrowing"):
        mx.image.DetBorrowAug(mx.image.DetHorizontalFlipAug(0.5))  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="DetAugmenter in list"):
        mx.image.DetRandomSelectAug([mx.image.CastAug()])
    for kind, area in ((mx.image.DetRandomCropAug, (0.5, 0.2)), (mx.image.DetRandomPadAug, (0.5, 1.0))):
        with pytest.warns(UserWarning, match="invalid area_range"):
            augmenter = kind(area_range=area)
        label = np.array([[0, 0.1, 0.1, 0.9, 0.9]])
        assert augmenter(IMAGE, label) == (IMAGE, label)
    with pytest.raises(NotImplementedError):
        mx.image.Augmenter()(IMAGE)
    with pytest.raises(NotImplementedError):
        mx.image.DetAugmenter()(IMAGE, np.zeros((1, 5)))


def rows(folder: Path, labels: Any) -> list[Any]:
    """A list of the images, which are written."""
    for name in scenarios.NAMES:
        (folder / name).write_bytes(IMAGES[name])
    return [[label, name] for label, name in zip(labels, scenarios.NAMES, strict=True)]


def test_iterators_that_cannot_be_are_refused(tmp_path: Path):
    given = {"imglist": rows(tmp_path, range(4)), "path_root": str(tmp_path)}
    for error, parameters in (
        (mx.MXNetError, {"imglist": None}),
        (mx.MXNetError, {"dtype": "uint8"}),
        (mx.MXNetError, {"last_batch_handle": "keep"}),
        (mx.MXNetError, {"num_parts": 2, "part_index": 2}),
        (ValueError, {"data_shape": (1, 4, 4)}),
        (ValueError, {"data_shape": (4, 4)}),
    ):
        with pytest.raises(error):
            mx.image.ImageIter(**{"batch_size": 2, "data_shape": (3, 4, 4), **given, **parameters})
    (tmp_path / "a.lst").write_text("0\t1\ta.jpg\nno\t1\tb.jpg\n")
    with pytest.raises(ValueError, match="line 2"):
        mx.image.ImageIter(2, (3, 4, 4), path_imglist=str(tmp_path / "a.lst"))
    mx.recordio.MXRecordIO(tmp_path / "a.rec", "w").close()
    with pytest.raises(mx.MXNetError, match="path_imgidx="):
        mx.image.ImageIter(2, (3, 4, 4), path_imgrec=str(tmp_path / "a.rec"), shuffle=True)


def test_a_broken_image_is_named(tmp_path: Path):
    imglist = rows(tmp_path, range(4))
    (tmp_path / "high.jpg").write_bytes(b"no image")
    iterator = mx.image.ImageIter(2, (3, 4, 4), imglist=imglist, path_root=str(tmp_path))
    with pytest.raises(RuntimeError, match=r"Broken image filename: high.jpg, .*cannot be decoded"):
        next(iterator)


def test_an_iterator_is_changed_by_its_subclass(tmp_path: Path):
    class Grey(mx.image.ImageIter):
        def augmentation_transform(self, data: Any) -> Any:
            return mx.nd.ones((4, 4, 3)) * float(data.shape[0])

        def read_image(self, fname: str) -> bytes:
            return super().read_image(fname.replace("high", "wide"))

    iterator = Grey(4, (3, 4, 4), imglist=rows(tmp_path, range(4)), path_root=str(tmp_path))
    batch = next(iterator)
    assert batch.data[0].asnumpy()[:, 0, 0, 0].tolist() == [
        20,
        20,
        16,
        mx.image.imdecode(IMAGES["turned.jpg"]).shape[0],
    ]
    assert batch.label[0].asnumpy().tolist() == [0, 1, 2, 3]
    assert iterator.provide_data == [("data", (4, 3, 4, 4))]
    assert not list(iterator)
    iterator.hard_reset()
    assert len(list(iterator)) == 1


def test_labels_of_lists_are_ndarrays(tmp_path: Path):
    for dtype, held in (("float64", np.float32), ("int64", np.int32), ("int32", np.int32)):
        given = {"imglist": rows(tmp_path, range(4)), "path_root": str(tmp_path), "dtype": dtype}
        label, data = mx.image.ImageIter(1, (3, 4, 4), **given).next_sample()
        assert isinstance(label, mx.nd.NDArray)
        assert (label.dtype, label.asnumpy().tolist(), data) == (held, [0], IMAGES["wide.jpg"])


def test_what_rolled_over_is_forgotten_by_a_hard_reset(tmp_path: Path):
    given = {"imglist": rows(tmp_path, range(4)), "path_root": str(tmp_path)}
    iterator = mx.image.ImageIter(3, (3, 4, 4), **given, last_batch_handle="roll_over")
    assert len(list(iterator)) == 1
    iterator.hard_reset()
    assert next(iterator).label[0].asnumpy().tolist() == [0, 1, 2]


def test_labels_of_boxes_grow_and_are_checked(tmp_path: Path):
    given: dict[str, Any] = {"path_root": str(tmp_path), "batch_size": 2, "data_shape": (3, 6, 8)}
    small = mx.image.ImageDetIter(imglist=rows(tmp_path, scenarios.DETECTION)[:1], **given)
    large = mx.image.ImageDetIter(imglist=rows(tmp_path, scenarios.DETECTION), **given)
    assert (small.label_shape, large.label_shape) == ((1, 5), (2, 5))
    assert small.sync_label_shape(large) is large
    assert small.provide_label == [("label", (2, 2, 5))]
    assert next(small).label[0].asnumpy()[0, :, 0].tolist() == [1, -1]
    small.reshape((3, 4, 4))
    small.auglist = mx.image.CreateDetAugmenter((3, 4, 4))
    small.reset()
    assert next(small).data[0].shape == (2, 3, 4, 4)
    wrong: Any = ((1, 5), (2, 6), (2,))
    for shape in wrong:
        with pytest.raises(ValueError, match="label"):
            small.reshape(label_shape=shape)
    with pytest.raises(mx.MXNetError, match="Synchronize"):
        small.sync_label_shape(None)  # pyright: ignore[reportArgumentType]
    for label in ([2, 5], [2, 5, 0, 0.5, 0.5, 0.1, 0.1], [2, 4, 0, 0.1, 0.1, 0.5, 0.5], [2, 5, 1, 0, 0, 1, 1, 1]):
        with pytest.raises(BrokenImageError):
            mx.image.ImageDetIter(imglist=[[label, "wide.jpg"]], **given)


def test_images_whose_boxes_are_gone_are_left_out(tmp_path: Path):
    class Gone(mx.image.DetAugmenter):
        def __call__(self, src: Any, label: np.ndarray) -> tuple[Any, np.ndarray]:
            return src, label[label[:, 0] == 1]

    resize = mx.image.DetBorrowAug(mx.image.ForceResizeAug((4, 4)))
    given: dict[str, Any] = {"path_root": str(tmp_path), "aug_list": [resize, Gone()]}
    iterator = mx.image.ImageDetIter(1, (3, 4, 4), imglist=rows(tmp_path, scenarios.DETECTION), **given)
    assert [batch.label[0].asnumpy()[0, 0, 0] for batch in iterator] == [1, 1]


def test_boxes_are_drawn(tmp_path: Path):
    pytest.importorskip("cv2")
    random.seed(0)
    iterator = mx.image.ImageDetIter(
        1, (3, 40, 60), imglist=rows(tmp_path, scenarios.DETECTION), path_root=str(tmp_path), mean=True, std=True
    )
    drawn = list(iterator.draw_next((255, 0, 0), 1, True, True, id2labels={1: "cat"}))
    assert [image.shape for image in drawn] == [(40, 60, 3)] * 4
    assert drawn[0].dtype == np.uint8
    assert drawn[0][8, 6:37].tolist() == [[0, 0, 255]] * 31  # the top of the box, red
    iterator.reset()
    plain = mx.image.ImageIter(1, (3, 40, 60), imglist=rows(tmp_path, range(4)), path_root=str(tmp_path), resize=60)
    assert next(plain).data[0].shape == (1, 3, 40, 60)


@pytest.mark.slow("compiles")
def test_a_network_is_trained_on_images(tmp_path: Path):
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4), name="softmax")
    iterator = mx.image.ImageIter(
        2, (3, 6, 6), imglist=rows(tmp_path, range(4)), path_root=str(tmp_path), mean=True, std=True
    )
    module = mx.mod.Module(net)
    module.fit(iterator, num_epoch=40, optimizer_params={"learning_rate": 0.01}, initializer=mx.init.Xavier())
    assert module.score(iterator, "acc")[0][1] == 1
