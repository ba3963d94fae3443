"""Names of MXNet's that few scripts ask for: of sparse arrays, of devices, of tests, and the older imdecode."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lowering import mx
from lowering.mx import context as contexts
from lowering.mx import test_utils
from lowering.mx.gluon import nn
from lowering.mx.ndarray.storage_types import DenseWarning, warn_once
from symjax_nnvm.errors import CallError, MXNetError, ParamError, RecordFormatError
from symjax_nnvm.mxnet.images import decode_flagged
from tests.goldens.records.sources import IMAGES

WIDE, CLEAR = IMAGES["wide.jpg"], IMAGES["clear.png"]


# -- sparse arrays -----------------------------------------------------------------------------------------------------


def test_sparse_arithmetic_is_dense():
    x, y = mx.nd.array([[1.0, 0], [0, 4]]), mx.nd.array([[2.0, 0], [8, 2]])
    found = [getattr(mx.nd.sparse, name)(x, y).asnumpy() for name in ("add", "subtract", "multiply")]
    for ours, wanted in zip(found, (x + y, x - y, x * y), strict=True):
        np.testing.assert_array_equal(ours, wanted.asnumpy())
    assert mx.nd.sparse.divide(x, 2).asnumpy().tolist() == [[0.5, 0], [0, 2]]
    assert mx.nd.sparse.gs_retain(y, mx.nd.array([1])).asnumpy().tolist() == [[0, 0], [8, 2]]


@pytest.mark.parametrize(
    ("given", "weights", "histories"),
    [
        (
            {},
            [[0.9046537280082703, 2.0975899696350098], [3, 4], [4.942265033721924, 5.903175354003906]],
            [[1.100000023841858, 4.199999809265137], [0.3, 0.4], [0.75, 9.600000381469727]],
        ),
        (
            {"epsilon": 0.5, "rescale_grad": 0.5, "clip_gradient": 0.8},
            [[0.9457674026489258, 2.0691094398498535], [3, 4], [4.9757466316223145, 5.939352035522461]],
            [[0.35, 0.84], [0.3, 0.4], [0.5625, 1.2400000095367432]],
        ),
    ],
    ids=["defaults", "clipped"],
)
def test_adagrad_updates_as_mxnets_of_sparse_arrays(given: dict[str, float], weights: Any, histories: Any):
    """Numbers of MXNet 1.9.1, of row_sparse arrays."""
    weight, history = mx.nd.array([[1.0, 2], [3, 4], [5, 6]]), mx.nd.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
    grad = mx.nd.array([[1.0, -2], [0, 0], [0.5, 3]])
    before = weight.copy(), history.copy()
    assert mx.nd.sparse.adagrad_update(weight, grad, history, out=weight, lr=0.1, **given) is weight
    np.testing.assert_allclose(weight.asnumpy(), weights, rtol=1e-6)
    np.testing.assert_allclose(history.asnumpy(), histories, rtol=1e-6)
    np.testing.assert_allclose(mx.nd.sparse.adagrad_update(before[0], grad, before[1], lr=0.1, **given), weights, 1e-6)
    with pytest.raises(CallError, match="does not support weight decay"):
        mx.nd.sparse.adagrad_update(weight, grad, history, lr=0.1, wd=0.1)


def test_rows_by_chance():
    warn_once.cache_clear()
    with pytest.warns(DenseWarning):
        made, (values, rows) = test_utils.rand_sparse_ndarray((50, 3), "row_sparse", density=0.4, dtype="float16")
    assert values.dtype == made.dtype == np.float16
    assert 5 < len(rows) < 35
    whole = np.zeros((50, 3), np.float16)
    whole[rows] = values
    np.testing.assert_array_equal(made.asnumpy(), whole)
    made, (values, rows) = test_utils.rand_sparse_ndarray(
        (4, 2), "row_sparse", rsp_indices=np.array([1, 3]), data_init=2.0, modifier_func=lambda x: x + 1
    )
    assert (values == 3).all()
    assert made.asnumpy().tolist() == [[0, 0], [3, 3], [0, 0], [3, 3]]
    made = test_utils.create_sparse_array_zd((4, 2), "row_sparse", 0.9, 1.0, [3, 1])
    assert made.asnumpy().tolist() == [[0, 0], [1, 1], [0, 0], [1, 1]]
    assert not test_utils.create_sparse_array_zd((4, 2), "row_sparse", 0.9).asnumpy().any()


@pytest.mark.filterwarnings("ignore:Arrays are dense here")
def test_places_by_chance():
    made, (starts, columns, values) = test_utils.rand_sparse_ndarray((6, 5), "csr", density=0.5)
    whole = np.zeros((6, 5), np.float32)
    for row, (first, end) in enumerate(zip(starts.asnumpy()[:-1], starts.asnumpy()[1:], strict=True)):
        whole[row, columns.asnumpy()[first:end]] = values.asnumpy()[first:end]
    np.testing.assert_array_equal(made.asnumpy(), whole)
    assert (whole != 0).sum() == 15
    assert set(test_utils.create_sparse_array((4, 4), "csr", 7.0, density=0.25).asnumpy().ravel()) == {0, 7}
    made, (starts, *_) = test_utils.rand_sparse_ndarray((5, 16), "csr", 0.5, distribution="powerlaw")
    assert np.diff(starts.asnumpy()).tolist() == [2, 4, 8, 16, 10]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: test_utils.rand_sparse_ndarray((2, 2), "dense"), AssertionError, "unknown storage type"),
        (lambda: test_utils.create_sparse_array((2, 2), "dense"), AssertionError, "Unknown storage type: dense"),
        (
            lambda: test_utils.rand_sparse_ndarray((2, 2), "row_sparse", distribution="powerlaw"),
            AssertionError,
            "not supported: powerlaw",
        ),
        (lambda: test_utils.rand_sparse_ndarray((2, 2), "csr", density=1.5), ValueError, "expected 0 to 1; got 1.5"),
        (lambda: test_utils.rand_sparse_ndarray((0, 2), "csr", density=0.5), ValueError, "sizes from 1"),
        (
            lambda: test_utils.rand_sparse_ndarray((4, 4), "csr", 0.1, distribution="powerlaw"),
            ParamError,
            "expected 8 to 14 numbers in 4 × 4; got 0.1, 1 numbers",
        ),
    ],
)
def test_what_is_no_sparse_array(call: Any, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        call()


# -- tests -------------------------------------------------------------------------------------------------------------


def test_words_of_differences():
    """As MXNet 1.9.1 says them."""
    found = test_utils.locationError(np.ones((2, 2)), np.zeros((2, 2)), (0, 1), ("p", "q"), True)
    assert found == "Location of maximum error: (0, 1), p=1.00000000, q=0.00000000"
    assert test_utils.locationError(np.ones(1), np.ones(1), (0,), "ab").startswith("Location of error: (0,), a=1.0")
    test_utils.checkShapes(np.ones(2), np.zeros(2))
    with pytest.raises(AssertionError, match=r"a.shape = \(2,\) and b.shape = \(3,\) are not equal"):
        test_utils.checkShapes(np.ones(2), np.ones(3))
    with mx.cpu(3):
        assert test_utils.current_context() == mx.cpu(3)


@pytest.mark.slow("compiles")
def test_blocks_are_compared_hybridised_and_not():
    data = [mx.nd.array([[1.0, -2, 3]])]
    test_utils.check_gluon_hybridize_consistency(lambda prefix: nn.Dense(2, activation="tanh", prefix=prefix), data)
    relu = lambda prefix: nn.Activation("relu", prefix=prefix)  # noqa: E731
    test_utils.check_gluon_hybridize_consistency(relu, data, lambda x: np.maximum(x, 0))
    with pytest.raises(AssertionError):
        test_utils.check_gluon_hybridize_consistency(relu, data, lambda x: x, test_grad=False)

    class Fickle(nn.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return x * (2 if F is mx.nd else 3)

    with pytest.raises(AssertionError):
        test_utils.check_gluon_hybridize_consistency(Fickle, data)


# -- devices -----------------------------------------------------------------------------------------------------------


def test_what_a_gpu_says(monkeypatch: pytest.MonkeyPatch):
    gpu = SimpleNamespace(compute_capability="9.0", memory_stats=lambda: {"bytes_limit": 100, "bytes_in_use": 30})
    silent = SimpleNamespace(compute_capability="gfx90a", memory_stats=lambda: None)
    monkeypatch.setattr(contexts, "_devices", lambda platform: [gpu, silent])
    assert contexts.gpu_memory_info() == mx.util.get_gpu_memory(0) == (70, 100)
    assert mx.util.get_cuda_compute_capability(mx.gpu()) == test_utils.get_cuda_compute_capability(mx.gpu()) == 90
    for call in (lambda: contexts.gpu_memory_info(1), lambda: mx.util.get_cuda_compute_capability(mx.gpu(1))):
        with pytest.raises(MXNetError, match="JAX does not report"):
            call()
    with pytest.raises(ValueError, match=r"Expecting a gpu context .* while received ctx cpu\(0\)"):
        mx.util.get_cuda_compute_capability(mx.cpu())


def test_no_gpu_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(contexts, "_devices", lambda platform: [])
    with pytest.raises(CallError, match=r"There is no gpu\(0\): JAX sees 0 devices"):
        contexts.gpu_memory_info()


# -- images ------------------------------------------------------------------------------------------------------------


def test_an_image_in_planes():
    pixels = decode_flagged(WIDE, 1, "x").transpose(2, 0, 1)  # blue, green, red
    whole = mx.nd.imdecode(WIDE)
    assert whole.dtype == np.float32
    np.testing.assert_array_equal(whole.asnumpy(), pixels)
    part = mx.nd.imdecode(WIDE, clip_rect=(1, 2, 5, 9), mean=mx.nd.full((3, 7, 4), 100, dtype="float16"))
    assert part.dtype == np.float16
    np.testing.assert_array_equal(part.asnumpy(), pixels[:, 2:9, 1:5] - 100.0)
    np.testing.assert_array_equal(mx.nd.imdecode(WIDE, channels=1).asnumpy(), decode_flagged(WIDE, 0, "x")[None])
    assert mx.nd.imdecode(CLEAR, channels=4).shape[0] == 4


def test_an_image_among_others():
    images = mx.nd.zeros((2, 3, 20, 28))
    assert mx.nd.imdecode(WIDE, out=images, index=1) is images
    np.testing.assert_array_equal(images[1].asnumpy(), mx.nd.imdecode(WIDE).asnumpy())
    assert not images[0].asnumpy().any()
    one = mx.nd.zeros((3, 20, 28), dtype="uint8")
    np.testing.assert_array_equal(mx.nd.imdecode(WIDE, out=one).asnumpy(), images[1].asnumpy())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"clip_rect": (0, 0, 99, 9)}, "expected a part of 28 × 20 pixels"),
        ({"clip_rect": (5, 0, 4, 9)}, "The crop does not lie in the image"),
        ({"channels": 4}, "expected 1 to 3; got 4"),
        ({"mean": mx.nd.zeros((3, 1, 1))}, "mean= does not have the shape"),
        ({"out": mx.nd.zeros((3, 1, 1))}, "out= does not have the shape"),
    ],
)
def test_what_is_no_image_in_planes(given: dict[str, Any], message: str):
    with pytest.raises(CallError, match=message):
        mx.nd.imdecode(WIDE, **given)
    with pytest.raises(RecordFormatError, match="cannot be decoded"):
        mx.nd.imdecode(b"none")
