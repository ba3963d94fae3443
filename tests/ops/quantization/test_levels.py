"""Numbers that are rounded once, or after each operation, evaluated and compiled: as MXNet's C++ rounds them."""

from collections.abc import Callable

import jax
import numpy as np
import pytest
from jax import Array

import symjax_nnvm as nn
from lowering.ops.quantization.levels import added_once, over_root, rounding
from symjax_nnvm import symbol as sym

_RANDOM = np.random.RandomState(0)
_A, _B, _C = (_RANDOM.standard_normal(20_000).astype("f") for _ in range(3))
_SQUARES = (10 ** _RANDOM.uniform(-6, 3, 20_000)).astype("f")
_NUMBERS = _RANDOM.randint(-128, 256, 20_000).astype("f")


def _wide(*arrays: np.ndarray) -> list[np.ndarray]:
    return [array.astype(np.float64) for array in arrays]


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("function", "arrays", "expected"),
    [
        (
            lambda x, square: over_root(x, square, 1e-3),
            (_A, _SQUARES),
            _wide(_A)[0] / np.sqrt(_wide(_SQUARES)[0] + 1e-3),
        ),
        (lambda square: over_root(1.0, square, 1e-5), (_SQUARES,), 1 / np.sqrt(_wide(_SQUARES)[0] + 1e-5)),
        (
            lambda a, n, b: added_once(a * 40, n, b),
            (_A, _NUMBERS, _B),
            _wide(_A * np.float32(40))[0] + _wide(_NUMBERS)[0] * _wide(_B)[0],
        ),
        (lambda a, b, c: c + rounding(a * b), (_A, _B, _C), _wide(_C)[0] + _wide(_A * _B)[0]),
        (lambda a, b, c: rounding(a / b) / c, (_A, _B, _C), _wide(_A / _B)[0] / _wide(_C)[0]),
    ],
    ids=["x/√", "1/√", "a·40 + n·b", "c + a·b", "a/b/c"],
)
def test_numbers_are_rounded_as_in_c(
    function: Callable[..., Array], arrays: tuple[np.ndarray, ...], expected: np.ndarray, compiled: bool
):
    run = jax.jit(function) if compiled else function
    np.testing.assert_array_equal(np.asarray(run(*map(jax.numpy.asarray, arrays))), expected.astype("f"))


@pytest.mark.slow("a million sums, so that some are between two levels")
def test_a_fused_convolution_has_mxnets_levels():
    """Of BatchNorm's numbers in float64, and a bias of float32 that is rounded after its product."""
    channels, size, filters, eps = 4, 16, 4096, 1e-3
    conv = sym.Convolution(sym.Variable("data"), num_filter=filters, kernel=(1, 1), no_bias=True, name="c")
    net = sym.Activation(sym.BatchNorm(conv, fix_gamma=False, eps=eps, name="b"), act_type="relu", name="r")
    random = np.random.RandomState(0)
    weight = random.standard_normal((filters, channels, 1, 1)).astype("f")
    gamma, beta, mean = (random.standard_normal(filters).astype("f") for _ in range(3))
    var = random.uniform(0.5, 2, filters).astype("f")
    args, aux = (
        {"c_weight": weight, "b_gamma": gamma, "b_beta": beta * 20},
        {"b_moving_mean": mean, "b_moving_var": var},
    )
    images = random.uniform(0, 1, (1, channels, size, size)).astype("f")
    model = nn.quantize(net, args, aux, calibration=[images], mode="naive", fused=True, dtype="auto")
    (node,) = [node for node in nn.graph.create(model.net).nodes() if node.name == "quantized_sg_mkldnn_conv_bn_act_0"]
    inner = model.net.get_internals()
    group = sym.Group([inner["data_quantize_output0"], inner["data_quantize_output2"], inner[f"{node.name}_output"]])
    data, (high,), found = map(np.asarray, nn.Model(group, model.args, model.aux).predictor()(data=images))

    alpha = (gamma / np.sqrt(var.astype(np.float64) + eps)).astype("f")[:, None]
    bias = beta[:, None] * 20 - alpha * mean[:, None]
    rows = weight[:, :, 0, 0] * alpha
    of_data, of_rows = np.float32(255.5) / high, np.float32(127.5) / np.abs(rows).max(1, keepdims=True)
    of_result = np.float32(255.5) / np.float32(node.attrs.dict["max_calib_range"])
    levels = np.rint(rows * of_rows).clip(-128, 127).astype(int)
    sums = levels @ data[0].reshape(channels, -1).astype(int) + np.rint(bias * (of_rows * of_data)).astype(int)
    expected = np.rint(sums.astype("f") * (of_result / of_data / of_rows)).clip(0, 255)
    np.testing.assert_array_equal(found.reshape(filters, -1), expected)
