"""PlaceSharding: a constraint wherever `__sharding__` declares how an array is split over a mesh of devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from symjax_nnvm.errors import ParamError, PassError, close_names, listed
from symjax_nnvm.ir.attributes import FMutateInputs
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.pass_registry import apply_pass, register_pass
from symjax_nnvm.ir.rewrite import rewrite
from symjax_nnvm.ir.sharding import SHARDING, mesh_axes, split_over

__all__ = ["declared_text", "place_sharding"]

G = TypeVar("G", bound=Graph)


def place_sharding(graph: G, mesh_axis_names: Sequence[str]) -> G:
    """Return the graph, in which what reads a variable or a visible output of a node that has the attribute
    `__sharding__` reads it through a `_sharding_constraint` of the same name; itself where no node has it.

    The constraint is its own adjoint, so gradients that are appended afterwards are split like what they are gradients
    of. States are read as they are where an operator writes them. mesh_axis_names: the axes of the mesh.

    Raises PassError for a text that names no axes, and for axes that the mesh does not have.
    """
    if not any(SHARDING in node.attrs.dict for node in graph.nodes()):
        return graph
    names = tuple(mesh_axis_names)
    return apply_pass(graph.derive(attrs=graph.attrs | {"mesh_axis_names": names}), "PlaceSharding")


@register_pass("PlaceSharding", requires=("mesh_axis_names",), op_attrs=("FMutateInputs",), change_graph=True)
def _place(graph: Graph) -> Graph:
    """Insert constraints where nodes declare how they are split; see `place_sharding`."""
    attrs = dict(graph.attrs)
    names = attrs.pop("mesh_axis_names")
    texts = {node: declared_text(node, names) for node in graph.nodes() if SHARDING in node.attrs.dict}
    constrained: dict[NodeEntry, NodeEntry] = {}

    def split(was: NodeEntry, now: NodeEntry) -> NodeEntry:
        source = was.node
        if source not in texts or was.version or was.index >= source.num_visible_outputs():
            return now
        if was not in constrained:
            constrained[was] = apply("_sharding_constraint", now, name=source.name, spec=texts[source])
        return constrained[was]

    def rule(node: Node, draft: Node) -> Node | None:
        mutates = FMutateInputs.get(node.op)
        written = set() if mutates is None else set(mutates(node.attrs))
        pairs = enumerate(zip(node.inputs, draft.inputs, strict=True))
        inputs = [now if i in written else split(was, now) for i, (was, now) in pairs]
        if inputs == draft.inputs:
            return None
        draft = node.copy() if draft is node else draft
        draft.inputs = inputs
        return draft

    rewritten = rewrite(graph.outputs, rule, order=graph.nodes())
    return graph.derive([split(entry, rewritten.entry(entry)) for entry in graph.outputs], attrs=attrs)


def declared_text(node: Node, names: Sequence[str]) -> str:
    """Return a node's attribute `__sharding__`, which refers to axes of these names. Raises PassError."""
    text = node.attrs.dict[SHARDING]
    try:
        used = split_over(mesh_axes(text))
    except ParamError as error:
        raise PassError(f"{error}", op=node.op, node=node) from error
    if unknown := [name for name in used if name not in names]:
        raise PassError(
            f"{SHARDING}={text!r} names axes that the mesh does not have",
            op=node.op,
            node=node,
            expected=f"names among {listed(names)}",
            got=listed(unknown),
            fix=close_names(unknown, names)
            or "A mesh may have an axis of one device, for arrays that are not split on it: "
            f"jax.make_mesh((jax.device_count(), 1), ({names[0]!r}, {unknown[0]!r})).",
        )
    return text
