"""What libraries read of MXNet beside its public names: GluonCV, GluonNLP and GluonTS derive from its classes."""

import importlib
import inspect
from typing import Any

import numpy as np
import pytest

from lowering import mx
from lowering.mx import gluon


class Clipped(gluon.contrib.rnn.LSTMPCell):
    """An LSTM with projection whose forward pass is written out, as GluonNLP's LSTMPCellWithClip is."""

    def hybrid_forward(self, F: Any, inputs: Any, states: Any, i2h_weight: Any, h2h_weight: Any, h2r_weight: Any, i2h_bias: Any, h2h_bias: Any) -> Any:  # fmt: skip # noqa: E501  # pyright: ignore[reportIncompatibleMethodOverride]
        prefix, size = f"t{self._counter}_", 4 * self._hidden_size
        i2h = F.FullyConnected(data=inputs, weight=i2h_weight, bias=i2h_bias, num_hidden=size, name=prefix + "i2h")
        h2h = F.FullyConnected(data=states[0], weight=h2h_weight, bias=h2h_bias, num_hidden=size, name=prefix + "h2h")
        i, f, c, o = F.SliceChannel(i2h + h2h, num_outputs=4, name=prefix + "slice")
        kept = F.sigmoid(f) * states[1]
        cell = F._internal._plus(kept, F.sigmoid(i) * F.tanh(c), name=prefix + "state").clip(-100, 100)
        hidden = F._internal._mul(F.sigmoid(o), F.tanh(cell), name=prefix + "hidden")
        out = F.FullyConnected(data=hidden, num_hidden=self._projection_size, weight=h2r_weight, no_bias=True)
        return out, [out, cell]


def test_a_cell_with_projection_says_its_sizes_to_classes_that_derive_from_it():
    cells = [cell(5, 3, input_size=4, prefix="cell_") for cell in (gluon.contrib.rnn.LSTMPCell, Clipped)]
    cells[0].initialize(mx.init.Xavier())
    for own, other in zip(cells[0].collect_params().values(), cells[1].collect_params().values(), strict=True):
        other.initialize()
        other.set_data(own.data())
    x = mx.nd.array(np.linspace(-1, 1, 8).reshape(2, 4))
    (expected, _), (actual, _) = (cell(x, cell.begin_state(2)) for cell in cells)
    np.testing.assert_allclose(actual.asnumpy(), expected.asnumpy(), rtol=1e-6, atol=1e-7)


class Halved(gluon.Parameter):
    """A parameter in place of another, whose arrays it takes, as GluonNLP's WeightDropParameter is."""

    def __init__(self, other: gluon.Parameter):
        self._deferred_init = other._deferred_init
        super().__init__(other.name, other.grad_req, other._shape, other.dtype, init=other.init)
        self._var, self._data, self._grad = other._var, other._data, other._grad
        self._ctx_list, self._ctx_map, self._trainer = other._ctx_list, other._ctx_map, other._trainer

    def data(self, ctx: Any = None) -> Any:
        return self._check_and_get(self._data, ctx) / 2


@pytest.mark.parametrize("hybrid", [False, True])
def test_a_parameter_may_take_the_place_of_another_and_its_arrays(hybrid: bool):
    layer = gluon.nn.Dense(2, in_units=3, use_bias=False)
    layer.initialize(mx.init.One(), ctx=[mx.cpu(0), mx.cpu(1)])
    halved = Halved(layer.weight)
    layer._reg_params["weight"] = layer.params._params[halved.name] = halved
    object.__setattr__(layer, "weight", halved)  # blocks refuse it otherwise
    layer.hybridize(hybrid)
    assert layer(mx.nd.ones((1, 3), ctx=mx.cpu(1))).asnumpy().tolist() == [[1.5, 1.5]]


