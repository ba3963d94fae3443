"""The catalogue of operator attributes: every key of NNVM, of MXNet and of this library, its meaning and signature.

Each name below is the attribute's key; the annotation is the type of a value. Every key that the project uses is listed
in this file: nothing reads a value that is set under a misspelt key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from symjax_nnvm.ir.op import Deviation, Op, OpMap

if TYPE_CHECKING:
    from symjax_nnvm.ir.backend_token import BackendToken
    from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry
    from symjax_nnvm.ir.rules.costs import Flops, Sizes
    from symjax_nnvm.ir.rules.layout_rules import CorrectLayout
    from symjax_nnvm.ir.types import DType, Shape

Precision = Literal["half", "either", "float32"]
Recompute = Literal["freely", "if forced", "in blocks", "never"]
When = Literal["always", "training"] | None

# -- NNVM's and MXNet's ------------------------------------------------------------------------------------------------

FListInputNames: OpMap[Callable[[NodeAttrs], Iterable[str]]] = Op.get_attr("FListInputNames")
"""attrs → names of the inputs, for keywords and automatic variables; default `["data"]`."""

TUnlistedInputs: OpMap[bool] = Op.get_attr("TUnlistedInputs")
"""MXNet's operator does not list the names of its inputs: a monitor there calls them `input0`, `input1`, …"""

FListOutputNames: OpMap[Callable[[NodeAttrs], Iterable[str]]] = Op.get_attr("FListOutputNames")
"""attrs → names of all outputs; default `output`, or `output{i}` when there are several."""

FNumVisibleOutputs: OpMap[Callable[[NodeAttrs], int]] = Op.get_attr("FNumVisibleOutputs")
"""attrs → number of leading outputs that users see; default all."""

FMutateInputs: OpMap[Callable[[NodeAttrs], Iterable[int]]] = Op.get_attr("FMutateInputs")
"""attrs → input numbers that the operator writes: auxiliary states; default none."""

FInferShape: OpMap[
    Callable[
        [NodeAttrs, list[Shape | None], list[Shape | None]],
        tuple[Iterable[Shape | None], Iterable[Shape | None]],
    ]
] = Op.get_attr("FInferShape")
"""(attrs, known input shapes, known output shapes) → proposed (inputs, outputs); the pass merges them."""

FInferType: OpMap[
    Callable[
        [NodeAttrs, list[DType | None], list[DType | None]],
        tuple[Iterable[DType | None], Iterable[DType | None]],
    ]
] = Op.get_attr("FInferType")
"""(attrs, known input dtypes, known output dtypes) → proposed (inputs, outputs); default all the same."""

FInferDefaultType: OpMap[
    Callable[
        [NodeAttrs, list[DType | None], list[DType | None]],
        tuple[Iterable[DType | None], Iterable[DType | None]],
    ]
] = Op.get_attr("FInferDefaultType")
"""As FInferType, used only when nothing else in the graph decides the dtypes of the node: it makes its arrays."""

FGradient: OpMap[Callable[[Node, list[NodeEntry]], Iterable[NodeEntry | None]]] = Op.get_attr("FGradient")
"""(node, head gradients) → one gradient per input; None where nothing flows."""

FSetInputVarAttrOnCompose: OpMap[Callable[[NodeAttrs, Node, int], None]] = Op.get_attr("FSetInputVarAttrOnCompose")
"""(attrs, variable, input number) → None: may write attributes of a variable when it becomes an input."""

FInputGraph: OpMap[Callable[[NodeAttrs], Iterable[int]]] = Op.get_attr("FInputGraph")
"""attrs → input numbers that are graphs; compose moves them to `attrs.subgraphs`."""

FInplaceOption: OpMap[Callable[[NodeAttrs], Iterable[tuple[int, int]]]] = Op.get_attr("FInplaceOption")
"""attrs → (input, output) pairs that may share memory."""

FInplaceIdentity: OpMap[Callable[[NodeAttrs], Iterable[bool]]] = Op.get_attr("FInplaceIdentity")
"""attrs → for each pair of FInplaceOption: sharing is allowed even while the input is in use elsewhere."""

FIgnoreInputs: OpMap[Callable[[NodeAttrs], Iterable[int]]] = Op.get_attr("FIgnoreInputs")
"""attrs → inputs whose content is not read, only their shape or dtype."""

FLossEquivalent: OpMap[Callable[[Node], NodeEntry]] = Op.get_attr("FLossEquivalent")
"""A loss head's node → the scalar whose derivative its gradient is. Marks operators that ignore head gradients."""

TWritesInForward: OpMap[bool] = Op.get_attr("TWritesInForward")
"""The operator writes its states whenever it runs. States of other operators that read is_train are written in the
backward pass of a training step, as BatchNorm's moving averages in MXNet."""

