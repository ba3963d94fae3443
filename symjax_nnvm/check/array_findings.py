"""Compare a model's arrays with its variables: arrays that are missing, surplus, or of another shape."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from symjax_nnvm.check.report import Findings
from symjax_nnvm.errors import SymbolTypeError
from symjax_nnvm.inspect.roles import label_variables, learned_variables
from symjax_nnvm.io.files import path_text
from symjax_nnvm.ir.rules.quantized_parameters import way_out_of_mixing, wrong_parameters
from symjax_nnvm.ir.types import Shape, format_shape, merge_shapes
from symjax_nnvm.mxnet.array_names import bare_name
from symjax_nnvm.mxnet.params_files import named_arrays
from symjax_nnvm.symbol.symbol import Symbol

Arrays = Mapping[str, Any]


def arrays_by_name(params: Arrays | tuple[Arrays, ...] | str | os.PathLike[str]) -> dict[str, Any]:
    """Return arrays by bare name, from a dict, from several such as (args, aux), or from a file of any kind.

    Raises what `load_model` raises of an array file, SymbolTypeError for anything else.
    """
    if isinstance(params, (str, os.PathLike)):
        params = named_arrays(path_text(params, "params"))
    several = params if isinstance(params, tuple) else (params,)
    if not all(isinstance(arrays, Mapping) for arrays in several):
        raise SymbolTypeError(f"params must be arrays by name, or the path of a file, got {type(params).__name__}")
    return {bare_name(name): array for arrays in several for name, array in arrays.items()}


def check_missing(symbol: Symbol, arrays: Arrays, input_names: Iterable[str], findings: Findings) -> None:
    """Sort the variables without an array into data, labels and missing parameters, and note surplus arrays.

    input_names: variables that the caller names as inputs.
    """
    labels, learned, inputs = set(label_variables(symbol)), learned_variables(symbol), set(input_names)
    names: set[str] = set()
    for node in symbol.list_input_nodes():
        names.add(node.name)
        if node.name in arrays:
            continue
        if node in labels:
            reason = "Labels, which only training needs"
            findings.add("label", "note", node.name, reason, fix="symjax_nnvm.inference_symbol(symbol) drops them.")
        elif node in learned and node.name not in inputs:
            reason = "There is no array for these parameters"
            findings.add("missing parameter", "error", node.name, reason, fix=way_out_of_mixing([node.name], arrays))
        else:
            findings.add("input", "note", node.name, "Data: there is no array of this name, so calls must pass one")
    for name, problem, details in wrong_parameters(symbol.list_arguments(), arrays):
        reason = f"The 8-bit parameter {problem}: expected {details['expected']}, got {details['got']}"
        findings.add("contradiction", "error", name, reason, fix=details["fix"])
    surplus = [name for name in arrays if name not in names]
    structural = any("." in name for name in surplus)
    fix = (
        "Names with dots come from Gluon: symjax_nnvm.match_params(symbol, params) assigns them." if structural else ""
    )
    for name in surplus:
        findings.add("unused array", "warning", name, "No variable has this name", fix=fix)


def check_shapes(arrays: Arrays, inferred: Mapping[str, Shape | None], findings: Findings) -> dict[str, Shape]:
    """Note every array that contradicts what is inferred of its variable; the shapes of the others."""
    fitting: dict[str, Shape] = {}
    for name in inferred.keys() & arrays.keys():
        shape = tuple(arrays[name].shape)
        try:
            merge_shapes(inferred[name], shape)
            fitting[name] = shape
        except ValueError:
            expected = format_shape(inferred[name])
            findings.add(
                "wrong shape", "error", name, f"The array has shape {format_shape(shape)}, expected {expected}"
            )
    return fitting
