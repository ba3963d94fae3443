"""Problems of writing a model as ONNX: operators without a form, and parameters that ONNX cannot express."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from symjax_nnvm.check.array_findings import Arrays
from symjax_nnvm.check.report import Findings
from symjax_nnvm.errors import GraphError, InferenceError, OnnxError, SymbolValueError
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.onnx import form_of, refusals
from symjax_nnvm.onnx.dimensions import NamedShape
from symjax_nnvm.surgery.inference_head import inference_symbol
from symjax_nnvm.symbol.symbol import Symbol


def check_onnx(
    symbol: Symbol,
    arrays: Arrays,
    shapes: Mapping[str, NamedShape],
    dtypes: Mapping[str, Any],
    findings: Findings,
) -> None:
    """Note every node that cannot be written; where shapes are not known, of operators that have no form at all."""
    names = set(symbol.list_inputs())
    try:
        refused = refusals(symbol, {name: arrays[name] for name in arrays if name in names}, shapes, dtypes)
    except OnnxError as error:
        findings.add("no ONNX form", "error", None, str(error))
    except (GraphError, InferenceError, SymbolValueError):  # of shapes, which are findings of their own, or not given
        refused = None
    else:
        for node, error in refused:
            findings.add("no ONNX form", "error", node.name, str(error), op=None if node.op is None else node.op.name)
        return
    for node in post_order(_inference(symbol).outputs):
        form = form_of(node.op)
        if node.op is not None and form.form is None:
            findings.add("no ONNX form", "error", node.name, form.reason, op=node.op.name, fix=form.fix)


def _inference(symbol: Symbol) -> Symbol:
    """Return the network without training heads, where anything is left without them."""
    try:
        return inference_symbol(symbol)
    except GraphError:
        return symbol
