"""Parameters: deferred initialisation, initialisers, contexts, requests of gradients, constants, dicts."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from lowering import mx
from lowering.mx import gluon
from lowering.mx.gluon import nn

CONTEXTS = [mx.cpu(0), mx.cpu(1)]


def parameter(**options: Any) -> gluon.Parameter:
    param = gluon.Parameter("w", shape=(2, 3), **options)
    param.initialize()
    return param


def test_initialisation_is_deferred_until_the_shape_is_known():
    layer = nn.Dense(2)
    with pytest.raises(RuntimeError, match=r"has not been initialized. Note that you should initialize"):
        layer.weight.data()
    layer.initialize()
    with pytest.raises(gluon.DeferredInitializationError, match="because initialization was deferred"):
        layer.weight.data()
    with pytest.raises(mx.MXNetError):
        layer.weight.list_grad()
    assert layer.weight.list_ctx() == [mx.cpu()]
    layer(mx.nd.ones((1, 5)))
    assert layer.weight.shape == layer.weight.data().shape == (2, 5)


def test_unknown_shapes_are_refused_where_they_may_not_be_deferred():
    with pytest.raises(ValueError, match=r"because it has invalid shape: \(0, 2\)"):
        gluon.Parameter("w", shape=(0, 2)).initialize()


def test_shapes_that_cannot_be_inferred_are_told():
    class Shapeless(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.w = self.params.get("w", shape=(0, 0), allow_deferred_init=True)

        def hybrid_forward(self, F: Any, x: Any, w: Any) -> Any:
            return F.sum(x) + F.sum(w)

    net = Shapeless()
    net.initialize()
    with pytest.raises(ValueError, match=r"Deferred initialization failed .* Cannot decide shape"):
        net(mx.nd.ones((1,)))


def test_data_that_is_set_before_the_first_pass_is_kept():
    layer = nn.Dense(1, use_bias=False)
    layer.initialize()
    layer.weight.set_data(mx.nd.array([[1, 2]]))
    assert layer(mx.nd.ones((1, 2))).asscalar() == 3
    with pytest.raises(AssertionError, match="has not been initialized"):
        gluon.Parameter("w", shape=(1,)).set_data(mx.nd.ones((1,)))


def test_initialisers_come_in_mxnets_order():
    net = nn.HybridSequential()
    net.add(nn.Dense(2, in_units=2, weight_initializer="ones"), nn.Dense(2, in_units=2))
    net.initialize(mx.init.Constant(3.0))
    assert (net[0].weight.data().asnumpy() == 1).all()  # its own comes first
    assert (net[1].weight.data().asnumpy() == 3).all()
    assert (net[1].bias.data().asnumpy() == 0).all()  # "zeros" is the layer's own, too
    net[0].weight.initialize("zeros", force_reinit=True)
    assert (net[0].weight.data().asnumpy() == 0).all()
    norm = nn.BatchNorm(in_channels=2, gamma_initializer=mx.init.Constant(5.0))
    norm.initialize()  # the ending of the name, gamma, does not decide
    assert (norm.gamma.data().asnumpy() == 5).all()


def test_what_is_no_initialiser_is_told_as_in_mxnet():
    for init, told in (
        ("xaver", "'xaver' is not registered"),
        (5, "No initialiser"),
        (lambda *_: None, "No initialiser"),
    ):
        with pytest.raises(AssertionError, match=told) as error:
            nn.Dense(2, in_units=2).initialize(init)
        assert isinstance(error.value, ValueError)
    with pytest.raises(AssertionError, match="'xaver' is not registered"):
        nn.Dense(2, in_units=2, weight_initializer="xaver").initialize()


def test_a_second_initialisation_only_warns():
    param = parameter()
    before = param.data().asnumpy()
    with pytest.warns(UserWarning, match="is already initialized, ignoring"):
        param.initialize("zeros")
    np.testing.assert_array_equal(param.data().asnumpy(), before)


def test_constants_have_a_value_and_no_gradient():
    const = gluon.Constant("const", [[1, 2], [3, 4]])
    const.initialize()
    assert const.data().asnumpy().tolist() == [[1, 2], [3, 4]]
    with pytest.warns(UserWarning, match="does not support grad_req other than"):
        const.grad_req = "write"
    assert const.grad_req == "null"
    const.set_data(mx.nd.zeros((2, 2)))
    assert not const.data().asnumpy().any()


@pytest.mark.parametrize(("value", "dtype"), [(2**24 + 1, "int32"), (1 / 3, "float64"), (2**40 + 3, "int64")])
def test_a_constant_keeps_every_bit_of_its_value(value: float, dtype: str):
    with jax.enable_x64(True):
        const = gluon.Constant("const", mx.nd.array([value], dtype=dtype))
        const.initialize()
        assert const.data().asnumpy().tolist() == [value]


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
def test_an_initialiser_of_ones_own_is_given_an_array_of_the_parameters_dtype(dtype: str):
    dtypes = []

    class Own(mx.init.Initializer):
        def _init_weight(self, name: str, arr: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            dtypes.append(np.dtype(arr.dtype))
            arr[:] = 3

    param = gluon.Parameter("w", shape=(2,), dtype=dtype)
    param.initialize(Own())
    assert dtypes == [np.dtype(dtype)]
    assert param.data().asnumpy().tolist() == [3, 3]


def test_only_unknown_sizes_of_a_shape_can_be_set():
    param = gluon.Parameter("w", shape=(0, 3))
    param.shape = (2, 3)
    assert param.shape == (2, 3)
    with pytest.raises(AssertionError, match=r"Expected shape \(4, 3\) is incompatible with given shape \(2, 3\)"):
        param.shape = (4, 3)


def test_requests_of_gradients():
    param = parameter()
    for _ in range(2):
        with mx.autograd.record():
            out = param.data() * 2
        out.backward()
    assert (param.grad().asnumpy() == 2).all()
    param.grad_req = "add"
    for _ in range(2):
        with mx.autograd.record():
            out = param.data() * 2
        out.backward()
    assert (param.grad().asnumpy() == 4).all()
    param.zero_grad()
    assert not param.grad().asnumpy().any()
    param.grad_req = "null"
    with pytest.raises(RuntimeError, match="because grad_req='null'"):
        param.grad()
    assert param.data().entry is None
    with pytest.raises(AssertionError, match="grad_req must be one of"):
        param.grad_req = "sum"


@pytest.mark.parametrize("hybridize", [False, True])
def test_gradients_of_a_layer_are_added_where_that_is_requested(hybridize: bool):
    layer = nn.Dense(1, in_units=2, use_bias=False)
    layer.initialize()
    layer.weight.grad_req = "add"
    if hybridize:
        layer.hybridize()
    for _ in range(3):
        with mx.autograd.record():
            out = layer(mx.nd.ones((1, 2)))
        out.backward()
    assert layer.weight.grad().asnumpy().tolist() == [[3, 3]]


def test_casting_converts_arrays_and_gradients():
    param = parameter()
    param.cast("float16")
    assert param.data().dtype == param.grad().dtype == np.float16
    with mx.autograd.record():
        out = param.data() * 2
    out.backward()
    assert (param.grad().asnumpy() == 2).all()


def test_several_contexts_have_a_copy_each():
    param = gluon.Parameter("w", shape=(2,))
    param.initialize(ctx=CONTEXTS)
    assert param.list_ctx() == CONTEXTS
    assert [each.context for each in param.list_data()] == CONTEXTS
    assert param.data(mx.cpu(1)) is param.list_data()[1]
    with pytest.raises(RuntimeError, match="was not initialized on context"):
        param.data(mx.cpu(2))
    param.list_data()[0][:], param.list_data()[1][:] = 1, 3
    assert (param._reduce().asnumpy() == 2).all()
    param.reset_ctx(mx.cpu(3))
    assert param.list_ctx() == [mx.cpu(3)]
    assert (param.data().asnumpy() == 2).all()
    with pytest.raises(ValueError, match="Cannot reset context"):
        gluon.Parameter("w", shape=(2,)).reset_ctx(mx.cpu())


def test_blocks_run_on_the_context_of_their_input():
    net = nn.Dense(2)
    net.initialize(ctx=CONTEXTS)
    for _ in range(2):
        outs = [net(part) for part in gluon.utils.split_and_load(mx.nd.ones((4, 3)), CONTEXTS)]
        assert [out.context for out in outs] == CONTEXTS
        net.hybridize()


def test_dicts_make_parameters_or_take_shared_ones():
    shared = gluon.ParameterDict("net_")
    w = shared.get("w", shape=(0, 3))
    own = gluon.ParameterDict("net_", shared)
    assert own.get("w", shape=(2, 0)) is w
    assert w.shape == (2, 3)
    with pytest.raises(AssertionError, match="desired attribute does not match with stored for attribute 'shape'"):
        own.get("w", shape=(4, 3))
    assert own.get("b", shape=(1,)).name == "net_b"
    assert list(own) == ["net_w", "net_b"]
    assert "net_b" in repr(own)
    with pytest.raises(KeyError, match="No constant named 'net_c'"):
        own.get_constant("c")
    assert own.get_constant("c", [1.0]) is own.get_constant("c")
    with pytest.raises(AssertionError, match="doesn't match new value"):
        own.get_constant("c", np.array([2.0]))
    other = gluon.ParameterDict("net_")
    other.get("w", shape=(2, 3))
    with pytest.raises(AssertionError, match="different Parameters with the same name 'net_w'"):
        own.update(other)
    own.setattr("lr_mult", 0.5)
    assert w.lr_mult == 0.5


def test_storage_types_are_those_of_mxnet():
    assert gluon.Parameter("w", shape=(1,), stype="row_sparse")._stype == "row_sparse"
    with pytest.raises(AssertionError, match="one of"):
        gluon.Parameter("w", shape=(1,), grad_stype="none")


def test_rows_of_a_sparse_parameter_are_its_dense_array():
    rows = gluon.Parameter("w", shape=(2, 3), stype="row_sparse")
    rows.initialize("ones", ctx=[mx.cpu(0), mx.cpu(1)])
    asked = mx.nd.array([0], ctx=mx.cpu(1))
    assert rows.row_sparse_data(asked) is rows.data(mx.cpu(1))
    assert [each.context for each in rows.list_row_sparse_data(asked)] == rows.list_ctx()
    for refused in (parameter().row_sparse_data, parameter().list_row_sparse_data):
        with pytest.raises(RuntimeError, match="its stype is 'default'. Use data()"):
            refused(asked)


def test_a_parameter_is_loaded_on_its_own_contexts_or_refused(tmp_path: Path):
    net = mx.gluon.nn.Dense(2, in_units=3)
    net.initialize(ctx=mx.cpu(0))
    net.save_parameters(str(tmp_path / "net.params"))
    net.load_parameters(str(tmp_path / "net.params"), ctx=mx.cpu(0))
    with pytest.raises(AssertionError, match=r"on \[cpu\(1\)\] because it was previous initialized on \[cpu\(0\)\]"):
        net.load_parameters(str(tmp_path / "net.params"), ctx=mx.cpu(1))
