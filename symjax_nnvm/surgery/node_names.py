"""Rename nodes, and choose by name which parameters are trained."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from symjax_nnvm.errors import (
    ComposeError,
    SymbolTypeError,
    SymbolValueError,
    close_or_all,
    did_you_mean,
    plain_list,
)
from symjax_nnvm.inspect.roles import label_variables
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.rewrite import rebuild
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.symbol.call_arguments import expect_symbol
from symjax_nnvm.symbol.symbol import Symbol, of_mode

Pattern = str | re.Pattern[str]

_DATA = re.compile(r"data\d*")  # what Module and Gluon's exports call inputs


def rename(symbol: Symbol, names: Mapping[str, str] | Callable[[str], str]) -> Symbol:
    """Return the symbol with other names of nodes, of variables and operators alike.

    Names inside subgraphs stay. The same dict renames parameters: `{names.get(n, n): a for n, a in args.items()}`.
    Random operators draw by their name, so a renamed Dropout draws other numbers.

    Args:
        symbol: the network.
        names: a dict, old name → new name, or a function of the name, which is not called for nodes without one.

    Raises:
        SymbolValueError: a name does not exist; the message lists close ones.
        SymbolTypeError: a new name is not text.
        ComposeError: two variables, or two operators, would have the same name.
    """
    expect_symbol(symbol, "rename")
    if not isinstance(names, Mapping) and not callable(names):
        fix = "For instance {'fc1': 'head'}, or lambda name: 'net_' + name."
        raise SymbolTypeError("New names are a dict old → new, or a function", got=type(names).__name__, fix=fix)
    nodes = post_order(symbol.outputs)
    if isinstance(names, Mapping):
        existing = dict.fromkeys(node.name for node in nodes)
        unknown = [name for name in names if name not in existing]
        if unknown:
            close = " ".join(did_you_mean(str(name), existing) for name in unknown[:3]).strip()
            fix = close or f"Its variables are {plain_list(symbol.list_inputs())}."
            raise SymbolValueError(f"The symbol has no node named {plain_list(map(repr, unknown))}", fix=fix)
        mapping = names
        new_name = lambda name: mapping.get(name, name)  # noqa: E731
    else:
        new_name = names
    renamed = {name: new_name(name) for name in dict.fromkeys(node.name for node in nodes) if name}
    wrong = {old: new for old, new in renamed.items() if not (isinstance(new, str) and new)}
    if wrong:
        raise SymbolTypeError(f"A new name must be text that is not empty, got {wrong}")
    for kind, among in (("variables", [n for n in nodes if n.is_variable]), ("operators", [n for n in nodes if n.op])):
        _refuse_collisions(kind, {node.name for node in among if node.name}, renamed)

    def change(node: Node, copy: Node) -> NodeEntry | None:
        copy.attrs.name = renamed.get(node.name, node.name)
        return None

    return of_mode(symbol, rebuild(symbol.outputs, change))


def _refuse_collisions(kind: str, olds: Iterable[str], renamed: Mapping[str, str]) -> None:
    counts = Counter(renamed[old] for old in olds)
    taken = [new for new, count in counts.items() if count > 1]
    if taken:
        sources = [old for old in renamed if renamed[old] == taken[0]]
        raise ComposeError(
            f"Several {kind} would be named {plain_list(map(repr, taken))}",
            got=f"{taken[0]!r} for {plain_list(map(repr, sources))}",
            fix="Choose names that are not in use, or rename their holders at the same time.",
        )


def freeze(
    symbol: Symbol,
    pattern: Pattern | Sequence[Pattern] = (),
    *,
    data_names: Sequence[str] | None = None,
    label_names: Sequence[str] | None = None,
) -> list[str]:
    """Return the names of the arguments that are still trained: the `wrt` of `lowering.grad_fn`.

    Arguments whose attribute `__lr_mult__` is 0 are frozen in any case.

    Args:
        symbol: the network.
        pattern: the arguments to freeze: shell patterns such as `conv1_*` or `stage[12]_*`, compiled regular
            expressions (which must match the whole name), or several of either.
        data_names: arguments that are data; None for `data`, `data0`, `data1`, ….
        label_names: arguments that are labels; None for those that `inference_symbol` finds.

    Returns:
        The names in the order of `list_arguments()`, without data and labels.

    Raises:
        SymbolValueError: a pattern matches no argument; the message lists close names.
    """
    expect_symbol(symbol, "freeze")
    several = isinstance(pattern, Iterable) and not isinstance(pattern, str)
    patterns: list[Pattern] = list(pattern) if several else [pattern]  # type: ignore[list-item]
    for one_pattern in patterns:
        if not isinstance(one_pattern, (str, re.Pattern)):
            fix = "Shell patterns such as 'conv1_*', or a compiled regular expression."
            raise SymbolTypeError("Names are frozen by patterns", got=type(one_pattern).__name__, fix=fix)
    nodes = symbol.list_input_nodes("read_only")
    names = list(dict.fromkeys(node.name for node in nodes))
    frozen = {node.name for node in nodes if _is_zero(node.attrs.dict.get("__lr_mult__"))}
    for one_pattern in patterns:
        matched = [name for name in names if _matches(one_pattern, name)]
        if not matched:
            text = one_pattern if isinstance(one_pattern, str) else one_pattern.pattern
            raise SymbolValueError(f"No argument matches {text!r}", fix=close_or_all(text, names, "The arguments are"))
        frozen.update(matched)
    labels = [node.name for node in label_variables(symbol)] if label_names is None else label_names
    data = [name for name in names if _DATA.fullmatch(name)] if data_names is None else data_names
    frozen.update(data, labels)
    return [name for name in names if name not in frozen]


def _matches(pattern: Pattern, name: str) -> bool:
    return fnmatchcase(name, pattern) if isinstance(pattern, str) else pattern.fullmatch(name) is not None


def _is_zero(text: str | None) -> bool:
    try:
        return text is not None and float(text) == 0
    except ValueError:
        return False
