"""`mx.contrib.amp`: casts around products, and nothing else changes."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from lowering import mx
from lowering.mx import mixed_precision

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


@pytest.mark.slow("compiles")
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
    with pytest.raises(mx.MXNetError, match="This dtype is not a half precision"):
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


def block() -> Any:
    """Two layers, hybridised."""
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(mx.gluon.nn.Dense(4, activation="relu"), mx.gluon.nn.Dense(2))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def test_a_block_is_converted():
    net = block()
    x = mx.nd.array(np.linspace(-1, 1, 12).reshape(2, 6))
    with pytest.raises(RuntimeError, match=r"first call block.hybridize\(\)"):
        amp.convert_hybrid_block(net)
    expected = net(x).asnumpy()
    half = amp.convert_hybrid_block(net, "bfloat16")
    assert dict(half.collect_params().items()) == dict(net.collect_params().items())
    found = half(x).asnumpy()
    assert found.dtype == np.float32
    assert 0 < np.abs(found - expected).max() < 0.02


@pytest.fixture
def switched_off(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`amp.init` may be called; after the test it has not been."""
    monkeypatch.setattr(amp.amp, "_amp_initialized", False)
    yield
    mixed_precision.switch_on(None)


@pytest.mark.usefixtures("switched_off")
@pytest.mark.parametrize("dtype", ["float16", np.float16, "bfloat16", amp.bfloat16])
def test_after_init_what_is_traced_or_bound_has_casts(dtype: Any, caplog: pytest.LogCaptureFixture):
    x = mx.nd.array(np.linspace(-1, 1, 12).reshape(2, 6))
    net, before = block(), block()
    expected, old = net(x), before(x)
    with caplog.at_level("INFO"):
        amp.init(dtype)
        amp.init("float64")  # only the first call counts
    assert caplog.messages == ["Using AMP"]
    assert (before(x) == old).asnumpy().all()  # traced before
    net.hybridize()
    found = net(x)
    assert found.dtype == np.float32
    assert 0 < np.abs((found - expected).asnumpy()).max() < 0.02
    _, symbol = net.traced_symbol("show")
    assert any(name.endswith("16_output") for name in symbol.get_internals().list_outputs())
    data, weight = mx.sym.var("data"), RNG.standard_normal((3, 6)).astype("float32")
    product = mx.sym.FullyConnected(data, num_hidden=3, no_bias=True, name="fc")
    exact = x.asnumpy() @ weight.T
    bound = product.bind(mx.cpu(), {"data": x, "fc_weight": mx.nd.array(weight)}, grad_req="null")
    simple = product.simple_bind(mx.cpu(), data=(2, 6), grad_req="null")
    simple.copy_params_from({"fc_weight": mx.nd.array(weight)})
    for output in (bound.forward()[0], simple.forward(data=x)[0]):
        assert output.dtype == np.float32
        assert 1e-6 < np.abs(output.asnumpy() - exact).max() < 0.05
    with jax.enable_x64(True):
        args = {"data": mx.nd.array(x, dtype="float64"), "fc_weight": mx.nd.array(weight, dtype="float64")}
        whole = product.bind(mx.cpu(), args).forward()[0]
        assert whole.dtype == np.float64
        np.testing.assert_allclose(whole.asnumpy(), exact, rtol=1e-6)  # what is no float32 is not cast


@pytest.mark.usefixtures("switched_off")
def test_a_scaled_loss_trains_as_an_exact_one_does(tmp_path: Path):
    x = mx.nd.array(np.linspace(-1, 1, 12).reshape(2, 6))
    exact, half = block(), block()
    exact(x)
    exact.save_parameters(str(tmp_path / "values"))
    half.load_parameters(str(tmp_path / "values"))
    amp.init()
    trained = []
    for net in (exact, half):
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, update_on_kvstore=False)
        if net is half:
            amp.init_trainer(trainer)
        for _ in range(3):
            with mx.autograd.record():
                loss = ((net(x) - 1) ** 2).mean() * 1e-6  # its gradients are below what float16 holds
                loss = loss if net is exact else [loss]
                with nullcontext([loss]) if net is exact else amp.scale_loss(loss, trainer) as scaled:
                    mx.autograd.backward(scaled)
            if net is half:
                amp.unscale(trainer)
            trainer.step(1e-6)
        trained.append([param.data().asnumpy() for param in net.collect_params().values()])
    for found, expected in zip(*trained, strict=True):
        np.testing.assert_allclose(found, expected, atol=5e-3)
    assert any(np.abs(found - expected).max() > 0 for found, expected in zip(*trained, strict=True))


@pytest.mark.usefixtures("switched_off")
def test_a_step_that_overflows_is_left_out(caplog: pytest.LogCaptureFixture):
    amp.init()
    net, x = block(), mx.nd.ones((2, 6))
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    amp.init_trainer(trainer)
    scaler = trainer._amp_loss_scaler
    before = None
    scales = []
    for factor in (0.01, 1e38, 0.01, 0.01):
        with mx.autograd.record():
            loss = net(x).mean() * factor
            with amp.scale_loss(loss, trainer) as scaled:
                scaled.backward()
        before = net[0].weight.data().asnumpy()
        with caplog.at_level("INFO"):
            trainer.step(1)
        assert (net[0].weight.data().asnumpy() == before).all() == (factor > 1)
        scales.append(scaler.loss_scale)
    assert scales == [2.0**16, 2.0**16, 2.0**15, 2.0**15]  # the next step has the smaller one
    assert "AMP: decreasing loss scale to 32768.000000" in caplog.messages
    scaler._unskipped = 1999
    assert not scaler.has_overflow(net.collect_params().values())
    assert not scaler.has_overflow(net.collect_params().values())
    assert scaler.loss_scale == 2.0**16


@pytest.mark.usefixtures("switched_off")
def test_errors_of_init():
    trainer = mx.gluon.Trainer(block().collect_params(), "sgd")
    with pytest.raises(AssertionError, match="did you forget to call amp.init()"):
        amp.init_trainer(trainer)
    with pytest.raises(AssertionError, match="AMP currently supports only float16 or bfloat16"):
        amp.init("float64")
    amp.init()
    with pytest.raises(TypeError, match="only compatible with a Gluon Trainer"):
        amp.init_trainer(mx.optimizer.create("sgd"))
    with pytest.raises(AssertionError, match="did you forget to call amp.init_trainer()"), amp.scale_loss(1, trainer):
        pass


def test_what_is_no_hybrid_block_is_not_converted():
    with pytest.raises(AssertionError, match="should be a HybridBlock; got Sequential"):
        mx.contrib.amp.convert_hybrid_block(mx.gluon.nn.Sequential())  # pyright: ignore[reportArgumentType]