FFixedInputs: OpMap[Callable[[NodeAttrs], Mapping[int, float]]] = Op.get_attr("FFixedInputs")
"""attrs → the inputs that the operator takes to be a number, whatever they hold, and that MXNet's sets to it where its
backward part is in the graph, too, or runs at once: as BatchNorm sets a gamma that is fixed. Files have that number."""

TFixesInInference: OpMap[bool] = Op.get_attr("TFixesInInference")
"""MXNet's operator sets its FFixedInputs whenever it runs."""

TIsBackward: OpMap[bool] = Op.get_attr("TIsBackward")
"""The operator is the backward of `control_deps[0]`; its shapes may be inferred from there."""

TAdjointOf: OpMap[str] = Op.get_attr("TAdjointOf")
"""The operator whose declaration as linear (`ir/rules/linear.py`) this one, its adjoint, was derived from."""

TSupersedes: OpMap[bool] = Op.get_attr("TSupersedes")
"""The operator's first outputs are those of `control_deps[0]`, which need not run where this one does."""

TDataDependentShape: OpMap[bool] = Op.get_attr("TDataDependentShape")
"""The shape of the operator's outputs depends on values, which are unknown while compiling."""

FDraws: OpMap[Callable[[NodeAttrs], When]] = Op.get_attr("FDraws")
"""attrs → when the operator draws random numbers; default never."""

FDeviation: OpMap[Callable[[NodeAttrs], Deviation | None]] = Op.get_attr("FDeviation")
"""attrs → how a node with these parameters differs from MXNet 1.9.1 where that runs; default not at all."""

FAsksSparse: OpMap[Callable[[NodeAttrs], bool]] = Op.get_attr("FAsksSparse")
"""attrs → whether a node with these parameters requests sparse storage, or is made for it; all is dense here."""

TOwn: OpMap[bool] = Op.get_attr("TOwn")
"""The operator exists only in this library: MXNet 1.9.1 has none of its name."""

FInferStorageType: OpMap[Callable[[NodeAttrs, Sequence[str]], str]] = Op.get_attr("FInferStorageType")
"""(attrs, storage types of the inputs) → that of the first output in MXNet: "row_sparse", "csr" or, by default and of
further outputs, "default". Arrays are dense here and bear the name (`ir/rules/storage.py`)."""

FSparseGradient: OpMap[Callable[[NodeAttrs, Sequence[str]], int | None]] = Op.get_attr("FSparseGradient")
"""(attrs, storage types of the inputs) → the number of the input whose gradient MXNet stores as row_sparse; by default,
and of other inputs, it is "default"."""

FUpdatesRows: OpMap[Callable[[NodeAttrs, Sequence[str]], bool]] = Op.get_attr("FUpdatesRows")
"""(attrs, storage types of the inputs) → whether MXNet's update of a weight, the first input, and of its states leaves
the rows as they are that the second input, a row_sparse gradient, does not store; default False."""

FNotDerivative: OpMap[Callable[[NodeAttrs], str | None]] = Op.get_attr("FNotDerivative")
"""attrs → why FGradient is, on purpose, not the derivative of the outputs everywhere; default: it is."""

THasDeterministicOutput: OpMap[bool] = Op.get_attr("THasDeterministicOutput")
"""Whether equal inputs give equal outputs; default True. False: the operator draws random numbers, or may."""

TNoGradient: OpMap[str] = Op.get_attr("TNoGradient")
"""Why an operator without FGradient has none, and what has one, after "because" in an error."""

TFileName: OpMap[str] = Op.get_attr("TFileName")
"""The operator's name in files, where it is not its own."""

FWorkspace: OpMap[Callable[[NodeAttrs, Sequence[tuple[int, ...]], Sequence[tuple[int, ...]]], int]] = Op.get_attr(
    "FWorkspace"
)
"""(attrs, input shapes, output shapes), all known → elements that running the operator holds beyond those, such as
padded copies; default 0."""

FSubgraphRuns: OpMap[Callable[[Any, NodeAttrs, Sequence[Any]], list[tuple[list[Any], int]]]] = Op.get_attr(
    "FSubgraphRuns"
)
"""(what is inferred, attrs, its values of the inputs) → of each subgraph: the values of its variables, and how often it
runs at most."""

FSubgraphInvariants: OpMap[Callable[[NodeAttrs], Sequence[Mapping[int, int]]]] = Op.get_attr("FSubgraphInvariants")
"""attrs → of each subgraph: variable → input, of the variables that have the input's value in every run of it."""

FAddInvariant: OpMap[Callable[[NodeAttrs, int], NodeAttrs]] = Op.get_attr("FAddInvariant")
"""(attrs, number of a subgraph) → the attributes with one more input, the last, which a new variable, the subgraph's
last, has as its value in every run."""

