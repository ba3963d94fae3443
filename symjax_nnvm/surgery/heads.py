"""Cut a network at an internal output, and give it another head."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from symjax_nnvm.errors import ComposeError, SymbolTypeError, SymbolValueError, plain_list
from symjax_nnvm.ir.node import NodeEntry
from symjax_nnvm.ir.rewrite import reachable_from, rebuild
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.surgery.find import find_outputs
from symjax_nnvm.symbol.call_arguments import expect_symbol
from symjax_nnvm.symbol.symbol import Symbol, of_mode


def cut(symbol: Symbol, output_name: str | Sequence[str]) -> Symbol:
    """Return the network up to an internal output; names stay the same, so its parameters still fit.

    Args:
        symbol: the network.
        output_name: the name of an output (`fc7_output`), of a node (`fc7`, for all its visible outputs), or several.

    Raises:
        SymbolValueError: a name does not exist, or is not unique; the message lists close names.
    """
    expect_symbol(symbol, "cut")
    several = isinstance(output_name, Iterable) and not isinstance(output_name, str)
    names: list[str] = list(output_name) if several else [output_name]  # type: ignore[list-item]
    if not names:
        raise SymbolValueError("cut needs at least one output name")
    return of_mode(symbol, rebuild([entry for name in names for entry in find_outputs(symbol, name)]))


def replace_head(symbol: Symbol, output_name: str, fn: Callable[[Symbol], Symbol]) -> Symbol:
    """Return the network with a new head in place of every output that depends on an internal output.

    Outputs that do not depend on it stay, in their order. The new head stands where the first replaced output stood.

    Args:
        symbol: the network.
        output_name: the name of the internal output.
        fn: makes the head: `fn(features)` gets the internal output as a symbol; `features.get_internals()` has the
            network before it.

    Raises:
        SymbolValueError: the name does not exist.
        SymbolTypeError: `fn` returns no symbol.
        ComposeError: the new head does not use the features, or gives a variable the name of another one in the
            network.
    """
    expect_symbol(symbol, "replace_head")
    if isinstance(fn, Symbol) or not callable(fn):
        raise SymbolTypeError(
            "replace_head needs a function that builds the new head on the features it is given",
            got=type(fn).__name__,
            fix="For instance: lambda features: symbol.FullyConnected(features, num_hidden=10, name='new_fc').",
        )
    features = find_outputs(symbol, output_name)
    after = reachable_from(symbol.outputs, {features[0].node})
    other_outputs = [entry for entry in symbol.outputs if entry.node not in after]
    copies = rebuild([*features, *other_outputs])
    trunk = Symbol(copies[: len(features)])
    head = fn(Symbol(trunk.outputs))
    if not isinstance(head, Symbol):
        fix = "End it with `return` and the new head."
        raise SymbolTypeError("The function of replace_head must return a Symbol", got=type(head).__name__, fix=fix)
    if not _uses(head, trunk):
        raise ComposeError(
            "The new head does not use the features it was given",
            got=f"outputs {plain_list(head.list_outputs())}",
            fix=f"Build it on the argument of the function, which is {output_name!r}.",
        )
    position = next((i for i, entry in enumerate(symbol.outputs) if entry.node in after), 0)
    outputs = copies[len(features) :]
    outputs[position:position] = head.outputs
    _refuse_repeated_variables(outputs, copies)
    return Symbol(outputs)


def _uses(head: Symbol, trunk: Symbol) -> bool:
    """Return whether the data of any of the trunk's outputs reach an output of the head."""
    nodes = {entry.node for entry in trunk.outputs}
    return not nodes.isdisjoint(post_order(head.outputs))


def _refuse_repeated_variables(outputs: Sequence[NodeEntry], before: Sequence[NodeEntry]) -> None:
    """Raise ComposeError for names that the new head repeats: two variables of one name would get one array."""
    had = Counter(node.name for node in post_order(before) if node.is_variable)
    have = Counter(node.name for node in post_order(outputs) if node.is_variable)
    repeated = [name for name, count in have.items() if count > max(had[name], 1)]
    if repeated:
        raise ComposeError(
            "The new head names variables as the network does",
            got=plain_list(map(repr, repeated)),
            fix="Give the operators of the new head names of their own: name=.",
        )
