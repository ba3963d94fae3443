"""ReducePrecision: matrix products and convolutions in half precision, operators sensitive to rounding in float32.

The idea and the casting operator are those of MXNet's AMP. TPrecision declares how an operator runs: in the
half-precision dtype, in the dtype of its inputs, or in float32. Arguments and auxiliary states stay float32, and so
does every output of the graph; since the casts differentiate, gradients of arguments are float32, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from symjax_nnvm.errors import InferenceError, PassError
from symjax_nnvm.ir.attributes import FInferDefaultType, FInferType, FMutateInputs, Precision, TPrecision
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.pass_registry import register_pass
from symjax_nnvm.ir.register import same_type
from symjax_nnvm.ir.rewrite import rewrite
from symjax_nnvm.ir.types import DType
from symjax_nnvm.passes.infer import variable_dtypes


@register_pass("ReducePrecision", requires=("compute_dtype",), op_attrs=("FInferType",), change_graph=True)
def _reduce_precision_pass(graph: Graph) -> Graph:
    """`compute_dtype`, bfloat16 or float16, is consumed."""
    other_attrs = {key: value for key, value in graph.attrs.items() if key != "compute_dtype"}
    return reduce_precision(graph.derive(attrs=other_attrs), graph.attrs["compute_dtype"])


def precision_of(node: Node) -> Precision:
    """Return how the node's operator runs, by its card."""
    return TPrecision.get(node.op, "float32")


def reduce_precision(
    graph: Graph,
    compute_dtype: DType,
    dtypes: Mapping[str, DType] | None = None,
    precision: Callable[[Node], Precision] = precision_of,
) -> Graph:
    """Return the graph with `amp_cast` nodes where dtypes change; nodes that nothing changes stay the same objects.

    dtypes: the dtypes of variables by name; float32 where neither this nor the variable itself declares another.
    precision: how a node of an operator runs. Raises PassError for another dtype than bfloat16 or float16,
    InferenceError.
    """
    if compute_dtype not in ("bfloat16", "float16"):
        raise PassError(
            "This dtype is not a half precision",
            param="compute_dtype",
            expected="bfloat16 or float16",
            got=compute_dtype,
        )
    casts = _Casts(graph, compute_dtype, dtypes or {}, precision)
    reduced = rewrite(graph.outputs, casts.insert)
    return graph.derive([casts.cast(head, "float32") for head in reduced.outputs], attrs={})


class _Casts:
    """The rewriting rule: it casts the inputs of operators, and keeps the dtype of every new node's outputs."""

    def __init__(
        self, graph: Graph, target: DType, dtypes: Mapping[str, DType], precision: Callable[[Node], Precision]
    ):
        self._target, self._precision = target, precision
        self._dtypes: dict[tuple[Node, int], DType | None] = {}
        self._casts: dict[tuple[Node, int, int, DType], NodeEntry] = {}
        self._declared = variable_dtypes(graph, dtypes)

    def cast(self, entry: NodeEntry, dtype: DType) -> NodeEntry:
        """Return the entry in another dtype, if it is float32 or of the target dtype; else as it is."""
        now = self._dtypes[entry.node, entry.index]
        if now == dtype or now not in ("float32", self._target):
            return entry
        key = (entry.node, entry.index, entry.version, dtype)
        if key not in self._casts:
            name = f"{entry.node.name}_{dtype}" if entry.index == 0 else f"{entry.node.name}_{entry.index}_{dtype}"
            cast_node = self._casts[key] = apply("amp_cast", entry, name=name, dtype=dtype)
            self._dtypes[cast_node.node, 0] = dtype
        return self._casts[key]

    def insert(self, node: Node, draft: Node) -> Node:
        """Return the node, or a copy that reads casts."""
        if node.op is None:
            self._dtypes[node, 0] = self._declared.get(node, "float32")
            return node
        inputs = draft.inputs
        mutates = FMutateInputs.get(node.op)
        written = set() if mutates is None else set(mutates(node.attrs))
        precision = self._precision(node)
        outputs = self._outputs(node, inputs) if precision == "either" else None
        if outputs is None:
            dtype = self._target if precision == "half" else "float32"
            inputs, outputs = self._typed(node, inputs, written, dtype)
        if inputs != draft.inputs:
            draft = node.copy() if draft is node else draft
            draft.inputs = inputs
        for i, dtype in enumerate(outputs):
            self._dtypes[draft, i] = dtype
        return draft

    def _typed(
        self, node: Node, inputs: list[NodeEntry], written: set[int], dtype: DType
    ) -> tuple[list[NodeEntry], list[DType | None]]:
        """Return inputs cast to a dtype, states excepted, and the dtypes of the outputs. Raises InferenceError."""
        inputs = [entry if i in written else self.cast(entry, dtype) for i, entry in enumerate(inputs)]
        outputs = self._outputs(node, inputs)
        if outputs is None:
            got = [self._dtypes[entry.node, entry.index] for entry in inputs]
            raise InferenceError("Inputs of dtypes that do not fit together", op=node.op, node=node, got=got)
        return inputs, outputs

    def _outputs(self, node: Node, inputs: list[NodeEntry]) -> list[DType | None] | None:
        """Return the dtypes of a node's outputs, by its type rule; None where the rule does not take these inputs."""
        in_dtypes = [self._dtypes[entry.node, entry.index] for entry in inputs]
        unknown: list[DType | None] = [None] * node.num_outputs()
        try:
            if node.op in FInferType:
                rule_dtypes, outputs = FInferType[node.op](node.attrs, list(in_dtypes), unknown)
                if node.op in FInferDefaultType:
                    rule_dtypes, outputs = FInferDefaultType[node.op](node.attrs, list(rule_dtypes), list(outputs))
            else:
                rule_dtypes, outputs = same_type(None, in_dtypes, unknown)
        except InferenceError:
            return None
        if any(a is not None and b is not None and a != b for a, b in zip(in_dtypes, rule_dtypes, strict=True)):
            return None
        return list(outputs)
