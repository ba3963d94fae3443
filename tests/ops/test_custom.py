"""Operators that users register under an op_type, and graphs with `Custom` nodes."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import AttributeConflictError, GradientError, LoweringError, OpNotRegisteredError, ParamError
from symjax_nnvm.ir.register import same_shape
from tests.support.comparison import assert_close


@dataclass(frozen=True, kw_only=True)
class ScaledTanhParams:
    scale: float = nn.param(1.0, gt=0, doc="factor")


def _gradient(node, ograds):
    """d(s tanh x) = s (1 - tanh² x)."""
    p = node.attrs.parsed
    y = nn.NodeEntry(node, 0, 0)
    slope = nn.apply("_rminus_scalar", nn.apply("square", nn.apply("_div_scalar", y, scalar=p.scale)), scalar=1)
    return [nn.apply("_mul_scalar", nn.apply("elemwise_mul", ograds[0], slope), scalar=p.scale)]


nn.register_custom(
    "_test_scaled_tanh", params=ScaledTanhParams, infer_shape=same_shape, gradient=_gradient, doc="scale · tanh(x)."
)


@lowering.lowers_custom("_test_scaled_tanh")
def _scaled_tanh(p, data):
    return p.scale * jnp.tanh(data)


def _running_mean_shapes(p, ins, outs):
    (data,), (out,) = same_shape(p, ins[:1], outs)
    vector = None if data is None else (data[-1],)
    return [data, vector], [out]


nn.register_custom(
    "_test_centred",
    inputs=("data", "running_mean"),
    mutates=(1,),
    infer_shape=_running_mean_shapes,
    loss=lambda node: nn.apply("sum", nn.apply("square", node.inputs[0])),
    gradient=lambda node, ograds: [nn.apply("_mul_scalar", node.inputs[0], scalar=2.0), None],
)


@lowering.lowers_custom("_test_centred")
def _centred(p, data, running_mean):
    return data - running_mean, 0.5 * running_mean + 0.5 * data.mean(0)


nn.register_custom("_test_no_rules", infer_shape=same_shape)

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def net():
    x = sym.Variable("x")
    return sym.Custom(sym.FullyConnected(x, num_hidden=3, name="fc"), op_type="_test_scaled_tanh", scale=2, name="act")


@pytest.mark.slow("compiles")
def test_it_runs_infers_and_differentiates():
    symbol = net()
    assert symbol.infer_shape(x=(2, 4))[1] == [(2, 3)]
    args = {"x": X, "fc_weight": np.eye(3, dtype=np.float32), "fc_bias": np.zeros(3, np.float32)}
    assert_close(lowering.to_jax(symbol)(args)[0][0], 2 * np.tanh(X), 1e-6, "output")
    assert lowering.check_gradients(symbol, args).ok


def test_inputs_come_by_name_and_as_automatic_variables():
    symbol = sym.Custom(data=sym.Variable("x"), op_type="_test_centred", name="c")
    assert symbol.list_arguments() == ["x"]
    assert symbol.list_auxiliary_states() == ["c_running_mean"]


def test_names_are_automatic():
    with sym.NameManager():
        assert sym.Custom(sym.Variable("x"), op_type="_test_scaled_tanh").name == "custom0"


@pytest.mark.slow("compiles")
def test_a_loss_head_with_a_state():
    symbol = sym.Custom(sym.Variable("x"), op_type="_test_centred", name="c")
    aux = {"c_running_mean": np.zeros(3, np.float32)}
    outputs, grads, new = lowering.grad_fn(symbol)({"x": X}, aux)
    assert_close(outputs[0], X, 0, "output")
    assert_close(grads["x"], 2 * X, 1e-6, "gradient")
    assert_close(new["c_running_mean"], 0.5 * X.mean(0), 1e-6, "state")
    assert lowering.check_gradients(symbol, {"x": X}, aux).ok


def test_files_show_custom_with_an_op_type():
    text = net().tojson()
    assert '"op": "Custom"' in text
    assert '"op_type": "_test_scaled_tanh"' in text
    loaded = sym.load_json(text)
    assert loaded.tojson() == text
    args = {"x": X, "fc_weight": np.eye(3, dtype=np.float32), "fc_bias": np.zeros(3, np.float32)}
    assert_close(lowering.to_jax(loaded)(args)[0][0], 2 * np.tanh(X), 1e-6, "output")


def test_an_unknown_type_says_how_to_register_it():
    with pytest.raises(OpNotRegisteredError, match="op_type 'nobody'.*register_custom"):
        sym.Custom(sym.Variable("x"), op_type="nobody")
    text = net().tojson().replace("_test_scaled_tanh", "nobody")
    with pytest.raises(nn.NNVMError, match="op_type 'nobody'.*'act'"):
        sym.load_json(text)
    with pytest.raises(ParamError, match="op_type"):
        sym.Custom(sym.Variable("x"))


@pytest.mark.slow("compiles")
def test_parameters_are_checked():
    with pytest.raises(ParamError, match=r"scale.*float > 0"):
        sym.Custom(sym.Variable("x"), op_type="_test_scaled_tanh", scale=-1)


def test_what_is_not_registered_is_named():
    symbol = sym.Custom(sym.Variable("x"), op_type="_test_no_rules", name="c")
    with pytest.raises(LoweringError, match="Custom:_test_no_rules"):
        lowering.to_jax(symbol)
    with pytest.raises(GradientError, match="Custom:_test_no_rules is non-differentiable"):
        symbol.gradient(["x"])


def test_a_type_is_registered_once():
    with pytest.raises(AttributeConflictError):
        nn.register_custom("_test_scaled_tanh", infer_shape=same_shape)
