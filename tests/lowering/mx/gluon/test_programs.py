"""A hybridised block is one program: one forward, one backward from its residuals, one call on the tape."""

from typing import Any

import jax
import numpy as np
import pytest

import lowering
from lowering import mx
from lowering.mx import gluon
from lowering.mx.gluon import nn
from lowering.mx.tape import recording


def network(*layers: Any, active: bool = True) -> Any:
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(*layers)
    net.initialize()
    if active:
        net.hybridize()
    return net


def data(*shape: int) -> Any:
    return mx.nd.array(np.random.RandomState(0).randn(*shape))


def deep() -> Any:
    return network(nn.Conv2D(3, 3, activation="relu"), nn.BatchNorm(), nn.Flatten(), nn.Dense(2))


def test_a_call_is_one_call_on_the_tape():
    net, x = deep(), data(2, 1, 5, 5)
    with mx.autograd.record():
        out = net(x)
    call, number = out.entry
    assert isinstance(call, recording.Call)
    assert number == 0
    assert all(entry is None or isinstance(entry, recording.Leaf) for entry in call.entries)
    assert sum(entry is not None for entry in call.entries) == 6
    out.backward()
    assert call.forgotten
    assert call.residuals is None  # residuals are freed


def test_the_backward_pass_computes_nothing_of_the_forward_pass_again():
    ran: list[str] = []

    class Watched(mx.operator.CustomOp):
        def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            ran.append("forward")
            self.assign(out_data[0], req[0], in_data[0] * 2)

        def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
            ran.append("backward")
            self.assign(in_grad[0], req[0], out_grad[0] * 2)

    @mx.operator.register("gluon_watched")
    class _(mx.operator.CustomOpProp):
        def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> Any:
            return Watched()

    net = network(nn.HybridLambda(lambda F, x: F.Custom(x, op_type="gluon_watched")), nn.Dense(1, in_units=3))
    x = data(2, 3)
    x.attach_grad()
    with mx.autograd.record():
        out = net(x)
    assert ran == ["forward"]
    out.backward()
    assert ran == ["forward", "backward"]
    weight = net[1].weight.data().asnumpy()
    np.testing.assert_allclose(x.grad.asnumpy(), 2 * np.repeat(weight, 2, 0), rtol=1e-6)
    assert net(x).shape == (2, 1)


def test_residuals_of_two_calls_are_apart():
    net = network(nn.Dense(2, activation="sigmoid", in_units=3, use_bias=False))
    xs = [data(1, 3), data(1, 3) * 2]
    with mx.autograd.record():
        outs = [net(x) for x in xs]
        total = outs[0] + outs[1] * 3
    total.backward()
    whole = net[0].weight.grad().asnumpy()
    parts = []
    for x, factor in zip(xs, (1, 3), strict=True):
        with mx.autograd.record():
            out = net(x) * factor
        out.backward()
        parts.append(net[0].weight.grad().asnumpy())
    np.testing.assert_allclose(whole, sum(parts), rtol=1e-5)


def test_gradients_of_inputs_and_of_chained_programs():
    first, second = network(nn.Dense(4, activation="tanh")), network(nn.Dense(1))
    x = data(2, 3)
    x.attach_grad()
    with mx.autograd.record():
        out = second(first(x) * 2)
    out.backward()
    gradient = x.grad.asnumpy()
    first.hybridize(False)
    second.hybridize(False)
    with mx.autograd.record():
        out = second(first(x) * 2)
    out.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), gradient, rtol=1e-5, atol=1e-6)


def test_programs_have_second_gradients():
    net, x = network(nn.Dense(1, activation="tanh")), data(1, 3)
    x.attach_grad()
    found = []
    for _ in range(2):
        with mx.autograd.record():
            (first,) = mx.autograd.grad(net(x), [x], create_graph=True, retain_graph=True)
            total = (first * first).sum()
        total.backward()
        found.append(x.grad.asnumpy())
        net.hybridize(False)
    assert np.abs(found[0]).max() > 0
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-6)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("active", [True, False])
def test_batch_norm_writes_its_statistics_at_a_recorded_forward_in_training_alone(active: bool):
    net, x = network(nn.BatchNorm(in_channels=2), active=active), data(4, 2) + 3
    mean = net[0].running_mean
    net(x)
    assert not mean.data().asnumpy().any()
    with mx.autograd.record(train_mode=False):
        net(x)
    assert not mean.data().asnumpy().any()
    with mx.autograd.record():
        out = net(x)
    expected = 0.1 * x.asnumpy().mean(0)
    np.testing.assert_allclose(mean.data().asnumpy(), expected, rtol=1e-5)
    out.backward()
    np.testing.assert_allclose(mean.data().asnumpy(), expected, rtol=1e-5)
    with mx.autograd.train_mode():  # without record
        net(x)
    np.testing.assert_allclose(mean.data().asnumpy(), expected, rtol=1e-5)
    net.collect_params().setattr("grad_req", "null")
    for frozen in (True, False):  # all is frozen; or what is below is not
        if not frozen:
            x.attach_grad()
        with mx.autograd.record():
            net(x)
        np.testing.assert_allclose(mean.data().asnumpy(), expected if frozen else 1.9 * expected, rtol=1e-5)


