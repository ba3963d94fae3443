"""Take out the casts that MXNet's AMP puts into a network, as MXNet does when it saves one."""

from __future__ import annotations

from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.rewrite import rebuild
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.symbol.symbol import Symbol, of_mode

_CAST, _MULTICAST = Op.get("amp_cast"), Op.get("amp_multicast")


def without_amp_casts(symbol: Symbol) -> Symbol:
    """Return a network whose operators read what `amp_cast` and `amp_multicast` read. An output that is a cast stays
    one, and bodies of loops keep theirs, as in MXNet. A network without such casts is given back as it is."""
    if not any(node.op in (_CAST, _MULTICAST) for node in post_order(symbol.outputs)):
        return symbol

    def change(node: Node, copy: Node) -> NodeEntry | None:
        copy.inputs = [_uncast(entry) for entry in copy.inputs]
        return None

    return of_mode(symbol, rebuild(symbol.outputs, change))


def _uncast(entry: NodeEntry) -> NodeEntry:
    """Return what a cast reads, whose own inputs are uncast; any other entry as it is."""
    if entry.node.op is _CAST:
        return entry.node.inputs[0]
    return entry.node.inputs[entry.index] if entry.node.op is _MULTICAST else entry
