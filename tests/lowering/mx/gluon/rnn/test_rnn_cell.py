"""Recurrent cells: steps, unrolling, modifiers, and what they refuse. Numbers and symbols are MXNet's elsewhere."""

from typing import Any

import numpy as np
import pytest

from lowering import mx
from lowering.mx.gluon import contrib, nn, rnn

DATA = mx.nd.array(np.random.default_rng(1).uniform(-1, 1, (2, 3, 4)))
"""(n, t, c)."""


def ready(cell: Any) -> Any:
    cell.initialize(mx.init.Uniform(1.0))
    return cell


def test_steps_are_an_unrolled_sequence():
    cell = ready(rnn.LSTMCell(5))
    outputs, last = cell.unroll(3, DATA)
    cell.reset()
    states = cell.begin_state(batch_size=2)
    for i in range(3):
        output, states = cell(DATA[:, i], states)
        np.testing.assert_allclose(output.asnumpy(), outputs[i].asnumpy(), atol=1e-6)
    np.testing.assert_allclose(states[1].asnumpy(), last[1].asnumpy(), atol=1e-6)
    merged, _ = cell.unroll(3, DATA.swapaxes(0, 1), layout="TNC", merge_outputs=True)
    assert merged.shape == (3, 2, 5)
    np.testing.assert_allclose(merged[2].asnumpy(), outputs[2].asnumpy(), atol=1e-6)


def test_a_hybridised_cell_is_the_same():
    cell = ready(rnn.GRUCell(5))
    plain, _ = cell.unroll(3, DATA, merge_outputs=True)
    cell.hybridize()
    compiled, _ = cell.unroll(3, DATA, merge_outputs=True)
    np.testing.assert_allclose(compiled.asnumpy(), plain.asnumpy(), atol=1e-6)


