"""`mx.contrib.quantization`: MXNet's functions give the model of `symjax_nnvm.quantize`."""

import re

import numpy as np
import pytest

import lowering
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


def test_scripts_take_names_from_it_by_a_star(model, tmp_path):
    """As MXNet's examples do, which save by its `cpu`."""
    names: dict[str, object] = {"mx": mx, "model": model, "path": str(tmp_path / "params")}
    exec(
        "from lowering.mx.contrib.quantization import *\n"
        "args = quantize_model(*model, ctx=cpu(), calib_mode='none')[1]\n"
        "mx.nd.save(path, {name: array.as_in_context(cpu()) for name, array in args.items()})",
        names,
    )
    assert "fc1_weight_quantize" in mx.nd.load(str(tmp_path / "params"))


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


def test_quantize_net_calls_and_fuses_a_block():
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(4, activation="relu"), mx.gluon.nn.Dropout(0.5), mx.gluon.nn.Dense(2))
    net.initialize()
    batch = mx.nd.array(np.random.RandomState(0).standard_normal((5, 3)))
    with pytest.raises(mx.MXNetError, match="data_shapes required.*call the block before"):
        quantization.quantize_net(net)
    with pytest.raises(mx.MXNetError, match="data_shapes required"):
        quantization.quantize_net(net, calib_data=[])
    with pytest.raises(mx.MXNetError, match="needs a LayerOutputCollector"):
        quantization.quantize_net_v2(net, data_shapes=[(5, 3)], calib_mode="customize")
    loader = [(batch, mx.nd.zeros(5))]  # the second is no input, but labels
    block = quantization.quantize_net(net, "auto", "full", None, None, None, loader, None, "naive")
    symbol = block(mx.sym.var("data"))
    assert [entry.name for entry in symbol.get_internals() if "sg_mkldnn" in entry.name] == [
        *["quantized_sg_mkldnn_fully_connected_eltwise_0"] * 3, "quantized_sg_mkldnn_fully_connected_1"
    ]  # fmt: skip
    np.testing.assert_allclose(block(batch).asnumpy(), net(batch).asnumpy(), atol=0.01)


def test_a_blocks_own_mistake_is_told_and_labels_are_left_out():
    class Sum(mx.gluon.HybridBlock):
        fails = True

        def hybrid_forward(self, F, x, y):
            if self.fails:
                raise TypeError("a mistake of the block")
            return F.FullyConnected(x, y, num_hidden=3, no_bias=True)

    loader, block = [(mx.nd.ones((2, 4)), mx.nd.ones((3, 4)), mx.nd.zeros(2))], Sum()
    with pytest.raises(TypeError, match="a mistake of the block"):
        quantization.quantize_net(block, calib_data=loader)
    block.fails = False
    assert len(quantization.quantize_net(block, calib_data=loader)(mx.sym.var("x"), mx.sym.var("y")).list_inputs()) == 2


def module(net):
    made = mx.mod.Module(net)
    made.bind([("data", (4, 12))], [("softmax_label", (4,))], for_training=False)
    return made


INPUTS = {"data": mx.nd.ones((4, 12)), "softmax_label": mx.nd.ones(4)}
DOORS = {
    "Predictor": lambda net, arrays, prefix: lowering.Predictor(net, arrays),
    "Model": lambda net, arrays, prefix: nn.Model(net, arrays).dequantized(),
    "to_onnx": lambda net, arrays, prefix: nn.to_onnx(net, arrays, shapes={"data": (4, 12)}),
    "bind": lambda net, arrays, prefix: net.bind(mx.cpu(), arrays | INPUTS),
    "Module": lambda net, arrays, prefix: module(net).set_params(arrays, {}),
    "Model.load": lambda net, arrays, prefix: nn.Model.load(prefix),
    "imports": lambda net, arrays, prefix: mx.gluon.SymbolBlock.imports(
        f"{prefix}-symbol.json", [*INPUTS], f"{prefix}-0000.params"
    ),
}


