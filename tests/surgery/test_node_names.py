"""rename and freeze."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import re

import jax
import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from tests.surgery.networks import arrays_for, classifier, outputs_of

SHAPE = (2, 3, 6, 6)


@pytest.mark.slow("compiles")
def test_rename_by_dict_and_parameters_by_the_same_dict():
    names = {"fc1": "hidden", "fc1_weight": "hidden_weight", "fc1_bias": "hidden_bias"}
    net, renamed = classifier(), nn.rename(classifier(), names)
    args, aux = arrays_for(net, data=SHAPE)
    moved = {names.get(name, name): array for name, array in args.items()}
    np.testing.assert_array_equal(outputs_of(renamed, moved, aux)[0], outputs_of(net, args, aux)[0])
    assert "hidden_output" in renamed.get_internals().list_outputs()


def test_rename_by_function_reaches_every_node():
    renamed = nn.rename(classifier(), lambda name: f"m_{name}")
    assert all(name.startswith("m_") for name in renamed.get_internals().list_outputs())
    assert nn.rename(renamed, lambda name: name.removeprefix("m_")).tojson() == classifier().tojson()


def test_names_can_be_swapped():
    renamed = nn.rename(classifier(), {"fc1_weight": "fc2_weight", "fc2_weight": "fc1_weight"})
    assert renamed.list_arguments()[5:] == ["fc2_weight", "fc1_bias", "fc1_weight", "fc2_bias", "softmax_label"]


def test_collisions_and_unknown_names_are_errors():
    with pytest.raises(nn.ComposeError, match=r"variables would be named 'fc1_bias'"):
        nn.rename(classifier(), {"fc1_weight": "fc1_bias"})
    with pytest.raises(nn.ComposeError, match=r"operators would be named 'fc2'"):
        nn.rename(classifier(), {"fc1": "fc2"})
    with pytest.raises(nn.NNVMError, match="no node named 'conv1_wieght'. Did you mean 'conv1_weight'"):
        nn.rename(classifier(), {"conv1_wieght": "w"})
    with pytest.raises(TypeError, match="must be text"):
        nn.rename(classifier(), {"conv1_weight": 3})


def test_names_that_were_shared_before_stay_so():
    assert nn.rename(sym.Variable("x") + sym.Variable("x"), {"x": "y"}).list_arguments() == ["y", "y"]


def test_freeze_lists_what_remains():
    assert nn.freeze(classifier()) == [
        *("conv1_weight", "conv1_bias", "bn1_gamma", "bn1_beta"),
        *("fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias"),
    ]
    assert nn.freeze(classifier(), ["conv*", "bn*"]) == ["fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias"]
    assert nn.freeze(classifier(), re.compile(r".*(weight|gamma|beta)")) == ["conv1_bias", "fc1_bias", "fc2_bias"]


def test_inputs_are_not_trained():
    net = sym.FullyConnected(sym.Variable("data0") + sym.Variable("image"), num_hidden=2, name="fc")
    assert nn.freeze(net) == ["image", "fc_weight", "fc_bias"]
    assert nn.freeze(net, data_names=["data0", "image"]) == ["fc_weight", "fc_bias"]


def test_lr_mult_zero_freezes():
    weight = sym.Variable("w", lr_mult=0.0)
    assert nn.freeze(sym.FullyConnected(sym.Variable("data"), weight, num_hidden=2, name="fc")) == ["fc_bias"]


def test_a_pattern_that_matches_nothing_is_an_error():
    with pytest.raises(nn.NNVMError, match="No argument matches 'conv1_weigth'"):
        nn.freeze(classifier(), "conv1_weigth")
    with pytest.raises(nn.NNVMError, match="Did you mean 'conv1_weight'"):
        nn.freeze(classifier(), "conv1_weigth")


@pytest.mark.slow("compiles")
def test_gradients_of_what_remains():
    net = classifier()
    args, aux = arrays_for(net, data=SHAPE)
    wrt = nn.freeze(net, ["conv*", "bn*", "fc1*"])
    _, grads, _ = lowering.grad_fn(net, wrt=wrt)(args, aux, jax.random.key(0))
    assert list(grads) == ["fc2_weight", "fc2_bias"]
