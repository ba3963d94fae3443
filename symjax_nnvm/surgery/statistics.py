"""Keep the statistics of batch norms as they are while the rest of the network is trained."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase

from symjax_nnvm.errors import SymbolValueError, did_you_mean, listed
from symjax_nnvm.ir.attributes import FMutateInputs
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.rewrite import rebuild
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.symbol.symbol import Symbol, of_mode

_PARAM = "use_global_stats"


def freeze_statistics(symbol: Symbol, pattern: str | Sequence[str] = "*") -> Symbol:
    """Return the symbol with batch norms that use their moving averages in training, too, and do not update them.

    MXNet's users write `use_global_stats=True`; this function does it for a network that exists. Gradients then pass
    the batch norms as they pass any other scale and shift.

    Args:
        symbol: the network.
        pattern: names of the nodes or of their gamma: shell patterns such as `stage[12]_*`, or several.

    Raises:
        SymbolValueError: a pattern matches no batch norm; the message lists close names.
    """
    patterns = (pattern,) if isinstance(pattern, str) else tuple(pattern)
    norms = _batch_norms(symbol)
    chosen: set[Node] = set()
    for glob in patterns:
        matched = {node for node in norms if any(fnmatchcase(name, glob) for name in (node.name, *_learned(node)))}
        if not matched:
            names = [node.name for node in norms]
            raise SymbolValueError(
                f"No batch norm matches {glob!r}", got=names or "none", fix=did_you_mean(glob, names) or None
            )
        chosen |= matched
    return _with_global_statistics(symbol, chosen)


def frozen_batch_norms(symbol: Symbol, trained: Collection[str]) -> Symbol:
    """Return the symbol with the statistics frozen of all batch norms whose gamma and beta are not trained.

    Raises SymbolValueError when there are none.
    """
    norms = _batch_norms(symbol)
    chosen = {node for node in norms if not any(name in trained for name in _learned(node))}
    if not chosen:
        raise SymbolValueError(
            "There is no batch norm whose statistics can be frozen: gamma or beta of each is trained",
            got=f"batch norms {listed(node.name for node in norms)}",
            fix="Freeze their parameters, too: wrt=symjax_nnvm.freeze(symbol, ['bn_*', ...]).",
        )
    return _with_global_statistics(symbol, chosen)


def _batch_norms(symbol: Symbol) -> list[Node]:
    return [node for node in post_order(symbol.outputs) if hasattr(node.attrs.parsed, _PARAM)]


def _learned(node: Node) -> list[str]:
    """Names of gamma and beta: the variables a batch norm reads that are neither its data nor its states."""
    mutates = FMutateInputs.get(node.op)
    states = () if mutates is None else mutates(node.attrs)
    inputs = [entry.node for i, entry in enumerate(node.inputs) if i > 0 and i not in states]
    return [source.name for source in inputs if source.is_variable]


def _with_global_statistics(symbol: Symbol, chosen: set[Node]) -> Symbol:
    def change(node: Node, copy: Node) -> NodeEntry | None:
        if node in chosen:
            copy.attrs.dict[_PARAM] = "True"
            copy.attrs.parse()
        return None

    return of_mode(symbol, rebuild(symbol.outputs, change))
