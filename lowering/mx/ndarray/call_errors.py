"""Errors of shapes and dtypes in the words of the operator that arrays were given to."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import jax

from lowering.core.inference import Inference
from lowering.mx.tape.expressions import Expression
from symjax_nnvm.errors import InferenceError
from symjax_nnvm.inspect.roles import input_names
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.symbol.symbol import Symbol


def in_words_of_call(expression: Expression, error: InferenceError, values: Sequence[jax.Array]) -> InferenceError:
    """Return the error of shapes or dtypes of these values with the names that the operator's inputs have."""
    if expression.calls_python:  # which is decided once
        return error
    names = _input_names_of_variables(expression.symbol)
    variables: dict[str, Any] = {name: Symbol.create_variable(names[name]) for name in expression.names}
    renamed = expression.symbol(**variables)
    inference = Inference(Graph(renamed.outputs), mixes_dtypes=False)
    arrays = zip(expression.names, values, strict=True)
    try:
        inference.of_variables({names[name]: (array.shape, array.dtype.name) for name, array in arrays})
    except InferenceError as same_error:
        return same_error.with_traceback(None)
    return error


def _input_names_of_variables(symbol: Symbol) -> dict[str, str]:
    """Return for each variable the name of the input that it is, with a number where an earlier one has that name."""
    names: dict[str, str] = {}
    for node in post_order(symbol.outputs):
        inputs = [] if node.is_variable else input_names(node)
        for entry, name in zip(node.inputs, inputs, strict=False):
            if entry.node.is_variable and entry.node.name not in names:
                free = (numbered for n in itertools.count(1) if (numbered := f"{name}_{n}") not in names.values())
                names[entry.node.name] = next(free) if name in names.values() else name
    return {node.name: names.get(node.name, node.name) for node in post_order(symbol.outputs) if node.is_variable}
