"""Transforms of images that draw, how they are composed, and what they refuse. Numbers are MXNet's elsewhere."""

import random
from typing import Any

import numpy as np
import pytest

from lowering import mx
from lowering.mx.gluon.data.vision import transforms
from symjax_nnvm.errors import ParamError, SymbolTypeError

IMAGE = mx.nd.array(np.random.default_rng(1).integers(0, 256, (20, 30, 3)), dtype="uint8")


def test_hybrid_transforms_that_follow_each_other_are_one_block():
    given = [
        *(transforms.Resize(8), transforms.ToTensor(), transforms.Normalize(0.5, 2)),
        *(transforms.RandomRotation((-1, 1)), transforms.Cast("float16")),
    ]
    composed = transforms.Compose(given)
    assert len(given) == 5
    assert [type(child).__name__ for child in composed] == ["Resize", "HybridSequential", "RandomRotation", "Cast"]
    assert [type(child).__name__ for child in composed[1]] == ["ToTensor", "Normalize"]
    found = composed(IMAGE)
    assert (found.shape, found.dtype) == ((3, 8, 8), np.float16)


@pytest.mark.parametrize(
    ("transform", "axis"), [(transforms.RandomFlipLeftRight(), 1), (transforms.RandomFlipTopBottom(), 0)]
)
def test_images_are_mirrored_every_second_time(transform: Any, axis: int):
    mx.random.seed(2)
    mirrored = np.flip(IMAGE.asnumpy(), axis)
    found = [transform(IMAGE).asnumpy() for _ in range(40)]
    kinds = [(each == mirrored).all() for each in found]
    assert 8 < sum(kinds) < 32
    assert all((each == IMAGE.asnumpy()).all() for each, turned in zip(found, kinds, strict=True) if not turned)


@pytest.mark.parametrize(
    "make",
    [
        *(transforms.RandomBrightness, transforms.RandomContrast, transforms.RandomSaturation, transforms.RandomHue),
        *(transforms.RandomLighting, lambda value: transforms.RandomColorJitter(value, value, value, value)),
    ],
)
def test_colours_change_anew_at_each_call(make: Any):
    mx.random.seed(3)
    image = IMAGE.astype("float32")
    transform = make(0.3)
    first, second = (transform(image).asnumpy() for _ in range(2))
    assert not (first == second).all()
    assert not (first == image.asnumpy()).all()
    mx.random.seed(3)
    np.testing.assert_array_equal(transform(image).asnumpy(), first)
    unchanged = make(0.0)(image).asnumpy()
    np.testing.assert_allclose(unchanged, image.asnumpy(), atol=0.6 if make is transforms.RandomHue else 1e-3)


def test_arrays_are_resized_by_mx_image_and_on_the_tape_by_the_operator():
    for size, keep, shape in (((7, 5), False, (7, 5)), (9, True, (13, 9)), (6, False, (6, 6))):
        resize = transforms.Resize(size, keep)
        expected = mx.image.imresize(IMAGE, *shape).asnumpy()
        np.testing.assert_array_equal(resize(IMAGE).asnumpy(), expected)
        np.testing.assert_array_equal(resize(mx.nd.stack(IMAGE, IMAGE))[1].asnumpy(), expected)
        (operator,) = resize(mx.sym.var("data")).eval(data=IMAGE)
        assert operator.shape == expected.shape
        assert np.abs(operator.asnumpy().astype(int) - expected).max() <= 1
    tall = mx.nd.swapaxes(IMAGE, 0, 1)
    np.testing.assert_array_equal(transforms.Resize(9, True)(tall).asnumpy(), mx.image.imresize(tall, 9, 13).asnumpy())
    data = IMAGE.astype("float32")
    data.attach_grad()
    with mx.autograd.record():
        transforms.CropResize(0, 0, 10, 10, 5)(data * 1).sum().backward()
    assert data.grad is not None
    np.testing.assert_allclose(data.grad.asnumpy().sum(), 75, rtol=1e-5)
    for size in (-1, (1, 2, 3)):
        with pytest.raises(mx.MXNetError):
            transforms.Resize(size)(IMAGE)


def test_a_random_crop_is_mx_images():
    random.seed(4)
    found = transforms.RandomResizedCrop((7, 5), (0.2, 0.5), (0.5, 2.0))(IMAGE)
    random.seed(4)
    expected, _ = mx.image.random_size_crop(IMAGE, (7, 5), (0.2, 0.5), (0.5, 2.0), 1)
    np.testing.assert_array_equal(found.asnumpy(), expected.asnumpy())
    assert found.shape == (5, 7, 3)


def test_a_transform_is_applied_with_a_probability():
    random.seed(5)
    once = transforms.RandomApply(transforms.CenterCrop(4), 0.25)
    sizes = [once(IMAGE).shape[0] for _ in range(80)]
    assert 8 < sizes.count(4) < 35
    assert sizes.count(4) + sizes.count(20) == 80


def test_rotations_are_random_and_of_float32():
    tensor = transforms.ToTensor()(IMAGE)
    np.random.seed(6)
    found = transforms.RandomRotation((-30, 30))(tensor)
    np.random.seed(6)
    np.random.random()
    expected = mx.image.random_rotate(tensor, (-30, 30))
    np.testing.assert_array_equal(found.asnumpy(), expected.asnumpy())
    assert transforms.RandomRotation((-30, 30), rotate_with_proba=0)(tensor) is tensor
    for transform in (transforms.Rotate(10.0), transforms.RandomRotation((-1, 1))):
        with pytest.raises(SymbolTypeError, match="only supports float32. Consider calling it after ToTensor"):
            transform(IMAGE)
    with pytest.raises(ParamError, match="must be an ordered tuple"):
        transforms.RandomRotation((1, -1))
    with pytest.raises(ParamError, match="should be between 0 and 1"):
        transforms.RandomRotation((-1, 1), rotate_with_proba=1.5)


def test_transforms_are_a_network_of_symbols():
    net = mx.gluon.nn.HybridSequential()
    net.add(transforms.CropResize(1, 2, 10, 8, (6, 4)), transforms.ToTensor())
    (found,) = net(mx.sym.var("data")).eval(data=IMAGE)
    np.testing.assert_allclose(found.asnumpy(), net(IMAGE).asnumpy(), rtol=1e-6)
    assert found.shape == (3, 4, 6)
