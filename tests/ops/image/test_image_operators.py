"""Image operators: what they refuse, the distributions of the random ones, and the gradient that MXNet has none of."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from lowering import mx
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.ops.image.resize import resized
from tests.cases import families
from tests.support import ladder
from tests.support.traced import evaluated

X = sym.Variable("x")
OPS: Any = sym.image
IMAGE = np.random.default_rng(3).uniform(0, 255, (4, 6, 3)).astype(np.float32)


def drawn(symbol: Any, count: int, image: np.ndarray = IMAGE) -> np.ndarray:
    """What an operator makes of an image for so many keys."""
    run = jax.jit(jax.vmap(lambda key: lowering.to_jax(symbol, is_train=True)({"x": image}, {}, key)[0][0]))
    return np.asarray(run(jax.random.split(jax.random.key(0), count)))


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("symbol", "shape", "words"),
    [
        (OPS.to_tensor(X), (4, 5), r"Input image must have shape \(height, width, channels\), or"),
        (OPS.normalize(X, mean=0.0, std=1.0), (4, 5), r"Input image must have shape \(channels, height"),
        (OPS.normalize(X, mean=0.0, std=1.0), (4, 4, 5), "either 1 or 3 elements"),
        (OPS.normalize(X, mean=(0.1, 0.2), std=1.0), (3, 4, 5), "Invalid mean for an image of 3 channels"),
        (OPS.normalize(X), (3, 4, 5), "Invalid mean"),
        (OPS.flip_left_right(X), (2, 4, 5, 3), r"Input image must have shape \(height, width, channels\)"),
        (OPS.random_hue(X, min_factor=0.0, max_factor=1.0), (4, 5, 4), "either 1 or 3 elements"),
        (OPS.resize(X, size=3), (4, 5), "Input image must have shape"),
        (OPS.crop(X, x=3, y=0, width=3, height=1), (4, 5, 3), r"x \+ width reaches beyond.*at most 5"),
        (OPS.crop(X, x=0, y=3, width=3, height=2), (4, 5, 3), r"y \+ height reaches beyond.*at most 4"),
        (OPS.crop(X, x=0, y=0, width=1, height=1), (4, 5, 2), "either 1 or 3 elements"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_shapes_that_are_no_images_are_refused(symbol: Any, shape: tuple[int, ...], words: str):
    with pytest.raises(InferenceError, match=words):
        symbol.infer_shape(x=shape)


def test_parameters_that_make_no_image_are_refused():
    for params in ({}, {"size": (1, 2, 3)}, {"size": (0, 2)}, {"size": 3, "interp": 9}):
        with pytest.raises(ParamError):
            OPS.resize(X, **params)
    for params in ({"x": -1, "y": 0, "width": 2, "height": 2}, {"x": 0, "y": 0, "width": 0, "height": 2}):
        with pytest.raises(ParamError):
            OPS.crop(X, **params)
    with pytest.raises(ParamError, match="3 numbers"):
        OPS.adjust_lighting(X, alpha=(0.1, 0.2))
    with pytest.raises(ParamError, match="min_factor"):
        OPS.random_brightness(X, min_factor=-0.1, max_factor=1.0)
    with pytest.raises(InferenceError, match="cannot be resized"):
        OPS.resize(X, size=3).infer_type(x="int8")


def test_shapes_are_inferred_both_ways():
    assert OPS.to_tensor(OPS.resize(X, size=(8, 6))).infer_shape(x=(4, 5, 3)) == ([(4, 5, 3)], [(3, 6, 8)], [])
    assert OPS.to_tensor(X).infer_shape_partial(x=(0, 5, 3))[1] == [(3, 0, 5)]
    assert OPS.resize(X, size=2, keep_ratio=True).infer_shape(x=(4, 5, 3))[1] == [(2, 2, 3)]
    assert OPS.resize(X, size=2, keep_ratio=True).infer_shape(x=(2, 5, 4, 1))[1] == [(2, 2, 2, 1)]


# -- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interp", range(5))
@pytest.mark.parametrize("size", [(3, 9), (9, 3), (7, 5), (2, 2)])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_numpy_and_the_rule_resize_alike(interp: int, size: tuple[int, int], dtype: str):
    image = IMAGE.astype(dtype)
    net = OPS.resize(X, size=size, interp=interp)
    (found,), _ = evaluated(lowering.to_jax(net, is_train=False), {"x": image})
    assert found.dtype == image.dtype
    assert np.allclose(found, resized(image, size[1], size[0], interp), atol=0 if dtype == "uint8" else 1e-3)


def test_resized_bytes_are_mxnets_bytes():
    from_mxnet = 0
    for case in families()["image.resize"]:
        if case.op == "_image_resize" and case.inputs[0].dtype == "uint8":
            (image,) = case.values()
            (found,), _ = evaluated(lowering.to_jax(ladder.build(case), is_train=False), {"in0": image})
            expected = ladder.golden("image.resize", case)["out0"]
            assert np.array_equal(found, expected), case.id
            width, height = case.params["size"]
            assert np.array_equal(resized(image, height, width, case.params["interp"]), expected), case.id
            from_mxnet += 1
    assert from_mxnet == 10


@pytest.mark.slow("computes much")
@pytest.mark.parametrize("interp", [0, 1, 3, 4])
def test_resized_bytes_are_opencvs_bytes(interp: int):
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(9)
    different = total = 0
    for _ in range(200):
        image = rng.integers(0, 256, (*rng.integers(1, 40, 2), 3)).astype(np.uint8)
        height, width = (int(size) for size in rng.integers(1, 60, 2))
        found = resized(image, height, width, interp)
        expected = cv2.resize(image, (width, height), interpolation=interp)
        apart = np.abs(found.astype(int) - expected)
        assert apart.max() <= (interp in (3, 4))
        different, total = different + np.count_nonzero(apart), total + apart.size
    assert different <= total * (1e-4 if interp in (3, 4) else 0)


def test_a_batch_of_bytes_is_resized_as_its_images():
    batch = np.random.default_rng(8).integers(0, 256, (2, 4, 6, 3)).astype(np.uint8)
    for interp in range(5):
        for size in ((3, 2), (5, 7)):
            (found,), _ = evaluated(
                lowering.to_jax(OPS.resize(X, size=size, interp=interp), is_train=False), {"x": batch}
            )
            assert np.array_equal(found, [resized(image, size[1], size[0], interp) for image in batch])


def test_bytes_stay_bytes():
    image = np.full((2, 2, 3), 200, np.uint8)
    assert (mx.nd.image.random_brightness(mx.nd.array(image, dtype="uint8"), 2.0, 2.0).asnumpy() == 255).all()
    bright = mx.nd.image.adjust_lighting(mx.nd.array(image, dtype="uint8"), (-9.0, 0.0, 0.0)).asnumpy()
    assert (bright == 255).all()
    assert bright.dtype == np.uint8


def test_a_hue_turned_all_around_is_the_same():
    assert np.allclose(mx.nd.image.random_hue(mx.nd.array(IMAGE), 1.0, 1.0).asnumpy(), IMAGE, atol=1e-3)
    third = mx.nd.image.random_hue(mx.nd.array(IMAGE), 1 / 3, 1 / 3).asnumpy()
    assert np.allclose(third, np.roll(IMAGE, 1, 2), atol=1e-3)  # red becomes green


@pytest.mark.slow("compiles")
def test_the_gradient_of_to_tensor_is_its_derivative():
    for image in (IMAGE, IMAGE[None]):
        run = lowering.to_jax(OPS.to_tensor(X), is_train=True)
        out, pull = jax.vjp(lambda x, run=run: run({"x": x})[0][0], jnp.asarray(image))
        head = np.random.default_rng(4).uniform(-1, 1, out.shape).astype(np.float32)
        _, grads, _ = evaluated(lowering.grad_fn(OPS.to_tensor(X), ["x"]), {"x": image}, {}, None, [head])
        assert np.allclose(grads["x"], pull(jnp.asarray(head))[0], rtol=1e-6)
        assert grads["x"].shape == image.shape


# -- draws -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(("name", "axis"), [("left_right", 1), ("top_bottom", 0)])
def test_one_image_in_two_is_flipped(name: str, axis: int):
    images = drawn(getattr(OPS, f"random_flip_{name}")(X), 400)
    flipped = (images == np.flip(IMAGE, axis)).all((1, 2, 3))
    assert ((images == IMAGE).all((1, 2, 3)) | flipped).all()
    assert 150 < flipped.sum() < 250


@pytest.mark.slow("compiles")
def test_factors_are_uniform():
    images = drawn(OPS.random_brightness(X, min_factor=0.5, max_factor=1.5), 1000)
    factors = (images / IMAGE).mean((1, 2, 3))
    assert np.allclose(images, IMAGE * factors[:, None, None, None], rtol=1e-4)
    assert factors.min() > 0.5
    assert factors.max() < 1.5
    assert np.histogram(factors, 4, (0.5, 1.5))[0].min() > 200


def test_lighting_is_normal_along_three_directions():
    steps = (drawn(OPS.random_lighting(X, alpha_std=0.1), 1000) - IMAGE).mean((1, 2))
    directions = np.array([[55.46 * -0.5675, 4.794 * 0.7192, 1.148 * 0.4009],
                           [55.46 * -0.5808, 4.794 * -0.0045, 1.148 * -0.8140],
                           [55.46 * -0.5836, 4.794 * -0.6948, 1.148 * 0.4203]])  # fmt: skip
    numbers = np.linalg.solve(directions, steps.T)
    assert np.allclose(numbers.std(1), 0.1, atol=0.01)
    assert np.allclose(numbers.mean(1), 0, atol=0.015)


@pytest.mark.nightly("compiles")
def test_a_jitter_changes_in_any_order_what_it_is_told_to():
    only = {"brightness": 0.0, "contrast": 0.0, "saturation": 0.0, "hue": 0.0}
    bright = drawn(OPS.random_color_jitter(X, **{**only, "brightness": 0.5}), 500)
    factors = (bright / IMAGE).mean((1, 2, 3))
    assert np.allclose(bright, IMAGE * factors[:, None, None, None], rtol=1e-4)
    assert factors.min() < 0.55
    assert factors.max() > 1.45
    hues = drawn(OPS.random_color_jitter(X, **{**only, "hue": 0.2}), 50)
    assert np.allclose(hues.max(3), IMAGE.max(2), atol=1e-2)  # the lightness stays
    assert hues.std(0).mean() > 1
    assert (drawn(OPS.random_color_jitter(X, **only), 2) == IMAGE).all()
    # Brightness before contrast, or after it, is not the same where numbers are cut off at 255.
    image = np.full((1, 2, 3), [[[250] * 3, [10] * 3]], np.uint8)
    both = drawn(OPS.random_color_jitter(X, **{**only, "brightness": 0.9, "contrast": 0.9}), 200, image)
    assert len({tuple(row) for row in both[..., 0].reshape(200, 2)}) > 100


def test_symbols_with_image_operators_are_loaded_from_files():
    net = OPS.normalize(OPS.to_tensor(OPS.resize(X, size=(4, 4))), mean=0.5, std=0.25, name="n")
    (found,) = mx.sym.load_json(net.tojson()).eval(x=mx.nd.array(IMAGE))
    assert np.allclose(found.asnumpy(), (resized(IMAGE, 4, 4, 1).transpose(2, 0, 1) / 255 - 0.5) / 0.25, atol=1e-4)
