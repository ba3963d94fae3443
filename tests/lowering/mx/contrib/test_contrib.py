"""`mx.contrib`: short names of operators, batches of loaders, old gradients, metrics for TensorBoard, words."""

import sys
import types
from typing import Any

import numpy as np
import pytest

from lowering import mx


def test_short_names():
    assert mx.contrib.nd is mx.contrib.ndarray is mx.nd.contrib
    assert mx.contrib.sym is mx.contrib.symbol is mx.sym.contrib
    assert mx.contrib.nd.box_iou(mx.nd.array([[0, 0, 2, 2]]), mx.nd.array([[0, 0, 2, 1]])).asnumpy().tolist() == [[0.5]]
    for call, words in (
        (lambda: mx.contrib.quant.quantise, "has no attribute 'quantise'"),
        (lambda: mx.contrib.tensorrt, "XLA compiles networks here"),
        (lambda: mx.contrib.amp.convert_symbl, "Did you mean 'convert_symbol'"),
    ):
        with pytest.raises(AttributeError, match=words):
            call()


def test_a_loader():
    rows = np.arange(20.0).reshape(10, 2)
    batches = [(rows[i : i + 4], np.arange(i, min(i + 4, 10))) for i in (0, 4, 8)]
    data = mx.contrib.io.DataLoaderIter(batches, "x", "y", "float16")
    assert data.batch_size == 4
    assert [(desc.name, desc.shape, desc.dtype) for desc in (*data.provide_data, *data.provide_label)] == [
        ("x", (4, 2), "float16"),
        ("y", (4,), "float16"),
    ]
    for _ in range(2):
        found = list(data)
        assert [batch.pad for batch in found] == [0, 0, 2]
        assert {batch.data[0].dtype for batch in found} == {np.float16}
        np.testing.assert_array_equal(found[1].data[0].asnumpy(), rows[4:8])
        assert found[2].label[0].asnumpy().tolist() == [8, 9, 0, 0]
        data.reset()
    assert next(mx.contrib.io.DataLoaderIter([(mx.nd.ones((2, 3)), mx.nd.zeros(2))])).data[0].shape == (2, 3)


def test_old_gradients():
    old = mx.contrib.autograd
    x, y = mx.nd.array([1, 2, 3]), mx.nd.array([2, 2, 2])

    def product(a: Any, b: Any) -> Any:
        assert mx.autograd.is_training()
        return a * b

    gradients, output = old.grad_and_loss(product)(x, y)
    assert [each.asnumpy().tolist() for each in (*gradients, output)] == [[2, 2, 2], [1, 2, 3], [2, 4, 6]]
    for argnum, expected in ((1, [[1, 2, 3]]), ([1, 0], [[1, 2, 3], [2, 2, 2]])):
        found = old.grad(product, argnum)(x, y)
        assert [each.asnumpy().tolist() for each in found] == expected
    with pytest.raises(AssertionError, match="should NDArray"):
        old.grad(product)(x, 3)
    with pytest.raises(AssertionError, match="must be a list or tuple"):
        old.backward(x)  # pyright: ignore[reportArgumentType]
    gradient = mx.nd.zeros(3)
    old.mark_variables([x], [gradient])
    with old.train_section():
        z = x * x
        with old.test_section():
            assert not mx.autograd.is_recording()
        assert mx.autograd.is_recording()
    assert not mx.autograd.is_training()
    old.backward([z], [mx.nd.array([1, 0, 1])])
    assert gradient.asnumpy().tolist() == [2, 0, 6]
    assert old.set_is_training(True) is False
    assert old.set_is_training(False) is True


def test_metrics_for_tensorboard(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    written: list[Any] = []

    class SummaryWriter:
        def __init__(self, folder: str):
            self.folder = folder

        def add_scalar(self, name: str, value: float, global_step: int) -> None:
            written.append((self.folder, name, value, global_step))

    package = types.ModuleType("tensorboardX")
    package.SummaryWriter = SummaryWriter  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "mxboard", None)
    monkeypatch.setitem(sys.modules, "tensorboardX", package)
    metric = mx.metric.create("mse")
    metric.update([mx.nd.zeros(2)], [mx.nd.ones(2)])
    for prefix in (None, "train"):
        callback = mx.contrib.tensorboard.LogMetricsCallback("logs", prefix)
        callback(mx.model.BatchEndParam(3, 0, metric, None))
        callback(mx.model.BatchEndParam(3, 0, None, None))
    assert written == [("logs", "mse", 1.0, 3), ("logs", "train-mse", 1.0, 3)]
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    mx.contrib.tensorboard.LogMetricsCallback("logs")(mx.model.BatchEndParam(3, 0, metric, None))
    assert "pip install mxboard" in caplog.text
    assert len(written) == 2