@pytest.mark.parametrize("active", [True, False])
def test_a_gamma_that_is_fixed_is_set_as_mxnet_sets_it(active: bool):
    net, x = network(nn.BatchNorm(in_channels=2, scale=False), active=active), data(4, 2)
    gamma = net[0].gamma
    net(x)  # a hybrid block's first call does what those after it do
    gamma.set_data(mx.nd.array([0.25, 4]))
    net(x)
    assert gamma.data().asnumpy().tolist() == ([0.25, 4] if active else [1, 1])
    gamma.set_data(mx.nd.array([0.25, 4]))
    with mx.autograd.record():
        net(x)
    assert gamma.data().asnumpy().tolist() == [1, 1]


@pytest.mark.parametrize("active", [True, False])
def test_the_train_flag_is_that_of_the_call(active: bool):
    net, x = network(nn.Dropout(0.5), active=active), mx.nd.ones((20, 20))
    assert (net(x).asnumpy() == 1).all()
    with mx.autograd.record():
        assert set(np.unique(net(x).asnumpy())) == {0, 2}
        with mx.autograd.predict_mode():
            assert (net(x).asnumpy() == 1).all()
    with mx.autograd.train_mode():
        assert set(np.unique(net(x).asnumpy())) == {0, 2}


@pytest.mark.parametrize("active", [True, False])
def test_the_tape_is_used_up_by_a_backward_pass_unless_it_is_kept(active: bool):
    net, x = network(nn.Dense(2), active=active), data(2, 3)
    x.attach_grad()
    with mx.autograd.record():
        out = net(x)
    out.backward(retain_graph=True)
    first = x.grad.asnumpy()
    out.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), first)
    with pytest.raises(mx.MXNetError, match="retain_graph=True"):
        out.backward()


@pytest.mark.parametrize("active", [True, False])
def test_what_was_recorded_is_not_written_under_record(active: bool):
    net, x = network(nn.Dense(2), active=active), data(2, 3)
    x.attach_grad()
    with mx.autograd.record():
        out = net(x)
        with pytest.raises(mx.MXNetError, match="already in a computational graph"):
            out += 1
        with pytest.raises(mx.MXNetError, match="already in a computational graph"):
            out[0] = 1


@pytest.mark.parametrize("active", [True, False])
def test_dropout_draws_anew_at_each_call(active: bool):
    net, x = network(nn.Dropout(0.5), active=active), mx.nd.ones((20, 20))
    x.attach_grad()
    drawn = []
    for _ in range(2):
        with mx.autograd.record():
            out = net(x)
        out.backward()
        drawn.append(out.asnumpy())
        np.testing.assert_array_equal(
            mx.nd.array(x.grad).asnumpy(), drawn[-1]
        )  # the gradient drops what the pass dropped
    assert (drawn[0] != drawn[1]).any()
    mx.random.seed(3)
    with mx.autograd.record():
        first = net(x).asnumpy()
    mx.random.seed(3)
    with mx.autograd.record():
        np.testing.assert_array_equal(net(x).asnumpy(), first)


@pytest.mark.slow("compiles")
@lowering.effort("full")
def test_inference_is_a_predictors_as_long_as_parameters_stay():
    net, x = deep(), data(2, 1, 5, 5)
    outputs = [net(x).asnumpy() for _ in range(2)]
    serving = net._cached_op._serving
    assert serving._predictor is not None
    np.testing.assert_array_equal(outputs[0], outputs[1])
    net[3].bias.set_data(mx.nd.ones((2,)))
    np.testing.assert_allclose(net(x).asnumpy(), outputs[0] + 1, rtol=1e-5, atol=1e-6)
    assert serving._predictor is None  # until they have stayed for some calls
    for _ in range(64):
        net(x)
    assert serving._predictor is not None
    with mx.autograd.record():
        net(x)
    assert serving._predictor is None  # what trains holds no old parameters
    assert not serving._parameters