def test_an_array_may_take_the_place_of_a_parameters_own():
    """MXFusion and Xfer compute so with drawn weights, and with their gradients."""
    layer: Any = gluon.nn.Dense(2, in_units=3, use_bias=False)
    layer.initialize(mx.init.One(), ctx=[mx.cpu(1), mx.cpu(3)])
    x = mx.nd.ones((1, 3), ctx=mx.cpu(3))
    places = layer.weight._ctx_map[mx.cpu().device_typeid & 1]
    assert (places, layer.weight._ctx_map[mx.gpu().device_typeid & 1]) == ([None, 0, None, 1], [])
    for _ in range(2):
        scale: Any = mx.nd.array([[2], [3]], ctx=mx.cpu(3))
        scale.attach_grad()
        with mx.autograd.record():
            layer.weight._data[places[3]] = scale * mx.nd.ones((2, 3), ctx=mx.cpu(3))
            y = layer(x)
        y.backward()
        assert (y.asnumpy().tolist(), scale.grad.asnumpy().tolist()) == ([[6, 9]], [[3], [3]])


def test_an_optimizer_asks_for_the_rates_of_several_parameters():
    optimizer = mx.optimizer.create("sgd", learning_rate=0.5, wd=0.1, param_idx2name={0: "a_weight", 1: "b_bias"})
    optimizer.set_lr_mult({"a_weight": 2.0})
    assert optimizer._get_lrs([0, 1]) == [1.0, 0.5]
    assert optimizer._get_wds([0, 1]) == [0.1, 0.0]


def test_modules_have_what_libraries_import_of_them():
    assert importlib.import_module("lowering.mx.contrib.amp.amp")._amp_initialized is False
    method = importlib.import_module("lowering.mx.image.image")._get_interp_method
    convolution = importlib.import_module("lowering.mx.gluon.model_zoo.vision.resnet")._conv3x3(4, 2, 3)
    assert convolution._kwargs["stride"] == (2, 2)
    assert [method(9, sizes) for sizes in ((4, 4, 8, 8), (8, 8, 4, 4), (4, 8, 8, 4))] == [2, 3, 1]


def test_a_loader_with_processes_of_its_own_is_refused_by_name():
    loader = gluon.data.DataLoader(gluon.data.SimpleDataset([1, 2]), batch_size=1, pin_memory=True)
    dataloader = importlib.import_module("lowering.mx.gluon.data.dataloader")
    with pytest.raises(ValueError, match=r"num_workers=0"):
        dataloader._MultiWorkerIter(None, None, None, pin_memory=loader._pin_memory)


@pytest.mark.parametrize("functions", [mx.nd.contrib, mx.sym.contrib])
def test_groups_of_functions_list_them_in_their_dict(functions: Any):
    """GluonCV asks so whether an operator is there, and writes its network otherwise where it is not."""
    assert {"box_encode", "box_decode", "foreach"} <= functions.__dict__.keys()


@pytest.mark.parametrize("module", [mx.nd, mx.sym])
def test_a_module_lists_functions_and_each_of_its_names_is_there(module: Any):
    members = dict(inspect.getmembers(module))
    assert {"FullyConnected", "power", "histogram", "split_v2"} <= members.keys()
    assert not {"OperatorFunction", "automatic_names", "list_all_names"} & members.keys()


def test_arguments_by_mxnets_names():
    x, symbol = mx.nd.array([2, 3]), mx.sym.var("x")
    assert mx.nd.power(base=x, exp=2).asnumpy().tolist() == [4, 9]
    assert mx.nd.power(exp=x, base=2).asnumpy().tolist() == [4, 8]
    for power in (mx.sym.power, mx.sym.pow):
        assert power(base=symbol, exp=2, name="y").eval(x=x)[0].asnumpy().tolist() == [4, 9]
        assert power(exp=3, base=2) == 8
    assert mx.sym.Group(symbols=[symbol, symbol * 2]).list_outputs()[0] == "x"
    assert mx.recordio.unpack(s=mx.recordio.pack(mx.recordio.IRHeader(0, 1.0, 2, 0), s=b"content"))[1] == b"content"
    assert mx.np.ones(2).as_in_context(context=mx.cpu(0)).tolist() == [1, 1]
    assert mx.metric.PCC(has_global_stats=False).name == "pcc"
    both: Any = mx.metric.CompositeEvalMetric(["acc"])
    both.update_dict(labels={"a": mx.nd.array([1])}, preds={"b": mx.nd.array([[0.3, 0.7]])})
    assert both.get()[1] == [1]
