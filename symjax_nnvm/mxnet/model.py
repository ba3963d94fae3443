"""`load_model`: a symbol file and an array file of any kind, matched to each other."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from symjax_nnvm.errors import plain_list, printable
from symjax_nnvm.io.files import path_text
from symjax_nnvm.mxnet.match import match_params
from symjax_nnvm.mxnet.params import named_arrays
from symjax_nnvm.symbol.symbol import Symbol, load

Params = dict[str, Any]


def load_model(
    symbol_path: str | os.PathLike[str],
    params_path: str | os.PathLike[str],
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> tuple[Symbol, Params, Params]:
    """Return (symbol, arguments, auxiliary states) from two files.

    The array file may be a checkpoint's or a Gluon export's `.params`, what Gluon's `save_parameters` wrote (structural
    names, matched by roles, shapes and order), MXNet 2.0's, `.npz`, or `.safetensors`. shapes: shapes of the model's
    inputs, which let `match_params` check every array's. Arrays are views of the mapped file where it is not
    compressed. Warns of arrays that the symbol has no use for.

    Raises ParamsMismatchError listing everything that is missing, wrongly shaped or ambiguous; JSONFormatError,
    ParamsFormatError, MissingExtraError, OSError.
    """
    symbol = load(path_text(symbol_path, "symbol_path"))
    match = match_params(symbol, named_arrays(path_text(params_path, "params_path")), shapes)
    match.raise_if_incomplete()
    if match.surplus:
        surplus = f"{len(match.surplus)} arrays are not used: {plain_list(match.surplus)}"
        warnings.warn(f"{printable(str(params_path))}: {surplus}", stacklevel=2)
    return symbol, match.args, match.aux
