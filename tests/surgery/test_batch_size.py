"""Another batch size where one is written into the graph."""

import numpy as np
import pytest

import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.symbol.symbol import Symbol
from tests.surgery.networks import arrays_for, outputs_of


def flattened(batch: int = 4) -> Symbol:
    """data (batch, 2, 3) → (batch, 5), with the batch written into Reshape and broadcast_to."""
    flat = sym.Reshape(sym.Variable("data"), shape=(batch, -1), name="flat")
    offset = sym.broadcast_to(
        sym.Reshape(sym.Variable("offset_weight", shape=(5,)), shape=(1, 5)), shape=(batch, 5), name="wide"
    )
    return sym.FullyConnected(flat, num_hidden=5, name="fc") + offset


def unrolled(batch: int = 4) -> Symbol:
    """Two steps of a plain recurrence that begins with zeros of the batch's size."""
    state = sym.zeros(shape=(batch, 3), name="begin_state", __layout__="NC")
    steps = sym.SliceChannel(sym.Variable("data"), num_outputs=2, axis=1, squeeze_axis=True, name="steps")
    weights = {name: sym.Variable(name) for name in ("i2h_weight", "i2h_bias", "h2h_weight", "h2h_bias")}
    for t in range(2):
        state = sym.tanh(
            sym.FullyConnected(steps[t], weights["i2h_weight"], weights["i2h_bias"], num_hidden=3, name=f"t{t}_i2h")
            + sym.FullyConnected(state, weights["h2h_weight"], weights["h2h_bias"], num_hidden=3, name=f"t{t}_h")
        )
    return state


@pytest.mark.nightly("every case", but_one_in=3)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("make", [flattened, unrolled])
@pytest.mark.parametrize("n", [1, 2])
def test_smaller_batches_give_the_same_rows(make, n):
    old, new = make(), nn.set_batch_size(make(), n)
    args, aux = arrays_for(old, data=(4, 2, 3))
    few = {**args, "data": args["data"][:n]}
    np.testing.assert_allclose(outputs_of(new, few, aux)[0], outputs_of(old, args, aux)[0][:n], rtol=1e-6)
    assert sym.load_json(new.tojson()).tojson() == new.tojson()


def test_what_was_changed_is_listed_and_the_given_symbol_stays():
    net = flattened()
    before = net.tojson()
    changed = nn.set_batch_size(net, 2, old=4)
    assert net.tojson() == before
    assert [str(p) for p in nn.hard_coded_batch(net)] == [
        "Reshape flat: shape=(4, -1)",
        "broadcast_to wide: shape=(4, 5)",
    ]
    assert [place.size for place in nn.hard_coded_batch(changed)] == [2, 2]


def test_a_graph_without_a_batch_size_is_copied():
    net = sym.Reshape(sym.Variable("data"), shape=(-1, 5), name="r")
    assert nn.hard_coded_batch(net) == []
    assert nn.set_batch_size(net, 7).tojson() == net.tojson()


def test_declared_shapes_of_data_change_and_those_of_parameters_do_not():
    weight = sym.Variable("fc_weight", shape=(4, 6))
    label = sym.Variable("softmax_label", shape=(4,))
    data = sym.Variable("data", shape=(4, 6))
    net = sym.SoftmaxOutput(sym.FullyConnected(data, weight, num_hidden=4, name="fc"), label, name="softmax")
    changed = nn.set_batch_size(net, 9)
    shapes, outputs, _ = changed.infer_shape()
    assert dict(zip(changed.list_arguments(), shapes, strict=True)) == {
        "data": (9, 6),
        "fc_weight": (4, 6),
        "fc_bias": (4,),
        "softmax_label": (9,),
    }
    assert outputs == [(9, 4)]


def test_layout_says_where_the_batch_is():
    states = sym.zeros(shape=(2, 4, 3), name="states", __layout__="LNC")
    net = sym.RNN(sym.Variable("data"), sym.Variable("w"), states, state_size=3, num_layers=2, mode="gru", name="rnn")
    assert nn.set_batch_size(net, 5).infer_shape(data=(7, 5, 2))[1] == [(7, 5, 3)]


def test_loop_bodies_change_too():
    def body(step, state):
        state = sym.Reshape(step, shape=(4, 3), name="inner") + state
        return state, state

    net, _ = sym.contrib.foreach(body, sym.Variable("data"), sym.zeros(shape=(4, 3), name="begin"), name="loop")
    changed = nn.set_batch_size(net, 2)
    assert [place.node.rpartition("/")[2] for place in nn.hard_coded_batch(changed)] == ["begin", "inner"]
    args, aux = arrays_for(net, data=(3, 4, 3))
    few = {"data": args["data"][:, :2]}
    np.testing.assert_allclose(outputs_of(changed, few, aux)[0], outputs_of(net, args, aux)[0][:, :2], rtol=1e-6)
    assert {place.size for place in nn.hard_coded_batch(net)} == {4}


def test_the_deprecated_parameter_of_old_files():
    net = sym.Reshape(sym.Variable("data"), target_shape=(4, 0), name="old")
    assert nn.set_batch_size(net, 2).get_attr("target_shape") == "(2, 0)"


def test_disagreeing_places_are_ambiguous():
    net = sym.Group([flattened(4), sym.Reshape(sym.Variable("other"), shape=(6, -1), name="six")])
    with pytest.raises(nn.GraphError, match=r"ambiguous: the graph has 4, 6 .*Reshape six: shape=\(6, -1\).*old="):
        nn.set_batch_size(net, 2)
    assert [place.size for place in nn.hard_coded_batch(nn.set_batch_size(net, 2, old=4))] == [2, 2, 6]


def test_merged_axes_must_be_decided():
    data = sym.Variable("data", shape=(4, 3, 2))
    net = sym.Reshape(sym.Reshape(data, shape=(12, 2), name="rows"), shape=(4, -1), name="back")
    with pytest.raises(nn.GraphError, match=r"multiples of the batch size 4.*rows.*merged=True"):
        nn.set_batch_size(net, 2, old=4)
    assert nn.set_batch_size(net, 2, old=4, merged=True).infer_shape()[1] == [(2, 6)]
    with pytest.raises(nn.GraphError, match="does not fit a batch size of 2"):
        nn.set_batch_size(net, 2, old=4, merged=False)


def test_wrong_numbers_are_errors():
    with pytest.raises(ValueError, match="No batch size 3 is written in the graph; got Reshape flat"):
        nn.set_batch_size(flattened(4), 2, old=3)
    with pytest.raises(ValueError, match="number ≥ 1"):
        nn.set_batch_size(flattened(4), 0)
