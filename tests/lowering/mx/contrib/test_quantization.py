"""`mx.contrib.quantization`: MXNet's functions give the model of `symjax_nnvm.quantize`."""

from __future__ import annotations

import numpy as np
import pytest

import symjax_nnvm as nn
from lowering import mx
from tests.quantization.networks import NETWORKS, batches, parameters

quantization = mx.contrib.quantization


@pytest.fixture(scope="module")
def model():
    build, shape = NETWORKS["mlp"]
    net = build(mx.sym)
    args, _ = parameters(net, shape)
    return net, {name: mx.nd.array(a) for name, a in args.items()}, {}


def data():
    return mx.io.NDArrayIter(np.concatenate(batches("mlp")), np.zeros(12), batch_size=4)


def test_quantize_model_is_symjax_nnvms(model):
    net, args, aux = quantization.quantize_model(*model, calib_mode="naive", calib_data=data(), quantized_dtype="auto")
    same = nn.quantize(*model, calibration=batches("mlp"), mode="naive", dtype="auto")
    assert net.tojson() == same.net.tojson()
    assert args.keys() == same.args.keys()
    assert aux == {}
    for name, array in args.items():
        assert isinstance(array, mx.nd.NDArray)
        np.testing.assert_array_equal(array.asnumpy(), np.asarray(same.args[name]))
    assert args["fc1_weight_quantize"].dtype == np.int8


def test_a_collector_of_ones_own_sets_the_ranges(model):
    class Unit(quantization.CalibrationCollector):
        def collect(self, name, array):
            self.min_max_dict[name] = -1.0, 1.0

    net, args, aux = model
    made = quantization.quantize_graph(net, args, aux, calib_mode="customize", LayerOutputCollector=Unit())
    collector = made[-1]
    assert set(collector.include_layers) == {"data", "fc1_output", "tanh_output", "fc2_output", "fc3_output"} | {
        *("mul_output", "add_output", "fc4_output")
    }
    with pytest.raises(mx.MXNetError, match="never reach data"):
        quantization.calib_graph(made[0], args, aux, collector, "customize")
    for name in collector.include_layers:
        collector.collect(name, np.zeros(1))
    net, _, _ = quantization.calib_graph(made[0], args, aux, collector, "customize")
    assert net.attr_dict()["data_quantize"]["max_calib_range"] == "1.000000"


def test_quantize_net_makes_a_block():
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(4, in_units=3, activation="relu"), mx.gluon.nn.Dense(2, in_units=4))
    net.initialize()
    net.hybridize()
    batch = mx.nd.array(np.random.RandomState(0).standard_normal((5, 3)))
    net(batch)
    block = quantization.quantize_net_v2(net, calib_data=[batch], calib_mode="naive")
    dtypes = {name: parameter.data().dtype for name, parameter in block.collect_params().items()}
    assert sum(dtype == np.int8 for dtype in dtypes.values()) == 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"calib_mode": "kl"}, "calib_mode='kl'"),
        ({"quantized_dtype": "int4"}, "quantized_dtype='int4'"),
        ({"quantize_granularity": "channel-wise"}, "quantize_granularity='channel-wise'"),
        ({}, "calib_data must be provided.*calib_mode='none'"),
    ],
)
def test_what_it_does_not_take_is_told(model, options, words):
    with pytest.raises(mx.MXNetError, match=words):
        quantization.quantize_model(*model, **options)
