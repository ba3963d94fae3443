"""Results that no input has: what is known of a node's output beforehand is held against its operator, with its words.

What only a reader guesses of an output is dropped (`test_infer_heads.py`); what is known of it, is not.
"""

import pytest

from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.passes.infer import infer_shape
from symjax_nnvm.symbol.symbol import Symbol

X = sym.Variable("x")

IMPOSSIBLE: dict[str, tuple[Symbol, dict[str, tuple[int, ...]], tuple[int, ...], tuple[str, ...]]] = {
    "Deconvolution": (
        sym.Deconvolution(X, kernel=(3, 3), stride=(2, 2), num_filter=2, name="layer"),
        {},
        (1, 2, 4, 4),
        ("No input has an output of this size", "parameter 'stride'", "expected 3 plus a multiple of 2", "got 4"),
    ),
    "Deconvolution of a kernel that is longer": (
        sym.Deconvolution(X, kernel=(3, 3), num_filter=2, name="layer"),
        {},
        (1, 2, 2, 2),
        ("No input has an output of this size", "expected 3 plus a multiple of 1", "got 2"),
    ),
    "Concat": (
        sym.Concat(X, sym.Variable("y"), dim=1, name="layer"),
        {"x": (2, 3)},
        (2, 2),
        ("The inputs are longer than the result", "expected less than 2 along axis 1", "got 3"),
    ),
    "_rnn_param_concat": (
        sym._rnn_param_concat(X, sym.Variable("y"), sym.Variable("z"), dim=0, name="layer"),
        {"x": (3,)},
        (6,),
        (
            "2 inputs of unknown length cannot have one length",
            "a multiple of 2 left of the 6 along axis 0",
            "got 3, as the others have 3",
            "Give the shape of one of them",
        ),
    ),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_result_that_is_known_and_impossible_is_told_with_the_reason(name: str):
    net, shapes, result, words = IMPOSSIBLE[name]
    graph = Graph(net.outputs, attrs={"shape_hints": {net.outputs[0]: result}})
    with pytest.raises(InferenceError) as told:
        infer_shape(graph, shapes=shapes)
    node = net.outputs[0].node
    assert node.op is not None
    for word in (*words, f"operator {node.op.name!r}, node 'layer'", "got input shapes"):
        assert word in str(told.value)


def test_a_number_of_parameters_that_no_input_size_has_is_told():
    net = sym.RNN(X, sym.Variable("p"), sym.Variable("s"), state_size=4, num_layers=1, mode="rnn_tanh", name="layer")
    words = r"No input size has this number.*'parameters'; expected 24 \+ 4 · \(input size\).*got 26.*node 'layer'"
    with pytest.raises(InferenceError, match=words):
        net.infer_shape_partial(p=(26,))
    assert net.infer_shape_partial(p=(44,))[0] == [(0, 0, 5), (44,), (1, 0, 4)]


def test_a_padding_that_leaves_nothing_is_told():
    net = sym.Deconvolution(X, kernel=(3, 3), num_filter=2, pad=(2, 2), name="layer")
    with pytest.raises(
        InferenceError, match=r"leaves nothing of the output.*'pad'; expected at most 1; got 2.*'layer'"
    ):
        net.infer_shape(x=(1, 3, 1, 1))
