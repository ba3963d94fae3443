"""Write down what MXNet 1.9.1 infers of networks in which an operator stands between a variable and a loss head.

Run by hand, in the environment of tests/goldens/make.py, from the project's root:

    mxnet-env/bin/python -m tests.goldens.head_shapes

Every operator of `OPERATORS` makes the label, or the data, of every head of `HEADS`. It writes
`tests/goldens/head_shapes.json`: for each network four answers, in the order of `rows`, each the shapes of arguments
and of outputs, "unknown", or null for an error. `tests/passes/test_infer_heads.py` compares; it needs no MXNet.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

OPERATORS: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...]]] = {
    "slice_axis": (lambda s, x: s.slice_axis(x, axis=1, begin=6, end=7), (4, 8)),
    "slice": (lambda s, x: s.slice(x, begin=(0, 2), end=(4, 3)), (4, 8)),
    "slice_like": (lambda s, x: s.slice_like(x, s.Variable("like")), (4, 1)),
    "SwapAxis": (lambda s, x: s.SwapAxis(x, dim1=0, dim2=1), (1, 4)),
    "transpose": (lambda s, x: s.transpose(x, axes=(1, 0)), (1, 4)),
    "expand_dims": (lambda s, x: s.expand_dims(x, axis=1), (4,)),
    "squeeze": (lambda s, x: s.squeeze(x, axis=1), (4, 1)),
    "Reshape": (lambda s, x: s.Reshape(x, shape=(-1, 1)), (4,)),
    "Reshape_kept": (lambda s, x: s.Reshape(x, shape=(0, 1)), (4, 1)),
    "Reshape_flat": (lambda s, x: s.Reshape(x, shape=(-1,)), (4, 1)),
    "Reshape_split": (lambda s, x: s.Reshape(x, shape=(-4, 4, 1, -2)), (4, 1)),
    "reshape_like": (lambda s, x: s.reshape_like(x, s.Variable("like")), (4, 1)),
    "Flatten": (lambda s, x: s.Flatten(x), (4, 1)),
    "softmax": (lambda s, x: s.softmax(x, axis=1), (4, 1)),
    "log_softmax": (lambda s, x: s.log_softmax(x, axis=2), (4, 1, 1)),
    "SoftmaxActivation": (lambda s, x: s.SoftmaxActivation(x), (4, 1)),
    "Concat": (lambda s, x: s.Concat(x, s.Variable("y"), dim=1), (4, 1)),
    "Concat_third": (lambda s, x: s.Concat(x, x, dim=2), (4, 1, 1)),
    "stack": (lambda s, x: s.stack(x, x, axis=1), (4,)),
    "split": (lambda s, x: s.split(x, num_outputs=2, axis=1)[0], (4, 2)),
    "SliceChannel": (lambda s, x: s.SliceChannel(x, num_outputs=2, axis=2)[1], (4, 1, 2)),
    "LayerNorm": (lambda s, x: s.LayerNorm(x, axis=1), (4, 1)),
    "InstanceNorm": (lambda s, x: s.InstanceNorm(x), (4, 1, 2)),
    "GroupNorm": (lambda s, x: s.GroupNorm(x, num_groups=1), (4, 1, 2)),
    "L2Normalization": (lambda s, x: s.L2Normalization(x), (4, 1)),
    "LRN": (lambda s, x: s.LRN(x, nsize=3), (4, 1, 1, 1)),
    "BatchNorm": (lambda s, x: s.BatchNorm(x, axis=1)[0], (4, 1)),
    "Pooling": (lambda s, x: s.Pooling(x, kernel=(2, 2)), (4, 1, 2, 2)),
    "Pooling_global": (lambda s, x: s.Pooling(x, kernel=(2, 2), global_pool=True), (4, 1, 2, 2)),
    "Convolution": (lambda s, x: s.Convolution(x, kernel=(1, 1), num_filter=1), (4, 2, 1, 1)),
    "Deconvolution": (lambda s, x: s.Deconvolution(x, kernel=(1, 1), num_filter=1), (4, 2, 1, 1)),
    "FullyConnected": (lambda s, x: s.FullyConnected(x, num_hidden=1), (4, 3)),
    "FullyConnected_kept": (lambda s, x: s.FullyConnected(x, num_hidden=1, flatten=False), (4, 3)),
    "Embedding": (lambda s, x: s.Embedding(x, input_dim=5, output_dim=1), (4,)),
    "one_hot": (lambda s, x: s.one_hot(x, depth=3), (4,)),
    "argmax": (lambda s, x: s.argmax(x, axis=1), (4, 3)),
    "argsort": (lambda s, x: s.argsort(x, axis=1), (4, 3)),
    "topk": (lambda s, x: s.topk(x, k=1, axis=1), (4, 3)),
    "topk_mask": (lambda s, x: s.topk(x, k=1, axis=1, ret_typ="mask"), (4, 3)),
    "sum": (lambda s, x: s.sum(x, axis=1), (4, 3)),
    "mean_kept": (lambda s, x: s.mean(x, axis=1, keepdims=True), (4, 3)),
    "norm": (lambda s, x: s.norm(x, axis=1), (4, 3)),
    "pick": (lambda s, x: s.pick(x, s.Variable("index"), axis=1), (4, 3)),
    "take": (lambda s, x: s.take(s.Variable("table"), x), (4,)),
    "batch_take": (lambda s, x: s.batch_take(x, s.Variable("index")), (4, 3)),
    "take_axis": (lambda s, x: s.take(x, s.Variable("index"), axis=1), (4, 5)),
    "gather_nd": (lambda s, x: s.gather_nd(x, s.Variable("index")), (4, 3)),
    "dot": (lambda s, x: s.dot(x, s.Variable("y")), (4, 3)),
    "batch_dot": (lambda s, x: s.batch_dot(x, s.Variable("y")), (4, 3, 2)),
    "elemwise_add": (lambda s, x: x + s.Variable("y"), (4, 1)),
    "broadcast_add": (lambda s, x: s.broadcast_add(x, s.Variable("y", shape=(1, 3))), (4, 1)),
    "broadcast_to": (lambda s, x: s.broadcast_to(x, shape=(4, 3)), (4, 1)),
    "broadcast_axis": (lambda s, x: s.broadcast_axis(x, axis=1, size=3), (4, 1)),
    "where": (lambda s, x: s.where(x, s.Variable("y"), s.Variable("z")), (4, 1)),
    "where_chosen": (lambda s, x: s.where(s.Variable("condition"), x, s.Variable("z")), (4, 1)),
    "tile": (lambda s, x: s.tile(x, reps=(1, 2)), (4, 1)),
    "repeat": (lambda s, x: s.repeat(x, repeats=2, axis=1), (4, 1)),
    "reverse": (lambda s, x: s.reverse(x, axis=1), (4, 1)),
    "Pad": (lambda s, x: s.Pad(x, mode="constant", pad_width=(0, 0, 0, 0, 1, 1, 1, 1)), (4, 1, 2, 2)),
    "UpSampling": (lambda s, x: s.UpSampling(x, scale=2, sample_type="nearest"), (4, 1, 2, 2)),
    "Crop": (lambda s, x: s.Crop(x, h_w=(1, 1), num_args=1), (4, 1, 2, 2)),
    "depth_to_space": (lambda s, x: s.depth_to_space(x, block_size=2), (4, 4, 1, 1)),
    "space_to_depth": (lambda s, x: s.space_to_depth(x, block_size=2), (4, 1, 2, 2)),
    "SequenceMask": (lambda s, x: s.SequenceMask(x, axis=1), (4, 1)),
    "SequenceLast": (lambda s, x: s.SequenceLast(x), (3, 4, 1)),
    "SequenceLast_lengths": (
        lambda s, x: s.SequenceLast(x, s.Variable("lengths"), use_sequence_length=True),
        (3, 4, 1),
    ),
    "SequenceReverse": (lambda s, x: s.SequenceReverse(x), (3, 4, 1)),
    "diag": (lambda s, x: s.diag(x), (4, 4)),
    "clip": (lambda s, x: s.clip(x, a_min=0, a_max=1), (4, 1)),
    "Cast": (lambda s, x: s.Cast(x, dtype="float32"), (4, 1)),
    "Activation": (lambda s, x: s.Activation(x, act_type="relu"), (4, 1)),
    "PReLU": (lambda s, x: s.LeakyReLU(x, act_type="prelu"), (4, 3)),
    "Dropout": (lambda s, x: s.Dropout(x), (4, 1)),
    "mul_scalar": (lambda s, x: x * 2, (4, 1)),
    "BlockGrad": (lambda s, x: s.BlockGrad(x), (4,)),
    "shape_array": (lambda s, x: s.shape_array(x), (4, 1)),
    "smooth_l1": (lambda s, x: s.smooth_l1(x), (4, 1)),
    "linalg_trsm": (lambda s, x: s.linalg_trsm(s.Variable("triangle"), x), (4, 1)),
    "RNN": (
        lambda s, x: s.RNN(
            *(x, s.Variable("parameters"), s.Variable("state")), state_size=1, num_layers=1, mode="rnn_tanh"
        ),
        (4, 3, 1),
    ),
    "linalg_gemm2": (lambda s, x: s.linalg_gemm2(x, s.Variable("y")), (4, 3)),
}
"""What makes an array of a variable: (MXNet's or our namespace of symbols, the variable) → symbol; and its shape."""

HEADS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "SoftmaxOutput": lambda s, data, label: s.SoftmaxOutput(data, label),
    "SoftmaxOutput_multi": lambda s, data, label: s.SoftmaxOutput(data, label, multi_output=True),
    "LinearRegressionOutput": lambda s, data, label: s.LinearRegressionOutput(data, label),
    "LogisticRegressionOutput": lambda s, data, label: s.LogisticRegressionOutput(data, label),
    "MAERegressionOutput": lambda s, data, label: s.MAERegressionOutput(data, label),
    "SVMOutput": lambda s, data, label: s.SVMOutput(data, label),
    "softmax_cross_entropy": lambda s, data, label: s.softmax_cross_entropy(data, label),
    "CTCLoss": lambda s, data, label: s.CTCLoss(s.expand_dims(data, axis=0), label),
    "MakeLoss": lambda s, data, label: s.MakeLoss(s.square(data - label)),
}
"""(namespace of symbols, data, label) → a loss head."""