@pytest.fixture(scope="module")
def mixed(model):
    """A network of integers, and arrays that do not belong to it by what is said of them."""
    made = nn.quantize(*model, mode="none")
    arrays = {name: np.asarray(array) for name, array in made.args.items()}
    low, high = "fc1_weight_quantize_min", "fc1_weight_quantize_max"
    cases = {
        "The network is of 8-bit integers, the arrays are floats": {k: a.asnumpy() for k, a in model[1].items()},
        "The 8-bit parameter 'fc1_weight_quantize' holds floats": {k: a.astype(np.float32) for k, a in arrays.items()},
        r"'fc1_weight_quantize' has no range.*got \[0": arrays | {low: arrays[high], high: arrays[low]},
        r"'fc1_weight_quantize' has no range.*got \[nan": arrays | {low: np.array([np.nan], np.float32)},
    }
    return mx.sym.load_json(made.net.tojson()), cases


@pytest.mark.parametrize("door", DOORS)
def test_arrays_that_are_no_8_bit_parameters_are_told_at_each_door(mixed, door, tmp_path):
    net, cases = mixed
    net.save(f"{tmp_path}/net-symbol.json")
    for words, numpy in cases.items():
        arrays = {name: mx.nd.array(array, dtype=array.dtype) for name, array in numpy.items()}
        mx.nd.save(f"{tmp_path}/net-0000.params", {f"arg:{name}": array for name, array in arrays.items()})
        with pytest.raises(mx.MXNetError) as told:
            DOORS[door](net, arrays, f"{tmp_path}/net")
        assert re.search(words, str(told.value), re.DOTALL), told.value
        assert "symjax_nnvm.dequantized(symbol)" in str(told.value)


def test_a_layer_is_fused_with_its_only_reader():
    """MXNet's own fusing drops the activation, and adds the convolution's result to itself."""
    conv = mx.sym.Convolution(mx.sym.var("data"), kernel=(1, 1), num_filter=2, name="conv")
    kinds = {n.name for n in (mx.sym.relu(conv) + conv).get_backend_symbol("MKLDNN_QUANTIZE").get_internals()}
    assert {"sg_mkldnn_conv_0", "relu0", "_plus0"} <= {re.sub(r"\d+$", "0", name) for name in kinds}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"calib_mode": "kl"}, "calib_mode='kl'"),
        ({"quantized_dtype": "int4"}, "quantized_dtype='int4'"),
        ({"quantize_granularity": "row-wise"}, "quantize_granularity='row-wise'"),
        ({"calib_mode": "customize"}, "calib_mode='customize'.*'none' or 'naive' or 'entropy'"),
        ({"excluded_sym_names": "fc1"}, "excluded_sym_names must be a list of strings"),
        ({"calib_data": [1]}, r"A batch of calib_data must be an array.*got int.*calib_data=\[batch, …\]"),
        ({"calib_data": 1}, r"calib_data must be batches.*got int.*calib_data=\[batch, …\]"),
        ({}, "calib_data must be provided.*calib_mode='none'"),
    ],
)
def test_what_it_does_not_take_is_told(model, options, words):
    with pytest.raises(mx.MXNetError, match=words):
        quantization.quantize_model(*model, **options)


@pytest.mark.parametrize("make", [quantization.quantize_model, quantization.quantize_model_mkldnn])
def test_names_that_exclude_nothing_are_warned_of(model, make):
    """MXNet accepts them without a word."""
    with pytest.warns(UserWarning, match=r"No layer of the network to exclude: 'fc9'\. Did you mean 'fc"):
        made = make(*model, calib_mode="none", excluded_sym_names=["fc1", "fc9"])
    assert made[0].tojson() == make(*model, calib_mode="none", excluded_sym_names=["fc1"])[0].tojson()
    with pytest.warns(UserWarning, match="No operator to exclude: 'FullyConnect'. Did you mean 'FullyConnected'"):
        make(*model, calib_mode="none", excluded_op_names=["FullyConnect"])


