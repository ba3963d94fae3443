"""`mx.contrib.amp`: casts around products, and nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowering import mx

amp = mx.contrib.amp
RNG = np.random.default_rng(6)


def network() -> mx.sym.Symbol:
    """Two layers."""
    first = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc1")
    active = mx.sym.Activation(first, act_type="relu", name="act")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(active, num_hidden=3, name="fc2"), name="softmax")


def casts(symbol: mx.sym.Symbol) -> list[str]:
    """The names of the casts."""
    return [
        name for name in symbol.get_internals().list_outputs() if name.endswith(("float16_output", "float32_output"))
    ]


def test_a_converted_network_trains():
    x = RNG.standard_normal((32, 4)).astype(np.float32)
    data = mx.io.NDArrayIter(x, (x[:, 0] > 0).astype(np.float32), 8)
    outputs = []
    weights = {"fc1_weight": (8, 4), "fc1_bias": (8,), "fc2_weight": (3, 8), "fc2_bias": (3,)}
    args = {name: mx.nd.array(RNG.standard_normal(shape) / 2) for name, shape in weights.items()}
    for kind in (None, "bfloat16", np.float16):
        symbol, given, states = (network(), args, {}) if kind is None else amp.convert_model(network(), args, {}, kind)
        assert (symbol.list_arguments(), states) == (network().list_arguments(), {})
        assert isinstance(symbol, mx.sym.Symbol)
        module = mx.mod.Module(symbol)
        data.reset()
        module.fit(data, num_epoch=1, arg_params=given, aux_params=states, optimizer_params={"learning_rate": 0.05})
        assert module.get_params()[0]["fc1_weight"].dtype == np.float32
        outputs.append(module.predict(data).asnumpy())
    for found in outputs[1:]:
        assert 0 < np.abs(found - outputs[0]).max() < 0.03
    np.testing.assert_allclose(outputs[2], outputs[0], atol=3e-3)


def test_what_is_cast():
    assert casts(network()) == []
    plain = casts(amp.convert_symbol(network()))
    assert {"data_float16_output", "fc1_weight_float16_output", "fc2_float32_output"} <= set(plain)
    assert "act_float32_output" not in plain
    assert casts(amp.convert_symbol(network(), fp32_ops=["FullyConnected"])) == []
    without = casts(amp.convert_symbol(network(), excluded_sym_names=["fc2"]))
    assert "fc1_weight_float16_output" in without
    assert "fc2_weight_float16_output" not in without
    relu = amp.convert_symbol(network(), conditional_fp32_ops=[("Activation", "act_type", ["relu", "softrelu"])])
    assert "fc1_float32_output" in casts(relu)
    assert casts(amp.convert_symbol(network(), conditional_fp32_ops=[("Activation", "act_type", ["tanh"])])) == plain
    more = amp.convert_symbol(mx.sym.exp(mx.sym.Variable("x"), name="e"), target_dtype_ops=["exp"])
    assert casts(more) == ["x_float16_output", "e_float32_output"]
    with pytest.raises(mx.MXNetError, match="No half precision"):
        amp.convert_symbol(network(), "float64")
    with pytest.raises(KeyError):
        amp.convert_symbol(network(), fp32_ops=["FullyConected"])


def test_buckets():
    def sym_gen(key: int) -> Any:
        return network(), ["data"], ["softmax_label"]

    module = mx.mod.BucketingModule(sym_gen, 4)
    shapes = [("data", (2, 4))], [("softmax_label", (2,))]
    assert casts(amp.convert_bucketing_module(module).symbol)
    module.bind(*shapes)
    module.init_params(mx.init.One())
    converted = amp.convert_bucketing_module(module, "float16")
    converted.bind(*shapes)
    assert casts(converted.symbol)
    assert converted.get_params()[0]["fc1_weight"].asnumpy().min() == 1


def test_lists():
    lists = [each("float16") for each in (amp.list_lp16_ops, amp.list_fp32_ops, amp.list_lp16_fp32_ops)]
    assert "Convolution" in lists[0]
    assert "SoftmaxOutput" in lists[1]
    assert "relu" in lists[2]
    assert sum(map(len, lists)) == len(set().union(*lists))
    assert amp.list_widest_type_cast("float16") == lists[2]
    assert amp.list_conditional_fp32_ops("float16") == []
    assert "SoftmaxOutput" in amp.list_loss_output_functions("float16")
    assert amp.list_lp16_use_fp32_params("float16") is None
    assert amp.amp.convert_symbol is amp.convert_symbol
    with pytest.warns(UserWarning, match="amp.init switches nothing on here. Convert networks by"):
        amp.init()


def test_a_block_is_converted_and_its_losses_need_no_scale():
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(mx.gluon.nn.Dense(4, activation="relu"), mx.gluon.nn.Dense(2))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    x = mx.nd.array(np.linspace(-1, 1, 12).reshape(2, 6))
    with pytest.raises(RuntimeError, match=r"first call block.hybridize\(\)"):
        amp.convert_hybrid_block(net)
    expected = net(x).asnumpy()
    half = amp.convert_hybrid_block(net, "bfloat16")
    assert dict(half.collect_params().items()) == dict(net.collect_params().items())
    found = half(x).asnumpy()
    assert found.dtype == np.float32
    assert 0 < np.abs(found - expected).max() < 0.02
    trainer = mx.gluon.Trainer(half.collect_params(), "sgd", {"learning_rate": 0.1})
    amp.init_trainer(trainer)
    with mx.autograd.record():
        loss = (half(x) ** 2).sum()
        with amp.scale_loss(loss, trainer) as scaled:
            scaled.backward()
    amp.unscale(trainer)
    trainer.step(1)
    assert float((half(x) ** 2).sum().asscalar()) < float(loss.asscalar())
