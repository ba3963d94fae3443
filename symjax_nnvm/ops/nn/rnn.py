"""RNN: layers of recurrent cells over time, in one operator, as cuDNN has them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.attributes import When
from symjax_nnvm.ir.node import Node, NodeEntry, superseding
from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Entries, need_float, register_op
from symjax_nnvm.ir.rules.axes import known
from symjax_nnvm.ir.rules.costs import Flops, Sizes
from symjax_nnvm.ir.rules.derivatives import DirectionParams, Operands, register_derivatives
from symjax_nnvm.ir.rules.named_dims import of_rank
from symjax_nnvm.ir.rules.quantized_form import quantized_as
from symjax_nnvm.ir.types import Dim, Shape

Mode = Literal["gru", "lstm", "rnn_relu", "rnn_tanh"]

GATES: dict[str, int] = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}
"""Rows of a cell's weights in units of the state size. Their order: lstm i, f, g, o; gru r, z, n."""

KEPT: dict[str, tuple[str, ...]] = {
    "rnn_relu": (),
    "rnn_tanh": (),
    "lstm": ("i", "f", "g", "o", "c"),
    "gru": ("r", "z", "n", "m"),
}
"""What a step keeps for the gradient, each (t, state_size, n), as JAX rules work: its gates; c, the cell state it
started from; m, what the reset gate r multiplies."""


MAX_LAYERS = 256
"""Layers of one node: a number in a file must not decide how long inference takes."""


class RNNParams(Params):
    state_size: int = param(ge=1, doc="length of a cell's state")
    num_layers: int = param(ge=1, le=MAX_LAYERS, doc="number of layers, each fed with the output of the one below")
    bidirectional: bool = param(False, doc="let a second set of cells read every sequence backwards")
    mode: Mode = param(doc="the cell")
    p: float = param(0.0, ge=0, le=1, doc="in training: share of the elements dropped between two layers")
    state_outputs: bool = param(False, doc="show the states after the last step")
    projection_size: int | None = param(None, ge=1, doc="lstm only: project the output of each cell to this length")
    lstm_state_clip_min: float | None = param(None, doc="lstm only: least value of the cell state, with _max")
    lstm_state_clip_max: float | None = param(None, doc="lstm only: greatest value of the cell state, with _min")
    lstm_state_clip_nan: bool = param(False, doc="where the cell state is clipped: make NaN its least value")
    use_sequence_length: bool = param(False, doc="take the length of each sequence")

    def check(self) -> str | None:
        low, high = self.lstm_state_clip_min, self.lstm_state_clip_max
        if (low is None) != (high is None):
            return "Parameters lstm_state_clip_min and lstm_state_clip_max are given together or not at all"
        if low is not None and high is not None and low > high:
            return f"Parameter lstm_state_clip_min={low} is greater than lstm_state_clip_max={high}"
        if self.mode != "lstm":
            if self.projection_size is not None:
                return f"Parameter projection_size={self.projection_size}: only mode='lstm' projects its output"
            if low is not None:
                return f"Parameter lstm_state_clip_min={low}: only mode='lstm' has a cell state to clip"
        return None

    @property
    def num_directions(self) -> int:
        """1, or 2 when a second set of cells reads backwards."""
        return 2 if self.bidirectional else 1

    @property
    def output_size(self) -> int:
        """The length of a cell's output."""
        return self.state_size if self.projection_size is None else self.projection_size

    @property
    def has_mask(self) -> bool:
        """Whether elements may be dropped."""
        return self.p > 0 and self.num_layers > 1

    @property
    def cells(self) -> list[tuple[int, int]]:
        """(layer, direction) of every set of cells, in the order of their states and parameters."""
        return [(layer, d) for layer in range(self.num_layers) for d in range(self.num_directions)]


class RNNGradientParams(RNNParams, DirectionParams):
    """Parameters of the gradient of RNN: those of RNN, and the number of directions."""


# -- the flat vector of parameters -----------------------------------------------------------------------------------


def weight_shapes(p: RNNParams, layer: int, input_size: Dim) -> list[tuple[Dim, int]]:
    """The matrices of one set of cells: i2h (g·h, d), h2h (g·h, s) and, with a projection, h2r (s, h)."""
    rows = GATES[p.mode] * p.state_size
    depth = input_size if layer == 0 else p.num_directions * p.output_size
    matrices: list[Any] = [(rows, depth), (rows, p.output_size)]
    return matrices if p.projection_size is None else [*matrices, (p.output_size, p.state_size)]


def bias_shapes(p: RNNParams) -> list[tuple[int]]:
    """The biases of one set of cells: i2h (g·h,) and h2h (g·h,)."""
    return [(GATES[p.mode] * p.state_size,)] * 2


def parameter_shapes(p: RNNParams, input_size: int) -> list[tuple[int, ...]]:
    """The pieces of the flat vector, in order: all matrices, cell by cell, then all biases, cell by cell."""
    matrices: list[Any] = [shape for layer, _ in p.cells for shape in weight_shapes(p, layer, input_size)]
    return matrices + [shape for _ in p.cells for shape in bias_shapes(p)]


