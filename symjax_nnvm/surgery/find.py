"""Find outputs and nodes by name."""

from __future__ import annotations

from symjax_nnvm.errors import SymbolTypeError, SymbolValueError, did_you_mean
from symjax_nnvm.ir.node import NodeEntry
from symjax_nnvm.symbol.symbol import Symbol

_HOW_TO_LIST = "symbol.get_internals().list_outputs() lists all outputs."


def find_outputs(symbol: Symbol, name: str) -> list[NodeEntry]:
    """Return the entry of an output's name (`fc7_output`), or all visible outputs of the node of that name (`fc7`).

    Raises SymbolValueError when there is none, or when several outputs or nodes have the name.
    """
    if not isinstance(name, str):
        raise SymbolTypeError("Outputs are found by name", got=type(name).__name__, fix=_HOW_TO_LIST)
    internals = symbol.get_internals()
    names = internals.list_outputs()
    entries = [entry for entry, output in zip(internals.outputs, names, strict=True) if output == name]
    if not entries:
        entries = [entry for entry in internals.outputs if entry.node.name == name]
        nodes = len({entry.node for entry in entries})
    else:
        nodes = len(entries)
    if nodes > 1:
        raise SymbolValueError(
            f"There are {nodes} outputs named {name!r}",
            got=", ".join(repr(entry.node) for entry in entries[:5]),
            fix="Give the nodes names of their own first, with symjax_nnvm.rename.",
        )
    if not entries:
        nodes_and_outputs = [*names, *(entry.node.name for entry in internals.outputs)]
        raise SymbolValueError(
            f"The symbol has no output and no node named {name!r}",
            fix=did_you_mean(name, nodes_and_outputs) or _HOW_TO_LIST,
        )
    return entries