SIDES: dict[str, tuple[str, int]] = {"label": ("label", 1), "wide label": ("label", 3), "data": ("data", 1)}
"""Which input of the head the operator makes, and how many outputs per sample the layer before the other one has."""

GIVEN = ("other", "both")
"""What is given: the head's other input, or the operator's variable, too."""


def network(namespace: Any, operator: str, head: str, side: str) -> Any:
    """A head with an operator before one input, and a dense layer before its data or a variable as its label."""
    made = OPERATORS[operator][0](namespace, namespace.Variable("x"))
    which, width = SIDES[side]
    if which == "data":
        return HEADS[head](namespace, made, namespace.Variable("label"))
    fed = namespace.FullyConnected(namespace.Variable("data"), num_hidden=width, name="fc")
    return HEADS[head](namespace, fed, made)


def given(operator: str, side: str, what: str) -> dict[str, tuple[int, ...]]:
    """Shapes by name."""
    other: dict[str, tuple[int, ...]] = {"label": (4,)} if side == "data" else {"data": (4, 3)}
    return other if what == "other" else {**other, "x": OPERATORS[operator][1]}


def rows() -> Iterator[tuple[str, str, str, str, bool]]:
    """(operator, head, side, what is given, whether part of the answer will do) of every question."""
    for operator in OPERATORS:
        for head in HEADS:
            for side in SIDES:
                for what in GIVEN:
                    for partial in (True, False):
                        yield operator, head, side, what, partial


def answer(net: Any, shapes: dict[str, tuple[int, ...]], partial: bool, error: type[Exception]) -> Any:
    """The shapes of arguments and of outputs; "unknown", or None for an error."""
    try:
        args, outs, _ = (net.infer_shape_partial if partial else net.infer_shape)(**shapes)
    except error:
        return None
    if args is None:
        return "unknown"
    return [[list(shape or ()) for shape in shapes] for shapes in (args, outs)]


def main() -> None:
    """Ask MXNet and write the answers, a line for each network."""
    import mxnet as mx  # type: ignore[import-not-found]

    answers: dict[str, list[Any]] = {}
    for operator, head, side, what, partial in rows():
        with mx.name.NameManager():
            net = network(mx.sym, operator, head, side)
        shapes = given(operator, side, what)
        answers.setdefault(f"{operator} {head} {side}", []).append(answer(net, shapes, partial, mx.MXNetError))
    lines = (f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in answers.items())
    (HERE / "head_shapes.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