def test_blocks_that_draw_or_read_labels_are_served_without_a_predictor():
    class Noise(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return x + F.random.uniform(shape=(2,))

    net = Noise()
    net.hybridize()
    assert (net(mx.nd.ones((2,))).asnumpy() != net(mx.nd.ones((2,))).asnumpy()).any()
    head = gluon.SymbolBlock(
        mx.sym.SoftmaxOutput(mx.sym.var("data"), mx.sym.var("label"), name="softmax"),
        [mx.sym.var("data"), mx.sym.var("label")],
    )
    np.testing.assert_allclose(head(mx.nd.zeros((1, 4)), mx.nd.zeros((1,))).asnumpy(), [[0.25] * 4])


def test_loss_heads_inside_a_program_need_no_head_gradient():
    label, x = mx.nd.array([1]), data(1, 3)
    x.attach_grad()
    head = gluon.SymbolBlock(
        mx.sym.SoftmaxOutput(mx.sym.var("data"), mx.sym.var("label"), name="softmax"),
        [mx.sym.var("data"), mx.sym.var("label")],
    )
    with mx.autograd.record():
        out = head(x, label)
    out.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), out.asnumpy() - [[0, 1, 0]], rtol=1e-5)


def test_other_shapes_run_by_the_same_block():
    net = network(nn.Conv2D(2, 3), nn.GlobalAvgPool2D(), nn.Flatten())
    for size in (5, 6, 5):
        with mx.autograd.record():
            assert net(data(size, 1, size, size)).shape == (size, 2)
        assert net(data(size, 1, size, size)).shape == (size, 2)


def test_one_context_is_asked_for():
    net = network(nn.HybridLambda(lambda F, x: x))

    class Sum(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any, y: Any) -> Any:
            return x + y

    total = Sum()
    total.hybridize()
    with pytest.raises(ValueError, match="only supports one input context"):
        total(mx.nd.ones((1,), ctx=mx.cpu(0)), mx.nd.ones((1,), ctx=mx.cpu(1)))
    assert net(mx.nd.ones((1,))).asscalar() == 1


def test_a_block_that_is_changed_is_traced_anew():
    net, x = network(nn.Dense(3)), data(1, 2)
    assert net(x).shape == (1, 3)
    net.add(nn.Dense(4))
    net[1].initialize()
    assert net(x).shape == (1, 4)
    with jax.enable_x64(True):
        net.cast("float64")
        assert net(mx.nd.ones((1, 2), dtype="float64")).dtype == np.float64


@pytest.mark.parametrize("monitor_all", [False, True])
def test_a_hook_is_told_of_operators_as_in_mxnet_and_changes_no_gradient(monitor_all: bool):
    net = nn.HybridSequential(prefix="n_")
    with net.name_scope():
        net.add(nn.Dense(2, activation="relu", in_units=3))
    whole = nn.Sequential()
    whole.add(net)
    net.initialize(mx.init.One())
    x, weight = mx.nd.array([[1.0, 2.0, 3.0]]), net[0].weight

    def gradient() -> np.ndarray:
        with mx.autograd.record():
            loss = whole(x).square().sum()
        loss.backward()
        return weight.grad().asnumpy()

    net.hybridize()
    expected = gradient()
    told: list[tuple[str, str]] = []
    values: dict[str, np.ndarray] = {}

    def hook(name: str, operator: str, value: mx.nd.NDArray) -> None:
        told.append((name, operator))
        values[name] = value.asnumpy()

    whole.register_op_hook(hook, monitor_all)
    np.testing.assert_array_equal(gradient(), expected)
    inputs = [("n_dense0_fwd_data", "FullyConnected"), ("n_dense0_fwd_weight", "FullyConnected")]
    inputs += [("n_dense0_fwd_bias", "FullyConnected")]
    dense, relu = ("n_dense0_fwd_output", "FullyConnected"), ("n_dense0_relu_fwd_output", "Activation")
    every = [*inputs, dense, ("n_dense0_relu_fwd_input0", "Activation"), relu]
    assert told == (every if monitor_all else [dense, relu])
    np.testing.assert_array_equal(values["n_dense0_fwd_output"], [[6.0, 6.0]])
    told.clear()
    whole(x)
    assert told == (every if monitor_all else [dense, relu])
