"""`mx.sym`, the executor over NDArrays, initialisers, names, and what `mx` says of what it has not."""

import copy
import json
import pickle
from typing import Any

import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from lowering import mx
from lowering.mx.compatibility import backends


def dense() -> mx.sym.Symbol:
    """data (n, 3) → (n, 2)."""
    return mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")


def test_symbols_stay_bindable_whatever_is_done_with_them():
    net = dense()
    others = [net + 1, net.relu(), net.get_internals()["fc_output"], net[0], net.copy(), net(data=dense()), -net]
    others += [
        mx.sym.Group([net, net]),
        mx.sym.load_json(net.tojson()),
        mx.sym.contrib.quadratic(net),
        net.grad(["data"]),
    ]
    assert {type(other) for other in others} == {mx.sym.Symbol}
    assert isinstance(net, nn.Symbol)


def test_an_executors_arrays_are_written_in_place():
    ex = dense().simple_bind(mx.cpu(), data=(1, 3))
    ex.arg_dict["fc_weight"][:] = 1
    ex.arg_dict["fc_bias"][1] = 5
    (out,) = ex.forward(is_train=True, data=mx.nd.array([[1, 2, 3]]))
    assert out.asnumpy().tolist() == [[6, 11]] == ex.outputs[0].asnumpy().tolist()
    ex.backward(mx.nd.ones((1, 2)))
    assert ex.grad_dict["fc_weight"].asnumpy().tolist() == [[1, 2, 3]] * 2  # pyright: ignore
    assert list(ex.output_dict) == ["fc_output"]
    assert len(ex.arg_arrays) == len(ex.grad_arrays) == 3


def test_arrays_that_are_bound_are_shared():
    """What the caller writes, the graph reads; and gradients are written to the caller's arrays."""
    x, y = mx.sym.Variable("x"), mx.sym.Variable("y")
    a, b, grad = mx.nd.array([1.0, 2]), mx.nd.array([3.0, 4]), mx.nd.zeros(2)
    ex = (x * y).bind(mx.cpu(), [a, b], args_grad={"x": grad})
    other = (x + 1).bind(mx.cpu(), {"x": a}, grad_req="null", effort="quick")
    a[:] = 10
    ex.forward(is_train=True)
    ex.backward([mx.nd.ones(2)])
    assert ex.outputs[0].asnumpy().tolist() == [30, 40]
    assert grad.asnumpy().tolist() == [3, 4]
    assert other.forward()[0].asnumpy().tolist() == [11, 11]
    assert (x * 2).eval(x=a)[0].asnumpy().tolist() == [20, 20]


def test_an_executor_for_other_shapes_shares_parameters():
    ex = dense().simple_bind(mx.cpu(), grad_req="null", data=(4, 3))
    small = ex.reshape(data=(2, 3))
    ex.copy_params_from({"fc_weight": mx.nd.ones((2, 3))})
    assert small.forward(data=mx.nd.ones((2, 3)))[0].asnumpy().tolist() == [[3, 3]] * 2


def test_a_monitor_sees_ndarrays():
    seen: list[str] = []
    ex = dense().simple_bind(mx.cpu(), data=(1, 3))
    ex.set_monitor_callback(lambda name, array: seen.append(f"{name} {type(array).__name__} {array.shape}"))
    ex.forward(is_train=False)
    assert seen == ["fc_output NDArray (1, 2)"]
    ex.reshape(allow_up_sizing=True, data=(2, 3)).forward(is_train=False)
    assert seen[1:] == ["fc_output NDArray (2, 2)"]


def test_simple_bind_reads_no_names_that_the_graph_does_not_have():
    ex = dense().simple_bind(mx.cpu(), data=(4, 3), force_rebind=True, softmax_label=(4,), axis=1)
    assert {name: array.shape for name, array in ex.arg_dict.items()} == {
        "data": (4, 3),
        "fc_weight": (2, 3),
        "fc_bias": (2,),
    }
    with pytest.raises(mx.MXNetError, match=r"The graph has no \['dat'\]"):
        dense().simple_bind(mx.cpu(), dat=(4, 3))


def test_initialisers_fill_arrays():
    array = mx.nd.zeros((2, 2))
    mx.init.Constant(3)("w_weight", array)
    assert array.asnumpy().tolist() == [[3, 3], [3, 3]]
    mx.init.Xavier(magnitude=2)(mx.init.InitDesc("w_weight"), array)
    assert 0 < np.abs(array.asnumpy()).max() < 3
    with pytest.raises(AttributeError, match="mx.init has no attribute 'Xaviar'. Did you mean 'Xavier'"):
        mx.init.Xaviar  # noqa: B018