TChoosesSubgraph: OpMap[bool] = Op.get_attr("TChoosesSubgraph")
"""One of the operator's subgraphs runs and others do not: values that they compute may not be needed, and are not
computed before the operator."""

FSubgraphSizes: OpMap[Callable[[NodeAttrs], Sequence[tuple[int, int]]]] = Op.get_attr("FSubgraphSizes")
"""attrs → of each subgraph: how many variables and how many heads it has."""

FNumFileOutputs: OpMap[Callable[[NodeAttrs], int]] = Op.get_attr("FNumFileOutputs")
"""attrs → outputs that MXNet's wheel counts in `node_row_ptr`, where its hidden ones are not ours: oneDNN's workspaces
there, what gradients read here. Nothing reads that table of a file."""

FFlops: OpMap[Callable[[NodeAttrs, Sizes, Sizes], Flops]] = Op.get_attr("FFlops")
"""(attrs, input shapes, output shapes), all known → `Flops` of one call at inference."""

TUncounted: OpMap[str] = Op.get_attr("TUncounted")
"""Why an operator has no FFlops: the report of a sum lists it as left out."""

TPrecision: OpMap[Precision] = Op.get_attr("TPrecision")
"""How ReducePrecision treats the operator. "half": its time goes into products, whose sums XLA keeps in float32, so
it runs in half precision; "either": it runs in the dtype of its inputs, where its type rule wants one dtype and two
come, in float32; "float32", the default: losses, softmax, exponents, reductions, loops."""

TDrawing: OpMap[str] = Op.get_attr("TDrawing")
"""The family that a drawing shows the operator as; of ours by default the folder of its file."""

TRecompute: OpMap[Recompute] = Op.get_attr("TRecompute")
"""When the backward part may compute the operator again. "freely", the default; "if forced": MXNet's rule do_mirror
keeps it, as it is expensive, unless a node's attribute forces a copy; "in blocks": neither that rule nor a node's
attribute makes a copy; "never": it may do what must be done once."""

TShapeParameters: OpMap[tuple[str, ...]] = Op.get_attr("TShapeParameters")
"""The parameters that may spell out the shape of the operator's result, a batch size with it."""

FPrediction: OpMap[Callable[[Node, str, Callable[[], int | None]], NodeEntry]] = Op.get_attr("FPrediction")
"""(a copy of a training head, the name for what replaces it, the number of its data's axes) → what the head computes,
without its label and its loss."""

TNumbers: OpMap[tuple[int, Callable[[Any, list[tuple[int, ...]]], int | None]]] = Op.get_attr("TNumbers")
"""(the input that numbers something, classes or rows; (parameters, input shapes) → how many there are, None where any
number is meant): an operator takes any number, a trainer need not."""

FInference: OpMap[Callable[[Node], NodeEntry | None]] = Op.get_attr("FInference")
"""A node → its first output at inference, made of simpler operators; None: there are none simpler. States that it
writes then keep their values. A caller makes sure that nothing reads the other outputs."""

FScaled: OpMap[Callable[[Node, NodeEntry, NodeEntry, int], Node | None]] = Op.get_attr("FScaled")
"""(a node, a scale and a shift (c,), an axis of its result) → a node of the same operator, whose result is that of the
node scaled and shifted along the axis; None where it cannot be. What it does to weight and bias is done by other nodes,
which depend on these and on scale and shift alone."""

FScaledData: OpMap[Callable[[Node, NodeEntry, NodeEntry, int, Shape | None], Node | None]] = Op.get_attr("FScaledData")
"""(a node, a scale and a shift (c,) of its first input, along an axis of it; the input's shape as far as it is known) →
a node of the same operator, with the same result of the input as it was before; None where it cannot be. As FScaled."""

FScaledParts: OpMap[Callable[[NodeAttrs, int, list[Shape | None]], Sequence[tuple[int, int] | None] | None]] = (
    Op.get_attr("FScaledParts")
)
"""(attrs, an axis of the result, shapes of the inputs as far as they are known) → for each input the slice (from, to)
of scale and shift to apply along this axis, or None for the whole, so that scaling the inputs equals scaling the
result; None where that is impossible."""

FTransformWeight: OpMap[Callable[[Node, tuple[int, ...], DType, BackendToken], NodeEntry | None]] = Op.get_attr(
    "FTransformWeight"
)
"""(a node whose weight is constant, shape and dtype of its first input, what computes it) → its output by an algorithm
that makes something of the weight first, in nodes of its own that depend on the weight alone; None where none is
faster. Set by the package that runs the operator, as FAlgorithm and FFuse are."""

FAlgorithm: OpMap[Callable[[NodeAttrs, Sequence[tuple[int, ...]], DType, BackendToken], str | None]] = Op.get_attr(
    "FAlgorithm"
)
"""(attrs, shapes of the inputs, dtype of the first, what computes it) → the name of the algorithm of a convolution or a
gradient of one; None where there is nothing to choose."""

