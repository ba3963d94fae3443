"""The catalogue of operator attributes: every key of NNVM, of MXNet and of this library, its meaning and signature.

Each name below is the attribute's key; the annotation is the type of a value. Every key that the project uses is listed
in this file: nothing reads a value that is set under a misspelt key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from symjax_nnvm.ir.op import Deviation, Op, OpMap

if TYPE_CHECKING:
    from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry
    from symjax_nnvm.ir.types import DType, Shape

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
"""As FInferType, asked only when nothing else in the graph decides the dtypes of the node: it makes its arrays."""

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
"""The operator writes its states whenever it runs; those of others that ask whether they train follow the backward
pass of a training step, as BatchNorm's moving averages do in MXNet."""

TIsBackward: OpMap[bool] = Op.get_attr("TIsBackward")
"""The operator is the backward of `control_deps[0]`; its shapes may be inferred from there."""

TAdjointOf: OpMap[str] = Op.get_attr("TAdjointOf")
"""The operator whose declaration as linear (`ir/linear.py`) this one, its adjoint, was derived from."""

TSupersedes: OpMap[bool] = Op.get_attr("TSupersedes")
"""The operator's first outputs are those of `control_deps[0]`, which need not run where this one does."""

TDataDependentShape: OpMap[bool] = Op.get_attr("TDataDependentShape")
"""The shape of the operator's outputs depends on values, which compiled code does not know."""

FDraws: OpMap[Callable[[NodeAttrs], Literal["always", "training"] | None]] = Op.get_attr("FDraws")
"""attrs → when the operator draws random numbers; default never."""

FDeviation: OpMap[Callable[[NodeAttrs], Deviation | None]] = Op.get_attr("FDeviation")
"""attrs → how a node with these parameters differs from MXNet 1.9.1 where that runs; default not at all."""

FAsksSparse: OpMap[Callable[[NodeAttrs], bool]] = Op.get_attr("FAsksSparse")
"""attrs → whether a node with these parameters asks for sparse storage, or is made for it; all is dense here."""

FNotDerivative: OpMap[Callable[[NodeAttrs], str | None]] = Op.get_attr("FNotDerivative")
"""attrs → why FGradient is, on purpose, not the derivative of the outputs everywhere; default: it is."""

THasDeterministicOutput: OpMap[bool] = Op.get_attr("THasDeterministicOutput")
"""Whether equal inputs give equal outputs; default True. False: the operator draws random numbers, or may."""

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
"""Some of the operator's subgraphs do not run: what they compute is not worth computing before."""

FSubgraphSizes: OpMap[Callable[[NodeAttrs], Sequence[tuple[int, int]]]] = Op.get_attr("FSubgraphSizes")
"""attrs → of each subgraph: how many variables and how many heads it has."""

FNumFileOutputs: OpMap[Callable[[NodeAttrs], int]] = Op.get_attr("FNumFileOutputs")
"""attrs → outputs that MXNet's wheel counts in `node_row_ptr`, where its hidden ones are not ours: oneDNN's workspaces
there, what gradients read here. Nothing reads that table of a file."""

FLowering: OpMap[Any] = Op.get_attr("FLowering")
"""How the operator runs, set by the package that runs it; `lowering.core.rules` says what a value is there."""

FOnnx: OpMap[Any] = Op.get_attr("FOnnx")
"""How the operator is written into an ONNX file, or why it is not; `symjax_nnvm.onnx.forms` says what a value is."""