def test_names_that_exclude_nothing_of_a_block_are_warned_of():
    net = mx.gluon.nn.Dense(4, in_units=3, prefix="dense_")
    net.initialize()
    with pytest.raises(mx.MXNetError, match="exclude_layers must be a list of strings"):
        quantization.quantize_net(net, data_shapes=[(5, 3)], exclude_layers="dense")
    with pytest.warns(UserWarning, match="No part of a layer's name to exclude: 'conv'"):
        quantization.quantize_net(net, data_shapes=[(5, 3)], exclude_layers_match=["conv"])


def fit(model):
    made = mx.mod.Module(model.net)
    made.fit(data(), num_epoch=1, arg_params={k: mx.nd.array(a, dtype=a.dtype) for k, a in model.args.items()})


def gluon_step(model, trained=lambda name: True):
    block = mx.gluon.SymbolBlock(model.net, [mx.sym.var(name) for name in INPUTS])
    for name, param in block.collect_params().items():
        param.grad_req = "write" if trained(name) else "null"
        param.cast(model.args[name].dtype)
        param.shape = model.args[name].shape
        param.initialize()
        param.set_data(mx.nd.array(model.args[name], dtype=model.args[name].dtype))
    trainer = mx.gluon.Trainer(block.collect_params(), "sgd")
    with mx.autograd.record():
        out = block(*INPUTS.values())
    out.backward()
    trainer.step(4)
    return {name: param.data() for name, param in block.collect_params().items()}


TRAINERS = {
    "Trainer": (lambda model: lowering.Trainer(model.net), r"gradients end.*Model.dequantized\(\).*wrt=\["),
    "fit": (fit, r"fc1_weight.*gradients end.*Model.dequantized\(\).*fixed_param_names"),
    "gluon": (gluon_step, r"fc1_weight.*gradients end.*Model.dequantized\(\).*grad_req='null'"),
}


@pytest.mark.parametrize("how", [{}, {"fused": True}, {"fused": True, "granularity": "channel-wise"}], ids=str)
@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_network_of_integers_is_not_trained(model, trainer, how):
    """With a range for each row all its parameters are floats."""
    net, args, _ = model
    made = nn.quantize(net, {name: a.asnumpy() for name, a in args.items()}, mode="none", **how)
    train, words = TRAINERS[trainer]
    with pytest.raises(mx.MXNetError) as told:
        train(nn.Model(mx.sym.load_json(made.net.tojson()), made.args))
    assert re.search(words, str(told.value), re.DOTALL), told.value


def test_an_optimiser_leaves_integers_alone():
    weight = mx.nd.ones((2, 3), dtype=np.int8)
    with pytest.raises(mx.MXNetError, match=r"SGD updates only floats: 'w' cannot.*int8.*\.dequantized\(\)"):
        mx.optimizer.get_updater(mx.optimizer.create("sgd"))("w", weight, weight)


def test_layers_of_floats_after_integers_are_trained(model):
    net, args, _ = model
    made = nn.quantize(net, {name: a.asnumpy() for name, a in args.items()}, mode="none", excluded=["fc4"])
    of_fc4 = lambda name: "fc4" in name  # noqa: E731
    lowering.Trainer(made.net, wrt=["fc4_weight"])
    with pytest.raises(nn.GraphError, match="^fc1_weight_quantize cannot be trained"):
        lowering.Trainer(made.net, wrt=["fc1_weight_quantize", "fc4_weight"])
    module = mx.mod.Module(
        mx.sym.load_json(made.net.tojson()), fixed_param_names=[n for n in made.args if not of_fc4(n)]
    )
    module.bind([("data", (4, 12))], [("softmax_label", (4,))])
    module.set_params({k: mx.nd.array(a, dtype=a.dtype) for k, a in made.args.items()}, {})
    module.init_optimizer()
    batch = next(iter(data()))
    module.forward_backward(batch)
    module.update()
    learned = module.get_params()[0], gluon_step(nn.Model(mx.sym.load_json(made.net.tojson()), made.args), of_fc4)
    for after in learned:
        changed = [name for name, array in made.args.items() if not np.array_equal(after[name].asnumpy(), array)]
        assert sorted(changed) == ["fc4_bias", "fc4_weight"]
