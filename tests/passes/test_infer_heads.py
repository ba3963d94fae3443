"""What is inferred where an operator stands between a variable and a loss head: what MXNet infers, and no error."""

import json
from typing import Any

import pytest

import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError
from symjax_nnvm.symbol.symbol import Symbol
from tests.goldens.head_shapes import HEADS, HERE, OPERATORS, answer, given, network, rows

MXNET: dict[str, list[Any]] = json.loads((HERE / "head_shapes.json").read_text())

ONE_AXIS = "MXNet takes data of one axis for samples of one class"
NO_SHAPE = "what is given decides that no shape of the other operand would do"

DIFFERENT = {
    ("log_softmax", "other"): "MXNet infers arrays without the axis of the softmax, over which it cannot run",
    ("where", "both"): "MXNet infers operands that do not fit the condition",
    ("where_chosen", "both"): "MXNet infers operands that do not fit each other",
    ("linalg_trsm", "both"): NO_SHAPE,
    ("Reshape_flat", "other"): ONE_AXIS,
    ("Reshape_flat", "both"): ONE_AXIS,
    ("Concat", "both"): "MXNet adds up an unknown width as 0",
    ("batch_dot", "both"): NO_SHAPE,
    ("linalg_gemm2", "both"): NO_SHAPE,
    **{(name, "both"): ONE_AXIS for name in ("squeeze", "argmax", "sum", "norm", "pick", "diag", "BlockGrad")},
}
"""(operator, what is given) → why an answer is not MXNet's."""


def inferred(net: Symbol, shapes: dict[str, tuple[int, ...]], partial: bool) -> Any:
    """Our answer, in the golden's form."""
    return answer(net, shapes, partial, InferenceError)


def agrees(ours: Any, mxnets: Any) -> bool:
    """Whether we know all that MXNet knows, and raise no error where it raises none."""
    if mxnets is None:
        return True
    if mxnets == "unknown" or ours in (None, "unknown"):
        return ours is not None and mxnets == "unknown"
    pairs = [pair for one, other in zip(ours, mxnets, strict=True) for pair in zip(one, other, strict=True)]
    return all(
        not theirs or (len(own) == len(theirs) and all(a == b or b == 0 for a, b in zip(own, theirs, strict=True)))
        for own, theirs in pairs
    )


@pytest.mark.slow("has many cases")
@pytest.mark.filterwarnings("ignore:Cannot decide shape")
@pytest.mark.parametrize("operator", OPERATORS)
def test_what_mxnet_infers_is_inferred(operator: str):
    places: dict[str, int] = {}
    different: set[str] = set()
    for op, head, side, what, partial in rows():
        if op != operator:
            continue
        key = f"{op} {head} {side}"
        place = places.setdefault(key, 0)
        places[key] += 1
        ours = inferred(network(sym, op, head, side), given(op, side, what), partial)
        # An error that MXNet raises as soon as the variable is given, too, may come earlier.
        never_runs = ours is None and what == "other" and MXNET[key][3] is None
        if not agrees(ours, MXNET[key][place]) and not never_runs:
            assert (op, what) in DIFFERENT, (key, what, partial, ours, MXNET[key][place])
            different.add(what)
    assert different == {what for op, what in DIFFERENT if op == operator}


def test_the_golden_has_every_network():
    assert len(OPERATORS) * len(HEADS) * 3 == len(MXNET)
    assert all(len(answers) == 4 for answers in MXNET.values())


# -- guesses ---------------------------------------------------------------------------------------------------------


def cut(width: int) -> Symbol:
    """A regression onto columns of an array of labels."""
    score = sym.FullyConnected(sym.Variable("data"), num_hidden=1, name="fc")
    labels = sym.slice_axis(sym.Variable("labels"), axis=1, begin=6, end=6 + width, name="cut")
    return sym.LinearRegressionOutput(score, labels, name="head")


def test_a_label_that_is_cut_out_of_an_array_is_no_error():
    assert nn.check(cut(1), shapes={"data": (4, 3)}).ok
    args, outs, _ = cut(1).infer_shape_partial(data=(4, 3))
    assert (args[:3], outs) == ([(4, 3), (1, 3), (1,)], [(4, 1)])
    assert cut(1).infer_shape(data=(4, 3), labels=(4, 8))[1] == [(4, 1)]


def test_what_is_given_and_does_not_fit_is_an_error():
    with pytest.raises(InferenceError, match=r"node 'head', input 'label'"):
        cut(2).infer_shape(data=(4, 3), labels=(4, 8))


@pytest.mark.parametrize("width", [1, 2])
def test_what_an_operator_says_after_its_guess_was_dropped_is_held_against_its_readers(width: int):
    """The shape of `labels` is learnt from a sum that comes after the head."""
    net = cut(width)
    labels = next(one for one in net.get_internals() if one.name == "labels")
    net = sym.Group([net, labels + sym.Variable("beside", shape=(4, 8))])
    if width == 1:
        assert net.infer_shape(data=(4, 3))[1] == [(4, 1), (4, 8)]
    else:
        with pytest.raises(InferenceError, match=r"node 'head', input 'label'"):
            net.infer_shape(data=(4, 3))


def test_a_guess_of_one_dimension_is_dropped_alone():
    made = sym.Concat(sym.Variable("x", shape=(4, 1)), sym.Variable("y"), dim=1, name="both")
    net = sym.LinearRegressionOutput(sym.Variable("data", shape=(4, 1)), made)
    assert net.infer_shape_partial()[0] == [(4, 1), (4, 1), (4, 0)]


def test_what_an_operator_concludes_from_a_guess_is_dropped_with_it():
    """`reverse` takes the guess of a vector for its input at first, and refuses the axis then."""
    label = sym.reverse(sym.Variable("label"), axis=1)
    net = sym.SoftmaxOutput(sym.FullyConnected(sym.Variable("data"), num_hidden=4), label)
    assert net.infer_shape_partial(data=(0, 6))[0] == [(0, 6), (4, 6), (4,), ()]
    assert net.infer_shape_partial(data=(2, 6), label=(2, 4))[1] == [(2, 4)]
    with pytest.raises(InferenceError, match="no such axis"):
        net.infer_shape(data=(2, 6), label=(2,))
