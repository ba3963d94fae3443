"""What MXNet's example scripts do, in small: the ways of calling that stopped them here, or that ended otherwise."""

import logging
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowering import mx


@pytest.fixture
def mnist(tmp_path: Path) -> dict[str, Any]:
    """Six images and their labels, in MNIST's files."""
    images, labels = tmp_path / "images", tmp_path / "labels"
    images.write_bytes(struct.pack(">IIII", 2051, 6, 2, 2) + bytes(range(24)))
    labels.write_bytes(struct.pack(">II", 2049, 6) + bytes(range(6)))
    return {"image": str(images), "label": str(labels)}


def test_iterators_over_files_ignore_what_mxnets_ignore(mnist: dict[str, Any], tmp_path: Path):
    shapes = mx.io.MNISTIter(**mnist, batch_size=2, data_shape=(4,), flat=True, silent=True).provide_data
    assert [tuple(desc.shape) for desc in shapes] == [(2, 4)]
    rows = tmp_path / "rows"
    rows.write_text("1 0:1\n0 1:2\n")
    with pytest.warns(UserWarning, match=r"LibSVMIter ignores \['ninth'\], as MXNet's does"):
        batch = mx.io.LibSVMIter(data_libsvm=str(rows), data_shape=(2,), batch_size=2, ninth=9).next()
    assert batch.data[0].asnumpy().tolist() == [[1, 0], [0, 2]]


def test_reading_files_leaves_the_root_logger_to_the_script(mnist: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    mx.io.MNISTIter(**mnist, batch_size=2)
    assert not logging.getLogger().handlers  # else logging.basicConfig(level=…) does nothing after


def test_every_initializer_is_one():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = [mx.init.Xavier(), mx.init.Constant(2), mx.init.create("uniform"), mx.init.FusedRNN(None, 2, 1, "lstm")]
    assert all(isinstance(each, mx.init.Initializer) for each in made)
    array = mx.nd.zeros((2, 3))
    made[1]("w_weight", array)
    assert array.asnumpy().tolist() == np.full((2, 3), 2).tolist()


def test_batches_come_in_the_order_that_was_bound():
    a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
    c, d = (mx.sym.Variable(f"{name}_label") for name in "cd")
    net = mx.sym.Group([mx.sym.LinearRegressionOutput(a * 1, c), mx.sym.LinearRegressionOutput(b * 10, d)])
    module = mx.mod.Module(net, data_names=["a", "b"], label_names=["c_label", "d_label"])
    module.bind([("b", (1, 1)), ("a", (1, 1))], [("d_label", (1, 1)), ("c_label", (1, 1))], inputs_need_grad=True)
    module.init_params()

    def run(rows: int) -> list[float]:
        data = [mx.nd.full((rows, 1), value) for value in (2, 3)]
        module.forward_backward(mx.io.DataBatch(data, [mx.nd.full((rows, 1), value) for value in (4, 5)]))
        return [float(array.asnumpy()[0, 0]) for array in (*module.get_outputs(), *module.get_input_grads())]

    assert run(1) == [3, 20, (20 - 4) * 10, 3 - 5]
    assert run(2) == run(1)  # bound anew, in the same order
    assert [desc.name for desc in module.data_shapes] == ["b", "a"]
    parts: Any = module._exec_group.input_grad_arrays
    assert [array.asnumpy()[0, 0] for (array,) in parts] == [(20 - 4) * 10, 3 - 5]
    metric = mx.metric.create("mse")
    metric.update_dict = lambda labels, outputs: labels_of.update(labels)  # type: ignore[method-assign]
    labels_of: dict[str, Any] = {}
    module.update_metric(metric, ["d", "c"])
    assert labels_of == {"d_label": "d", "c_label": "c"}


def test_labels_that_a_network_does_not_use_shift_no_other():
    net = mx.sym.LinearRegressionOutput(mx.sym.Variable("data"), mx.sym.Variable("used_label"))
    module = mx.mod.Module(net, label_names=["used_label"])
    module.bind([("data", (1, 1))], [("other_label", (1, 1)), ("used_label", (1, 1))], inputs_need_grad=True)
    module.init_params()
    for rows in (1, 3):
        arrays = [mx.nd.full((rows, 1), value) for value in (1, 2, 5)]
        module.forward_backward(mx.io.DataBatch(arrays[:1], arrays[1:]))
        assert module.get_input_grads()[0].asnumpy()[0, 0] == 1 - 5


def test_a_metric_of_ones_own_may_write_what_it_gets():
    def cut(label: np.ndarray, pred: np.ndarray) -> float:
        pred[pred > 1] = 1
        label[:] = 0
        return float(np.abs(label - pred).sum())

    label, pred = mx.nd.array([1, 1]), mx.nd.array([5, 0.5])
    metric = mx.metric.np(cut)
    metric.update([label], [pred])
    assert metric.get() == ("cut", 1.5)
    assert [array.asnumpy().tolist() for array in (label, pred)] == [[1, 1], [5, 0.5]]


def test_numbers_are_made_in_the_shape_of_the_array_that_takes_them():
    array = mx.nd.zeros((2, 3))
    for made in (
        mx.random.uniform(1, 2, out=array),
        mx.nd.random_normal(9, 1, out=array),
        mx.nd._internal._ones(out=array),
    ):
        assert made is array
        assert array.shape == (2, 3)
        assert (array.asnumpy() != 0).all()
    other = mx.nd.zeros(4, dtype="int32")
    mx.nd.random.randint(3, 5, out=other)  # the same call as for another shape
    assert set(other.asnumpy().tolist()) <= {3, 4}
    assert mx.random.uniform().shape == mx.nd.random_uniform(0, 1).shape == (1,)
