"""Cutting at internal outputs, and new heads."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import numpy as np
import pytest

import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from tests.surgery.networks import arrays_for, classifier, outputs_of

SHAPE = (2, 3, 6, 6)


@pytest.mark.nightly("every case", but_one_in=3)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", ["fc1_output", "fc1", "bn1_output", "relu1", "data", "softmax"])
def test_cut_computes_what_the_internal_output_is(name):
    net = classifier()
    args, aux = arrays_for(net, data=SHAPE)
    part = sym.load_json(nn.cut(net, name).tojson())
    output = name if name == "data" or name.endswith("_output") else f"{name}_output"
    (expected,) = outputs_of(net.get_internals()[output], args, aux, is_train=False)
    (got,) = outputs_of(part, args, aux)
    np.testing.assert_array_equal(got, expected)
    assert part.list_outputs() == [output]


def test_cut_takes_several_names_and_shares_their_trunk():
    part = nn.cut(classifier(), ["bn1", "fc1"])
    assert part.list_outputs() == ["bn1_output", "fc1_output"]
    assert len({id(e.node) for e in part.get_internals().outputs if e.node.name == "bn1"}) == 1


def test_a_node_with_several_outputs():
    halves = sym.SliceChannel(sym.Variable("data"), num_outputs=2, name="halves")
    net = halves[0] + halves[1]
    assert nn.cut(net, "halves").list_outputs() == ["halves_output0", "halves_output1"]
    assert nn.cut(net, "halves_output1").list_outputs() == ["halves_output1"]


def test_unknown_names_get_close_matches():
    with pytest.raises(nn.NNVMError, match="Did you mean 'fc1_output'"):
        nn.cut(classifier(), "fc1_outptu")
    with pytest.raises(nn.NNVMError, match="list_outputs"):
        nn.cut(classifier(), "zzzzzzzzzzzzzzzzzzzzzz")


def test_names_that_are_not_unique_are_refused():
    net = sym.relu(sym.relu(sym.Variable("data"), name="same"), name="same")
    with pytest.raises(nn.NNVMError, match="2 outputs named 'same_output'"):
        nn.cut(net, "same_output")
    with pytest.raises(nn.NNVMError, match="2 outputs named 'same'"):
        nn.cut(net, "same")


@pytest.mark.slow("computes much")
def test_versions_of_a_state_are_counted_anew():
    mean, var = sym.Variable("mean"), sym.Variable("var")
    data = sym.Variable("data")
    first = sym.BatchNorm(data, moving_mean=mean, moving_var=var, name="a")
    second = sym.BatchNorm(data * 2, moving_mean=mean, moving_var=var, name="b")
    net = sym.Group([first, second])
    part = nn.cut(net, "b")
    state = next(e for e in part.outputs[0].node.inputs if e.node.name == "mean")
    assert state.version == 1
    assert state.node.attrs.parsed.version == 1
    args, aux = arrays_for(net, data=(4, 3))
    expected = outputs_of(net, args, aux)[1]
    np.testing.assert_array_equal(outputs_of(part, args, aux)[0], expected)
    # The original still counts two.
    assert next(e for e in second.outputs[0].node.inputs if e.node.name == "mean").version == 2


@pytest.mark.slow("computes much")
def test_replace_head_for_fine_tuning():
    net = nn.replace_head(
        classifier(),
        "fc1",
        lambda features: sym.SoftmaxOutput(sym.FullyConnected(features, num_hidden=2, name="new"), name="softmax"),
    )
    args, aux = arrays_for(net, data=SHAPE)
    assert outputs_of(net, args, aux)[0].shape == (2, 2)
    assert {"conv1_weight", "new_weight"} <= set(net.list_arguments())
    assert "fc2_weight" not in net.list_arguments()
    trunk = outputs_of(nn.cut(net, "fc1"), args, aux)[0]
    np.testing.assert_array_equal(trunk, outputs_of(nn.cut(classifier(), "fc1"), args, aux)[0])


def test_replace_head_keeps_the_other_branches_and_their_places():
    trunk = sym.relu(sym.Variable("data"), name="trunk")
    heads = [sym.FullyConnected(trunk, num_hidden=k, name=name) for k, name in ((2, "a"), (3, "b"), (4, "c"))]
    net = nn.replace_head(sym.Group(heads), "b", lambda b: sym.Group([b * 2, sym.exp(b, name="e")]))
    assert net.list_outputs()[0] == "a_output"
    assert net.list_outputs()[2:] == ["e_output", "c_output"]
    assert len([e for e in net.get_internals().outputs if e.node.name == "trunk"]) == 1


def test_replace_head_refuses_a_head_that_does_not_fit():
    with pytest.raises(nn.NNVMError, match="must return a Symbol; got int"):
        nn.replace_head(classifier(), "fc1", lambda features: 3)
    with pytest.raises(nn.ComposeError, match="does not use the features"):
        nn.replace_head(classifier(), "fc1", lambda features: sym.Variable("other"))
    with pytest.raises(nn.ComposeError, match="'fc1_weight', 'fc1_bias'"):
        nn.replace_head(classifier(), "fc1", lambda features: sym.FullyConnected(features, num_hidden=2, name="fc1"))


@pytest.mark.nightly("thousands of nodes")
def test_a_long_chain_is_no_problem():
    net = sym.Variable("data")
    for i in range(30_000):
        net = sym.relu(net, name=f"r{i}")
    assert nn.cut(net, "r20000").list_outputs() == ["r20000_output"]
    assert nn.rename(net, lambda name: f"x_{name}").list_outputs() == ["x_r29999_output"]