def test_after_a_seed_values_are_the_same_whatever_the_names_are():
    def values(name: str, *initialisers: Any) -> list[float]:
        mx.random.seed(5)
        arrays = [mx.nd.zeros((3,)) for _ in initialisers]
        for initialiser, array in zip(initialisers, arrays, strict=True):
            initialiser(mx.init.InitDesc(f"{name}_weight"), array)
        return np.concatenate([array.asnumpy() for array in arrays]).tolist()

    some = mx.init.Normal(), mx.init.Uniform(), mx.init.Mixed([".*"], [mx.init.Normal()])
    assert values("fc0", *some) == values("fc1", *some)
    assert len(set(values("fc0", *some))) == 9

    def weight(name: str) -> np.ndarray:
        net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name=name)
        module = mx.mod.Module(net, label_names=None)
        module.bind([("data", (1, 3))])
        mx.random.seed(5)
        module.init_params(mx.init.Normal())
        return module.get_params()[0][f"{name}_weight"].asnumpy()

    np.testing.assert_array_equal(weight("first"), weight("second"))


def test_an_initialisers_methods_are_called_by_the_endings_of_names():
    class Own(mx.init.Initializer):
        def _init_weight(self, name: str, arr: mx.nd.NDArray) -> None:  # pyright: ignore
            arr[:] = 1

        def _init_gamma(self, name: str, arr: mx.nd.NDArray) -> None:  # pyright: ignore
            arr[:] = 2

        def _init_beta(self, name: str, arr: mx.nd.NDArray) -> None:  # pyright: ignore
            arr[:] = 3

        def _init_default(self, name: str, arr: mx.nd.NDArray) -> None:  # pyright: ignore
            arr[:] = 4

    class Length(mx.init.Initializer):
        def __call__(self, name: str, arr: mx.nd.NDArray) -> None:  # pyright: ignore
            arr[:] = len(name)

    array, found = mx.nd.zeros((1,)), {}
    for name in ("x_weight", "x_gamma", "x_beta", "x_bias", "x_foo"):
        Own()(mx.init.InitDesc(name), array)
        found[name] = array.asscalar()
    assert found == {"x_weight": 1, "x_gamma": 2, "x_beta": 3, "x_bias": 0, "x_foo": 4}
    module = mx.mod.Module(dense(), label_names=None)
    module.bind([("data", (1, 3))])
    module.init_params(Length())
    assert module.get_params()[0]["fc_bias"].asnumpy().tolist() == [7, 7]
    with pytest.raises(ValueError, match="Unknown initialization pattern for x_foo"):
        mx.init.Xavier()(mx.init.InitDesc("x_foo"), array)


def test_an_initialiser_in_mxnets_way():
    class Half(mx.init.Initializer):
        def _init_weight(self, name: str, arr: mx.nd.NDArray) -> None:  # pyright: ignore
            arr[:] = 0.5

    args, _ = lowering.init_params(dense(), {"data": (1, 3)}, 0, Half())
    assert np.asarray(args["fc_weight"]).tolist() == [[0.5] * 3] * 2
    assert not np.asarray(args["fc_bias"]).any()
    assert mx.sym.Variable("w", init=mx.init.Normal(0.1)).attr("__init__") == '["normal", {"sigma": 0.1}]'


def test_names_and_attributes():
    with mx.name.Prefix("p_"), mx.AttrScope(ctx_group="dev1"):
        net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2)
    assert net.name == "p_fullyconnected0"
    assert net.attr("ctx_group") == "dev1"


def test_drawings_and_tables(capsys: pytest.CaptureFixture[str]):
    mx.viz.print_summary(dense(), {"data": (1, 3)})
    assert "fc" in capsys.readouterr().out
    assert "1 operators drawn" in str(mx.viz.plot_network(dense(), title="net", shape={"data": (1, 3)}))


@pytest.mark.parametrize(("name", "way"), [("sim", "Did you mean 'sym'"), ("rtc", "jax.experimental.pallas")])
def test_what_is_not_here_says_what_to_use(name: str, way: str):
    with pytest.raises(AttributeError, match=way):
        getattr(mx, name)


@pytest.mark.parametrize("ask", ["get_backend_symbol", "optimize_for"])
def test_a_symbol_for_another_backend_is_the_symbol_and_one_warning_says_so(ask: str):
    backends._warn_of.cache_clear()
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3)
    with pytest.warns(backends.BackendWarning, match="no backend 'TensorRT' here: the network stays as it is") as told:
        assert all(getattr(net, ask)("TensorRT") is net for _ in range(2))
    assert (len(told), told[0].filename) == (1, __file__)
    with pytest.raises(TypeError, match="backend must be a name"):
        getattr(net, ask)(None)