def _parameter_size(p: RNNParams, input_size: int) -> int:
    return sum(math.prod(shape) for shape in parameter_shapes(p, input_size))


def _input_size(p: RNNParams, parameters: int) -> int:
    """The input size of a number of parameters. Raises InferenceError when it is that of none."""
    base = _parameter_size(p, 0)
    step = _parameter_size(p, 1) - base
    if parameters <= base or (parameters - base) % step:
        raise InferenceError(
            "No input size has this number of parameters",
            input="parameters",
            expected=f"{base} + {step} · (input size) elements",
            got=parameters,
        )
    return (parameters - base) // step


# -- inference -------------------------------------------------------------------------------------------------------


def heads(p: RNNParams) -> tuple[str, ...]:
    """The visible outputs."""
    names = ("output", "state_output", "statecell_output")
    return names[: (3 if p.mode == "lstm" else 2) if p.state_outputs else 1]


def smooth(p: RNNParams) -> tuple[str, ...]:
    """Return the names of the inputs that have gradients."""
    return ("data", "parameters", "state", "state_cell")[: 4 if p.mode == "lstm" else 3]


def _inputs(p: RNNParams) -> tuple[str, ...]:
    return (*smooth(p), "sequence_length") if p.use_sequence_length else smooth(p)


def hidden(p: RNNParams) -> list[str]:
    """The outputs that users do not see: the dropout mask, and what the gradient reads."""
    layers = [f"layer{layer}_output" for layer in range(p.num_layers - 1)]
    gates = [f"{'lr'[d]}{layer}_{gate}" for layer, d in p.cells for gate in KEPT[p.mode]]
    return [*["mask"] * p.has_mask, *layers, *gates]


def _fixed(p: RNNParams) -> list[str]:
    return [*["sequence_length"] * p.use_sequence_length, "output", *hidden(p)]


def _three(shape: Shape | None, name: str, meaning: str) -> Shape:
    return of_rank(shape, 3, f"Input {name} should be a rank-3 tensor", input=name, expected=meaning)


def operand_shapes(p: RNNParams, at: Operands) -> Operands:
    """data (t, n, d), parameters (w,), state (l·k, n, s), state_cell (l·k, n, h), sequence_length (n,) → output (t, n,
    k·s), and the states after the last step; l layers, k directions, s = projection_size or state_size."""
    steps, batch, size = _three(at.smooth[0], "data", "(sequence length, batch size, input size)")
    states = [_three(shape, "state", "(layers · directions, batch size, state size)") for shape in at.smooth[2:]]
    output = at.heads[0] if at.heads[0] is not None and len(at.heads[0]) == 3 else (None, None, None)
    lengths = at.fixed[0] if p.use_sequence_length else None
    batch = known(batch, output[1], *(state[1] for state in states), lengths[0] if lengths else None)
    steps = known(steps, output[0])
    parameters = at.smooth[1][0] if at.smooth[1] else None
    if size is None and parameters is not None:
        size = _input_size(p, parameters)
    if size is not None:
        parameters = _parameter_size(p, size)
    rows, width = len(p.cells), p.num_directions * p.output_size
    after = [(rows, batch, p.output_size), (rows, batch, p.state_size)]
    shapes: dict[str, Shape] = dict.fromkeys(hidden(p), (steps, p.state_size, batch))
    shapes |= {f"layer{layer}_output": (steps, width, batch) for layer in range(p.num_layers - 1)}
    shapes |= {"mask": (p.num_layers - 1, steps, width, batch), "output": (steps, batch, width)}
    shapes |= {"sequence_length": (batch,)}
    return Operands(
        [shapes["output"], *after][: len(at.heads)],
        [(steps, batch, size), (parameters,), *after][: len(at.smooth)],
        [shapes[name] for name in _fixed(p)],
        [],
    )


def _operand_types(p: RNNParams, at: Operands) -> Operands:
    """One floating-point dtype for all but sequence_length, which has any: by default that of data."""
    dtypes = [*at.heads, *at.smooth, *at.fixed[p.use_sequence_length :]]
    dtype = next((t for t in dtypes if t is not None), None)
    need_float(dtype)
    lengths = [length or dtype for length in at.fixed[: int(p.use_sequence_length)]]
    residual_dtypes = [dtype] * (len(at.fixed) - len(lengths))
    return Operands([dtype] * len(at.heads), [dtype] * len(at.smooth), [*lengths, *residual_dtypes], [])


def _inferred(rule: Any, p: RNNParams, ins: Sequence[Any], outs: Sequence[Any]):
    """The forward operator's rule from that of the operands: `output` is among what the gradient reads."""
    visible, inputs = len(heads(p)), len(smooth(p))
    at = Operands(list(outs[:visible]), list(ins[:inputs]), [*ins[inputs:], outs[0], *outs[visible:]], [])
    inferred = rule(p, at)
    lengths = inferred.fixed[: int(p.use_sequence_length)]
    return [*inferred.smooth, *lengths], [*inferred.heads, *inferred.fixed[len(lengths) + 1 :]]


