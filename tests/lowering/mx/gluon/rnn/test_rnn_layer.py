"""Recurrent layers: shapes, states, files, and the cells that do the same. Numbers are MXNet's elsewhere."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowering import mx
from lowering.mx.gluon import rnn
from symjax_nnvm.errors import SymbolValueError

DATA = mx.nd.array(np.random.default_rng(1).uniform(-1, 1, (3, 2, 4)))
"""(t, n, c)."""


def ready(block: Any) -> Any:
    block.initialize(mx.init.Uniform(1.0))
    return block


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("make", [rnn.LSTM, rnn.GRU, rnn.RNN])
def test_cells_do_the_same(make: Any):
    layer = ready(make(3, 2, bidirectional=True, input_size=4))
    expected, states = layer(DATA, layer.begin_state(2))
    outputs, last = layer._unfuse().unroll(3, DATA, layout="TNC", merge_outputs=True)
    np.testing.assert_allclose(outputs.asnumpy(), expected.asnumpy(), atol=1e-5)
    assert len(last) == 4 * len(states)
    np.testing.assert_allclose(last[0].asnumpy(), states[0][0].asnumpy(), atol=1e-5)


def test_states_are_given_back_where_they_are_given():
    layer = ready(rnn.LSTM(5, 2, layout="NTC"))
    data = DATA.swapaxes(0, 1)
    alone = layer(data)
    output, (hidden, cell) = layer(data, layer.begin_state(batch_size=2))
    np.testing.assert_array_equal(alone.asnumpy(), output.asnumpy())
    assert (output.shape, hidden.shape, cell.shape) == ((2, 3, 5), (2, 2, 5), (2, 2, 5))
    gru = ready(rnn.GRU(5))
    _, (state,) = gru(DATA, mx.nd.ones((1, 2, 5)))
    assert state.shape == (1, 2, 5)
    with pytest.raises(SymbolValueError, match=r"Expecting \(1, 2, 5\), got \(1, 3, 5\)"):
        gru(DATA, mx.nd.ones((1, 3, 5)))


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    ("make", "options"),
    [
        (rnn.LSTM, {"projection_size": 3, "num_layers": 2, "bidirectional": True}),
        (rnn.LSTM, {"state_clip_min": -0.1, "state_clip_max": 0.1, "state_clip_nan": True}),
        (rnn.GRU, {"use_sequence_length": True, "bidirectional": True}),
        (rnn.RNN, {"activation": "tanh", "layout": "NTC"}),
    ],
)
def test_a_hybridised_layer_is_the_same_and_goes_out(make: Any, options: dict[str, Any], tmp_path: Path):
    layer = make(5, prefix="net_", **options)
    ready(layer)
    lengths = [mx.nd.array([3, 2])] if "use_sequence_length" in options else []
    plain = layer(DATA, None, *lengths)
    layer.hybridize()
    found = layer(DATA, None, *lengths)
    np.testing.assert_allclose(found.asnumpy(), plain.asnumpy(), atol=1e-6)
    if lengths:
        assert (found.asnumpy()[2, 1] == 0).all()
    with mx.autograd.record():
        (layer(DATA, None, *lengths) ** 2).sum().backward()
    assert all((p.grad().asnumpy() != 0).any() for p in layer.collect_params().values())


def test_a_projection_is_of_the_output(tmp_path: Path):
    layer = ready(rnn.LSTM(5, projection_size=3))
    output, (hidden, cell) = layer(DATA, layer.begin_state(2))
    assert (output.shape, hidden.shape, cell.shape) == ((3, 2, 3), (1, 2, 3), (1, 2, 5))
    with pytest.raises(AssertionError, match="does not support projection layer"):
        layer._unfuse()
    with pytest.raises(AssertionError, match="does not support state clipping"):
        rnn.LSTM(5, state_clip_max=1.0)._unfuse()


@pytest.mark.slow("compiles")
def test_files_have_the_names_of_cells_also_above_ten_layers(tmp_path: Path):
    layer = ready(rnn.RNN(2, 12, input_size=4))
    layer.save_parameters(str(tmp_path / "a.params"))
    assert "_unfused.11.h2h_weight" in mx.nd.load(str(tmp_path / "a.params"))
    other = rnn.RNN(2, 12)
    other.load_parameters(str(tmp_path / "a.params"))
    np.testing.assert_array_equal(other(DATA).asnumpy(), layer(DATA).asnumpy())


def test_a_missing_state_is_told():
    state = mx.nd.ones((2, 5))
    stack = rnn.SequentialRNNCell()
    for _ in range(2):
        stack.add(rnn.LSTMCell(5, input_size=5))
    for block, states in (
        (rnn.LSTM(5, input_size=5), [state.reshape((1, 2, 5))]),
        (rnn.LSTMCell(5, input_size=5), [state]),
        (stack, [state] * 3),
    ):
        block.initialize()
        with pytest.raises(mx.MXNetError, match="LSTM.* needs more states than were given; expected 2; got 1"):
            block(state.reshape((1, 2, 5)) if isinstance(block, rnn.LSTM) else state, states)


def test_types_and_layouts():
    layer = ready(rnn.GRU(3, input_size=4))
    layer.cast("float16")
    assert layer(DATA.astype("float16")).dtype == np.float16
    assert layer.state_info(7) == [{"shape": (1, 7, 3), "__layout__": "LNC", "dtype": "float16"}]
    with pytest.raises(AssertionError, match="Invalid layout NCT; must be one of"):
        rnn.GRU(3, layout="NCT")
    assert repr(rnn.LSTM(3, 2, dropout=0.5, bidirectional=True)) == (
        "LSTM(None -> 3, TNC, num_layers=2, dropout=0.5, bidirectional)"
    )
