"""`load_model`: a symbol file and an array file of any kind, matched to each other."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from symjax_nnvm.errors import plain_list, printable
from symjax_nnvm.io.files import path_text
from symjax_nnvm.mxnet.match import match_params
from symjax_nnvm.mxnet.params_files import named_arrays
from symjax_nnvm.symbol.symbol import Symbol, load

Params = dict[str, Any]


def load_model(
    symbol_path: str | os.PathLike[str],
    params_path: str | os.PathLike[str],
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> tuple[Symbol, Params, Params]:
    """Load a model from a symbol's file and a file of arrays.

    Arrays are views of the mapped file where it is not compressed. A warning names arrays that the symbol does not use.

    Args:
        symbol_path: the symbol's JSON file.
        params_path: the arrays: `.params` of a checkpoint or a Gluon export; what Gluon's `save_parameters` wrote,
            whose structural names are matched by role, shape and order; a file of MXNet 2.0; `.npz`; or `.safetensors`.
        shapes: shapes of the model's inputs by name; with them the shape of every array is checked.

    Returns:
        The symbol, its arguments by name, its auxiliary states by name.

    Raises:
        ParamsMismatchError: arrays are missing, have the wrong shape or fit several variables; the message lists all.
        JSONFormatError: the symbol's file is malformed.
        ParamsFormatError: the arrays' file is malformed.
        MissingExtraError: the file's format needs a package that is not installed.
        OSError: a file cannot be read.
    """
    symbol = load(path_text(symbol_path, "symbol_path"))
    match = match_params(symbol, named_arrays(path_text(params_path, "params_path")), shapes)
    match.raise_if_incomplete()
    if match.surplus:
        surplus = f"{len(match.surplus)} arrays are not used: {plain_list(match.surplus)}"
        warnings.warn(f"{printable(str(params_path))}: {surplus}", stacklevel=2)
    return symbol, match.args, match.aux