def _visible(rule: Any, p: RNNParams, ins: Sequence[Any], outs: Sequence[Any]):
    """The rule of the operator that keeps nothing but its outputs."""
    inputs, outputs = _inferred(rule, p, ins, [*outs, *[None] * len(hidden(p))])
    return inputs, outputs[: len(outs)]


# -- registration ----------------------------------------------------------------------------------------------------

DERIVATIVES = register_derivatives(
    "RNN",
    params=RNNGradientParams,
    heads=heads,
    smooth=smooth,
    fixed=_fixed,
    infer_shape=operand_shapes,
    infer_type=_operand_types,
)


def _gradient(node: Node, ograds: Entries):
    """Back through time, from what the forward pass kept; see `symjax_nnvm.ir.rules.derivatives`."""
    p: RNNParams = node.attrs.parsed
    keeping = superseding(node, "_backward_RNN_forward")
    residuals = [NodeEntry(keeping, i, 0) for i in (0, *range(len(heads(p)), keeping.num_outputs()))]
    return DERIVATIVES.gradient(node, ograds, [*node.inputs[len(smooth(p)) :], *residuals])


_INPUTS = ("data", "parameters", "state", "state_cell", "sequence_length")


# -- costs -----------------------------------------------------------------------------------------------------------


def rnn_flops(p: RNNParams, ins: Sizes, outs: Sizes) -> Flops:
    """Every weight of the vector, biases excepted, meets every element of every sequence once."""
    steps, batch, _ = ins[0]
    gates = GATES[p.mode]
    biases = 2 * p.num_layers * p.num_directions * gates * p.state_size
    cells = steps * batch * p.num_layers * p.num_directions * p.state_size
    return Flops(steps * batch * (ins[1][0] - biases), cells * (4 * gates if gates > 1 else 3))


def _rnn_workspace(p: RNNParams, ins: Sizes, outs: Sizes) -> int:
    """The gates of every step of one layer, and every layer's output."""
    steps, batch, _ = ins[0]
    return steps * batch * p.state_size * p.num_directions * (GATES[p.mode] + p.num_layers)


def _draws(p: RNNParams) -> When:
    return "training" if p.has_mask else None


_DEVIATIONS = (
    Deviation(
        "sequence lengths work as in cuDNN, outputs past an end are 0; MXNet ignores or refuses them on a CPU",
        when=lambda p: p.use_sequence_length,
    ),
    Deviation(
        "dropout between layers acts in training; MXNet's RNN on a CPU (oneDNN) leaves it out",
        "training",
        lambda p: p.p > 0 and p.num_layers > 1,
    ),
    Deviation(
        "LSTM states are clipped as in cuDNN; MXNet ignores or refuses clipping on a CPU",
        when=lambda p: p.lstm_state_clip_min is not None or p.lstm_state_clip_max is not None,
    ),
)


register_op(
    "RNN",
    FQuantized=quantized_as(
        "_contrib_quantized_rnn",
        lambda p: p.mode == "lstm",
        is_product=True,
        float_inputs=range(1, 4),
        asymmetric=(0,),
        is_float=True,
    ),
    aliases=("_npx_rnn",),
    params=RNNParams,
    inputs=_INPUTS,
    inputs_used=_inputs,
    num_outputs=lambda p: len(heads(p)),
    infer_shape=partial(_visible, operand_shapes),
    infer_type=partial(_visible, _operand_types),
    gradient=_gradient,
    FListOutputNames=lambda attrs: heads(attrs.parsed),
    flops=rnn_flops,
    workspace=_rnn_workspace,
    precision="half",
    draws=_draws,
    deviation=_DEVIATIONS,
    drawing="recurrent",
    doc="Recurrent layers over data (t, n, d): plain cells with relu or tanh, LSTM (Hochreiter & Schmidhuber 1997, "
    "gates i, f, g, o; with projection, Sak et al. 2014) or GRU (Cho et al. 2014, gates r, z, n, in cuDNN's form, "
    "where r multiplies the recurrent product with its bias). parameters is one vector: the matrices i2h, h2h (and "
    "h2r) of every layer and direction, then their biases i2h, h2h. Elements dropped between layers are those of an "
    "explicit key; MXNet drops none on a CPU. Sequence lengths and state clipping, which MXNet ignores or refuses on "
    "the CPU, work as in cuDNN: outputs past a sequence's end are 0, the states are those after its last step, and "
    "backward cells start there.",
)

register_op(
    "_backward_RNN_forward",
    params=RNNParams,
    inputs=_INPUTS,
    inputs_used=_inputs,
    num_outputs=lambda p: len(heads(p)) + len(hidden(p)),
    visible_outputs=lambda p: len(heads(p)),
    infer_shape=partial(_inferred, operand_shapes),
    infer_type=partial(_inferred, _operand_types),
    gradient=_gradient,
    FListOutputNames=lambda attrs: [*heads(attrs.parsed), *hidden(attrs.parsed)],
    TIsBackward=True,
    TSupersedes=True,
    draws=_draws,
    doc="`RNN`, and what its gradient reads: the mask, the outputs of lower layers, the gates.",
)
