"""The arrays of one network for another that is part of it: after `cut`, after `replace_head`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from symjax_nnvm.errors import ParamsMismatchError, SymbolTypeError, did_you_mean, listed, tells_new_names
from symjax_nnvm.inspect.roles import learned_variables
from symjax_nnvm.symbol.symbol import Symbol

Arrays = dict[str, Any]


@tells_new_names
def subset(
    symbol: Symbol,
    args: Mapping[str, Any],
    aux: Mapping[str, Any] | None = None,
    *,
    new: str | Sequence[str] = (),
) -> tuple[Arrays, Arrays]:
    """Select the arrays that a symbol needs, such as those of the network it was cut from.

    Arrays of data and labels are kept where the dicts have them.

    Args:
        symbol: the network.
        args: arrays by name, as `load_checkpoint` returns them; an array may be in either dict.
        aux: more arrays by name.
        new: names of parameters that have no array yet, such as a new head's, or shell patterns such as `new_fc_*`.

    Returns:
        Arguments and auxiliary states of the symbol, by name.

    Raises:
        ParamsMismatchError: a parameter or auxiliary state has no array and is not new; the message lists close names.
        SymbolTypeError: `args` or `aux` is not a dict.
    """
    for what, arrays in (("args", args), ("aux", {} if aux is None else aux)):
        if not isinstance(arrays, Mapping):
            raise SymbolTypeError(
                f"{what} of subset holds no names", expected="a dict of arrays by name", got=type(arrays).__name__
            )
    arrays = {**args, **(aux or {})}
    arg_names, aux_names = symbol.list_arguments(), symbol.list_auxiliary_states()
    needed = {*arg_names, *aux_names}
    patterns = (new,) if isinstance(new, str) else tuple(new)
    learned = {node.name for node in learned_variables(symbol)} | set(aux_names)
    missing = [
        name
        for name in (*arg_names, *aux_names)
        if name in learned and name not in arrays and not any(fnmatchcase(name, pattern) for pattern in patterns)
    ]
    if missing:
        surplus = [name for name in arrays if name not in needed]
        close = " ".join(filter(None, (did_you_mean(name, surplus, cutoff=0.75) for name in missing[:3])))
        raise ParamsMismatchError(
            f"There are no arrays for {listed(missing)}",
            got=f"arrays that the network does not have: {listed(surplus)}",
            fix=f"{close} Name the parameters to make: subset(symbol, args, aux, new={missing[0]!r}).".strip(),
        )
    return {n: arrays[n] for n in arg_names if n in arrays}, {n: arrays[n] for n in aux_names if n in arrays}