def test_partial_shapes_are_told_where_mxnet_tells_them() -> None:
    """What MXNet 1.9.1 answers: an operator says nothing before it knows its data."""
    data, other = mx.sym.Variable("data"), mx.sym.Variable("other")
    dense = mx.sym.FullyConnected(data, num_hidden=8, name="fc")
    deep = mx.sym.FullyConnected(dense, num_hidden=3, name="fc2")
    chosen = mx.sym.where(mx.sym.Variable("c"), data, other)
    product = mx.sym.batch_dot(data, other)
    activated = mx.sym.Activation(dense, act_type="relu") + other
    answers = [
        (deep.infer_shape_partial(), ([(), (), (), (), ()], [()], [])),
        (dense.infer_shape_partial(fc_weight=(8, 5)), ([(), (8, 5), ()], [()], [])),
        (dense.infer_shape_partial((0, 3)), ([(0, 3), (8, 3), (8,)], [(0, 8)], [])),
        (chosen.infer_shape_partial(c=(0, 2), data=(0, 2), other=(0, 2)), ([(0, 2)] * 3, [()], [])),
        (chosen.infer_shape_partial(c=(2,), data=(2, 2), other=(2, 2)), ([(2,), (2, 2), (2, 2)], [(2, 2)], [])),
        (product.infer_shape_partial(data=(0, 3, 4), other=(0, 4, 5)), ([(0, 3, 4), (0, 4, 5)], [(0, 3, 5)], [])),
        (product.infer_shape_partial(data=(0, 3, 4)), ([(0, 3, 4), ()], [()], [])),
        (product.infer_shape_partial(data=(0, 3, 4), other=(0, 0, 5))[1], [()]),
        (chosen.infer_shape_partial(c=(0,), data=(2, 2), other=(2, 2))[1], [()]),
        (activated.infer_shape_partial(other=(2, 8))[1], [(2, 8)]),
        ((data + other).infer_shape_partial(other=(2, 0)), ([(2, 0), (2, 0)], [(2, 0)], [])),
        (mx.sym.var("w", shape=(0, 3)).infer_shape_partial(), ([(0, 3)], [(0, 3)], [])),
    ]
    for ours, theirs in answers:
        assert ours == theirs


def test_attributes_of_operators_may_be_numbers_and_initializers():
    attr = {"__lr_mult__": 2.0, "__init__": mx.init.Xavier()}
    net = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=2, name="fc", attr=attr)
    attrs = net.attr_dict()["fc_weight"]
    assert (attrs["__lr_mult__"], attrs["__init__"]) == ("2.0", mx.init.Xavier().dumps())


@pytest.mark.parametrize(
    ("symbol", "written"),
    [
        (
            lambda: mx.sym.arange(20),
            {"start": "20", "stop": "None", "step": "1.0", "repeat": "1", "infer_range": "False", "dtype": "float32"},
        ),
        (lambda: mx.sym.full((2,), 3), {"shape": "(2,)", "value": "3.0", "dtype": "float32"}),
        (lambda: mx.sym.eye(3), {"N": "3", "M": "0", "k": "0", "dtype": "float32"}),
        (
            lambda: mx.sym.linspace(0, 1, 5),
            {"start": "0", "stop": "1", "num": "5", "endpoint": "True", "dtype": "float32"},
        ),
    ],
)
def test_functions_that_make_values_write_their_defaults_as_mxnets_do(symbol: Any, written: dict[str, str]):
    assert json.loads(symbol().tojson())["nodes"][0]["attrs"] == written
    assert np.isfinite(symbol().eval()[0].asnumpy()).all()


def test_the_text_of_a_network_has_the_casts_of_amp_where_it_is_asked_to():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    half = mx.contrib.amp.convert_symbol(net)
    assert half.tojson(True) == half.tojson()
    assert half.tojson().count('"amp_cast"') < half.tojson(remove_amp_cast=False).count('"amp_cast"')
    for same in (pickle.loads(pickle.dumps(half)), copy.deepcopy(half)):
        assert same.tojson(False) == half.tojson(False)
    assert net.tojson(False) == net.tojson()


def test_arrays_of_another_context_than_the_executors_are_refused():
    """Two contexts of the CPU are one device here, and yet told apart, as in MXNet."""
    x, here, there = mx.sym.var("x"), mx.nd.ones(2), mx.nd.ones(2, ctx=mx.cpu(1))
    for args, args_grad in (({"x": there}, None), ([here], [there])):
        with pytest.raises(mx.MXNetError, match=r"Input array is in cpu\(1\) while binding with ctx=cpu\(0\)"):
            x.bind(mx.cpu(), args, args_grad)


def test_a_number_is_mxnets_number_of_a_dtype_deviation():
    x = mx.sym.var("x")
    assert x.infer_type(x=5)[0] == [np.int8]  # pyright: ignore[reportOptionalSubscript]
    assert (x + 1).simple_bind(mx.cpu(), type_dict={"x": 5}, x=(2,)).outputs[0].dtype == np.int8