FFuse: OpMap[Callable[[Node, Node, NodeEntry | None, str], Node | None]] = Op.get_attr("FFuse")
"""(a node, the one that alone reads it, what that adds to it or None, else the activation) → a node that does both, by
the name of the second; None where it cannot."""

FFuseGradient: OpMap[Callable[[Node], Node | None]] = Op.get_attr("FFuseGradient")
"""A gradient whose head gradient comes from a ReLU behind its operator → a node that does both, for the head gradient
of that ReLU; None where none is behind it."""

TAdds: OpMap[bool] = Op.get_attr("TAdds")
"""The sum of two arrays of one shape."""

FActivation: OpMap[Callable[[NodeAttrs], str | None]] = Op.get_attr("FActivation")
"""attrs → "relu", "relu6" or "gelu", which the operator does to every element of its one input; None where it does
others."""

TExpands: OpMap[bool] = Op.get_attr("TExpands")
"""The result may be much larger than all inputs together, and is made as fast as it is read."""

TBroadcasts: OpMap[bool] = Op.get_attr("TBroadcasts")
"""Inputs, or axes, of size 1 are repeated as far as the result is larger."""

TMadeBy: OpMap[str] = Op.get_attr("TMadeBy")
"""The only stage of the pipeline that makes the operator: no file that we write holds it, and no gradient needs it."""

TSameValues: OpMap[bool] = Op.get_attr("TSameValues")
"""The result holds values of the first input and no others: it only arranges them."""

TOutGradsRead: OpMap[int] = Op.get_attr("TOutGradsRead")
"""How many head gradients, the first ones, FGradient reads, if not those of all outputs: no zeros are made for the
rest."""

TStopsGradient: OpMap[bool] = Op.get_attr("TStopsGradient")
"""The data themselves, through which no gradient passes."""

FCorrectLayout: OpMap[CorrectLayout] = Op.get_attr("FCorrectLayout")
"""`CorrectLayout`; None: the operator needs the order it has."""

FAlterOpLayout: OpMap[Callable[[Node, Callable[[int], NodeEntry], Sequence[NodeEntry]], NodeEntry | None]] = (
    Op.get_attr("FAlterOpLayout")
)
"""(node, number of axes → data in the new order, inputs as they are) → the output in the new order, made by another
operator; None where there is no gain in it."""

FEitherLayout: OpMap[Callable[[Any], bool]] = Op.get_attr("FEitherLayout")
"""parameters → whether an operator that has FAlterOpLayout runs about as fast in the order it has: one alone is not
worth transpositions."""

FSamples: OpMap[Callable[[NodeAttrs, Sizes, Sizes], bool]] = Op.get_attr("FSamples")
"""`SamplesRule` of attrs; operators without it may mix samples."""

TTwin: OpMap[str] = Op.get_attr("TTwin")
"""The operator that computes the same by another name, of MXNet's NumPy dialect: rule and form are of both."""

FQuantized: OpMap[Callable[[NodeAttrs], Any]] = Op.get_attr("FQuantized")
"""attrs → the node's `QuantizedForm`, in a network of 8-bit integers; None: with these parameters there is none."""

FDequantized: OpMap[Callable[[Node], Node | NodeEntry]] = Op.get_attr("FDequantized")
"""(a copy of a node of a network of 8-bit integers, whose inputs are of the float network already) → its form there."""

TCalibrated: OpMap[Literal["input", "output"]] = Op.get_attr("TCalibrated")
"""The array that `min_calib_range` and `max_calib_range` are the range of. "output": the operator needs them."""

FFusing: OpMap[Any] = Op.get_attr("FFusing")
"""How MXNet fuses the layer with those after it for oneDNN, a `Fusing`."""

TJoinsRanges: OpMap[bool] = Op.get_attr("TJoinsRanges")
"""The result has the range of the 8-bit integers that it is made of; True: of several arrays, which are best of one."""

FLowering: OpMap[Any] = Op.get_attr("FLowering")
"""How the operator runs, set by the package that runs it; `lowering.core.rules` defines its values."""

FOnnx: OpMap[Any] = Op.get_attr("FOnnx")
"""How the operator is written into an ONNX file, or why it is not; `symjax_nnvm.onnx.forms` defines its values."""


def with_twin(name: str) -> Iterator[Op]:
    """Yield an operator and, if it has one, its twin."""
    op = Op.get(name)
    yield op
    if op in TTwin:
        yield Op.get(TTwin[op])


def numpy_twin(op: Op) -> Op | None:
    """Return the operator of the NumPy dialect that a file under `np_shape` means by an operator's name."""
    twin = Op.get(TTwin[op]) if op in TTwin else None
    return twin if twin is not None and TFileName.get(twin) == op.name else None