def test_a_network_that_unrolls_cells_is_one_program():
    class Net(mx.gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.cell = rnn.BidirectionalCell(rnn.LSTMCell(3), rnn.LSTMCell(3))

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return self.cell.unroll(3, x, merge_outputs=True)[0]

    net = ready(Net())
    plain = net(DATA)
    net.hybridize()
    np.testing.assert_allclose(net(DATA).asnumpy(), plain.asnumpy(), atol=1e-6)
    assert plain.shape == (2, 3, 6)


def test_an_activation_is_a_name_or_a_block():
    for activation, expected in (("relu", 0.0), (nn.LeakyReLU(0.5), -0.5), (lambda x: x * 3, -3.0)):
        cell = rnn.RNNCell(1, activation, "ones", "ones")
        cell.initialize()
        output, _ = cell(mx.nd.array([[-1.0]]), cell.begin_state(1))
        assert output.asscalar() == expected


def test_zoneout_keeps_what_was_before():
    cell = ready(rnn.ZoneoutCell(rnn.RNNCell(500), 0.5, 0.4))
    steps = [mx.nd.ones((2, 4)), -mx.nd.ones((2, 4))]
    with mx.autograd.record():
        mx.random.seed(1)
        (first, second), (state,) = cell.unroll(2, steps)
    zeros = float((first.asnumpy() == 0).mean())
    kept = float((second.asnumpy() == first.asnumpy()).mean())
    assert 0.4 < zeros < 0.6
    assert 0.4 < kept < 0.6
    assert not (state.asnumpy() == second.asnumpy()).all()


def test_dropout_of_a_sequence():
    cell = rnn.DropoutCell(0.5, axes=(1,))
    with mx.autograd.record():
        outputs, states = cell.unroll(3, mx.nd.ones((50, 3, 4)), merge_outputs=True)
    mask = outputs.asnumpy()
    assert states == []
    np.testing.assert_array_equal(mask, np.broadcast_to(mask[:, :1], mask.shape))
    assert 0.35 < (mask == 0).mean() < 0.65
    found, _ = cell.unroll(3, DATA)
    np.testing.assert_array_equal(found.asnumpy(), DATA.asnumpy())


def test_variational_dropout_has_one_mask_for_all_steps():
    cell = ready(contrib.rnn.VariationalDropoutCell(rnn.RNNCell(400, "relu"), drop_states=0.3, drop_outputs=0.5))
    with mx.autograd.record():
        outputs, _ = cell.unroll(3, mx.nd.ones((1, 3, 4)) * 4)
    masks = [output.asnumpy() == 0 for output in outputs]
    assert 0.35 < (masks[0] & masks[1] & masks[2]).mean() < 0.9
    cell.reset()
    with mx.autograd.record():
        again, _ = cell.unroll(3, mx.nd.ones((1, 3, 4)) * 4)
    assert not ((again[0].asnumpy() == 0) == masks[0]).all()


def test_a_loop_in_the_graph_unrolls_a_cell():
    cell = ready(rnn.LSTMCell(5, input_size=4))
    begin = cell.begin_state(batch_size=2)
    expected, last = cell.unroll(3, DATA, begin, merge_outputs=True)
    outputs, states = contrib.rnn.rnn_cell.dynamic_unroll(cell, DATA, begin, layout="NTC")
    np.testing.assert_allclose(outputs.asnumpy(), expected.asnumpy(), atol=1e-6)
    np.testing.assert_allclose(states[1].asnumpy(), last[1].asnumpy(), atol=1e-6)
    lengths = mx.nd.array([3, 1])
    expected, last = cell.unroll(3, DATA, begin, merge_outputs=True, valid_length=lengths)
    outputs, states = contrib.rnn.rnn_cell.dynamic_unroll(cell, DATA, begin, layout="NTC", valid_length=lengths)
    np.testing.assert_allclose(outputs.asnumpy(), expected.asnumpy(), atol=1e-6)
    for found, wanted in zip(states, last, strict=True):
        np.testing.assert_allclose(found.asnumpy(), wanted.asnumpy(), atol=1e-6)
    with mx.autograd.record():
        dropped, _ = contrib.rnn.rnn_cell.dynamic_unroll(cell, DATA, begin, 0.5, 0.5, "NTC")
    assert (dropped.asnumpy() == 0).any()


def test_a_merged_left_side_takes_a_merged_right_one():
    """MXNet stacks the right side a second time where nobody says how outputs are to be merged."""
    left, right = rnn.HybridSequentialRNNCell(), rnn.HybridSequentialRNNCell()
    for stack in (left, right):
        stack.add(rnn.DropoutCell(0.5))
    outputs, _ = rnn.BidirectionalCell(left, right).unroll(3, DATA)
    assert [output.shape for output in outputs] == [(2, 8)] * 3


def test_what_cells_refuse():
    both = rnn.BidirectionalCell(rnn.GRUCell(2), rnn.GRUCell(2))
    with pytest.raises(NotImplementedError, match="Bidirectional cannot be stepped. Please use unroll"):
        both(DATA, [])
    stack = rnn.SequentialRNNCell()
    stack.add(both)
    for cell in (both, stack):
        with pytest.raises(AssertionError, match="BidirectionalCell doesn't support zoneout"):
            rnn.ZoneoutCell(cell)
        with pytest.raises(AssertionError, match="doesn't support variational state dropout"):
            contrib.rnn.VariationalDropoutCell(cell, drop_states=0.1)
    with pytest.raises(AssertionError, match="Please use unroll"):
        stack(DATA, [])
    base = rnn.GRUCell(2)
    rnn.ResidualCell(base)
    with pytest.raises(AssertionError, match="the base cell cannot be called directly"):
        base.begin_state()
    with pytest.raises(AssertionError, match="One cell cannot be modified twice"):
        rnn.ZoneoutCell(base)
    with pytest.raises(AssertionError, match="Please create input variables outside unroll"):
        rnn.GRUCell(2).unroll(3, None)
    with pytest.raises(AssertionError, match="The sequence has 3 steps, but unroll was called with length=4"):
        rnn.GRUCell(2).unroll(4, DATA)
    with pytest.raises(AssertionError, match="doesn't allow grouped symbol"):
        rnn.GRUCell(2).unroll(2, mx.sym.Group([mx.sym.var("a"), mx.sym.var("b")]))
    with pytest.raises(NotImplementedError, match="RecurrentCell must define state_info"):
        rnn.RecurrentCell().state_info()
    with pytest.raises(AssertionError, match="rate must be a number"):
        rnn.DropoutCell("0.5")  # pyright: ignore[reportArgumentType]
