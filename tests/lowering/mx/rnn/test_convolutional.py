"""Convolutional cells: on images of one pixel they are the plain ones."""

from typing import Any

import numpy as np
import pytest

from lowering import mx

PLAIN = {
    "ConvRNNCell": lambda: mx.rnn.RNNCell(4, prefix="c_"),
    "ConvLSTMCell": lambda: mx.rnn.LSTMCell(4, prefix="c_"),
    "ConvGRUCell": lambda: mx.rnn.GRUCell(4, prefix="c_"),
}
RNG = np.random.default_rng(4)


def run(cell: Any, arrays: dict[str, np.ndarray], trailing: tuple[int, ...]) -> list[np.ndarray]:
    """The outputs and last states of two steps."""
    steps = [mx.sym.Variable(f"x{i}") for i in range(2)]
    outputs, states = cell.unroll(2, steps, begin_state=cell.begin_state(mx.sym.Variable))
    net = mx.sym.Group([*outputs, *states])
    shapes = {name: (*value.shape, *trailing) if value.ndim == 2 else value.shape for name, value in arrays.items()}
    given = {name: mx.nd.array(arrays[name].reshape(shapes[name])) for name in net.list_arguments()}
    return [np.squeeze(out.asnumpy()) for out in net.bind(mx.cpu(), given, grad_req="null").forward()]


@pytest.mark.parametrize("kind", PLAIN)
def test_one_pixel(kind: str):
    kernels = {"h2h_kernel": (1, 1), "i2h_kernel": (1, 1), "i2h_pad": (0, 0)}
    cell = getattr(mx.rnn, kind)((2, 3, 1, 1), 4, activation="tanh", prefix="c_", **kernels)
    plain = PLAIN[kind]()
    gates = len(plain._gate_names)
    shapes = {"c_i2h_weight": (4 * gates, 3), "c_h2h_weight": (4 * gates, 4), "c_i2h_bias": (4 * gates,)}
    shapes |= {"c_h2h_bias": (4 * gates,), "x0": (2, 3), "x1": (2, 3)}
    shapes |= {f"c_begin_state_{i}": (2, 4) for i in range(2)}
    arrays = {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    for found, expected in zip(run(cell, arrays, (1, 1)), run(plain, arrays, ()), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", PLAIN)
def test_shapes_and_names(kind: str):
    cell = getattr(mx.rnn, kind)((1, 3, 8, 6), 4, i2h_stride=(2, 1), h2h_kernel=(5, 3), h2h_dilate=(2, 1))
    outputs, states = cell.unroll(3, [mx.sym.Variable(f"x{i}") for i in range(3)])
    prefix = kind.removesuffix("Cell") + "_"
    assert outputs[2].list_outputs() == [f"{prefix}t2_out_output"]
    assert cell.state_shape == [(0, 4, 4, 6)] * len(states)
    assert {info["__layout__"] for info in cell.state_info} == {"NCHW"}
    _, shapes, _ = mx.sym.Group([*outputs, *states]).infer_shape(x0=(2, 3, 8, 6), x1=(2, 3, 8, 6), x2=(2, 3, 8, 6))
    assert set(shapes) == {(2, 4, 4, 6)}
    assert set(cell.params._params) == {f"{prefix}{each}" for each in
                                        ("i2h_weight", "i2h_bias", "h2h_weight", "h2h_bias")}  # fmt: skip
    args = {name: mx.nd.ones((4 * len(cell._gate_names), 1)) for name in cell.params._params}
    packed = cell.pack_weights(cell.unpack_weights(args))
    assert {name: value.shape for name, value in packed.items()} == {name: args[name].shape for name in args}


def test_channels_last_and_gates_as_files_have_them():
    for kind, written in (("ConvLSTMCell", {"1", "3"}), ("ConvGRUCell", {None, "3"})):
        found = set()
        for layout, shape in (("NCHW", (1, 3, 5, 5)), ("NHWC", (1, 5, 5, 3))):
            cell = getattr(mx.rnn, kind)(shape, 4, conv_layout=layout)
            assert cell.state_shape[0] == ((0, 4, 5, 5) if layout == "NCHW" else (0, 5, 5, 4))
            outputs, _ = cell.unroll(1, [mx.sym.Variable("x")])
            attributes = outputs[0].attr_dict()
            found |= {each.get("axis") for each in attributes.values() if "num_outputs" in each}
            _, shapes, _ = outputs[0].infer_shape(x=shape)
            assert shapes[0][1:] == cell.state_shape[0][1:]
        assert found == written


def test_an_activation_of_ones_own():
    class Doubling(mx.rnn.BaseRNNCell):
        def __call__(self, inputs: Any, states: Any) -> Any:
            return self._get_activation(inputs, lambda x, name: mx.sym.identity(x * 2, name=name), name="twice"), states

    assert Doubling()(mx.sym.Variable("x"), [])[0].name == "twice"
    assert mx.rnn.BaseRNNCell()._get_activation(mx.sym.Variable("x"), "relu", name="r").list_outputs() == ["r_output"]
    with pytest.raises(AssertionError, match="Only support odd number"):
        mx.rnn.ConvRNNCell((1, 3, 5, 5), 4, h2h_kernel=(2, 2))
    assert mx.rnn.io.BucketSentenceIter is mx.rnn.BucketSentenceIter
    assert issubclass(mx.rnn.ConvGRUCell, mx.rnn.BaseConvRNNCell)
