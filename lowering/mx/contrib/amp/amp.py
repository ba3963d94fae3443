"""Networks converted, and which operators run in half precision."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from lowering.mx.gluon.block import HybridBlock, SymbolBlock
from lowering.mx.module import BucketingModule
from lowering.mx.symbol.bound import Symbol, as_symbol
from symjax_nnvm.ir.attributes import FLossEquivalent, Precision, TPrecision
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.op import Op, list_unique_ops
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.ir.types import dtype_code
from symjax_nnvm.passes.reduce_precision import precision_of, reduce_precision
from symjax_nnvm.symbol.symbol import Symbol as GraphSymbol

_CAST = Op.get("amp_cast")

_amp_initialized = False
"""MXNet's word for whether `init` was called, which libraries read: here it switches nothing on."""

Names = Sequence[str] | None
Conditions = Sequence[tuple[str, str, Sequence[str]]] | None
"""(operator, parameter, values with which it runs in float32)."""


def init(
    target_dtype: Any = "float16",
    target_precision_ops: Names = None,
    conditional_fp32_ops: Conditions = None,
    fp32_ops: Names = None,
) -> None:
    """Nothing but a warning: a network is converted by `convert_symbol`, not by a switch for all that is built."""
    way = "Convert networks by mx.contrib.amp.convert_symbol or convert_model."
    warnings.warn(f"mx.contrib.amp.init switches nothing on here. {way}", UserWarning, stacklevel=2)


def convert_symbol(
    sym: GraphSymbol,
    target_dtype: Any = "float16",
    target_dtype_ops: Names = None,
    fp32_ops: Names = None,
    conditional_fp32_ops: Conditions = None,
    excluded_sym_names: Names = None,
    data_names: Names = None,
    cast_optional_params: bool = False,
) -> Symbol:
    """The network with `amp_cast` nodes around what runs in half precision, float16 or bfloat16.

    target_dtype_ops, fp32_ops: operators that run in half precision or in float32 against their cards;
    conditional_fp32_ops: those that do so for some values of a parameter. excluded_sym_names: nodes that stay float32.
    data_names, cast_optional_params: MXNet's; variables stay float32. Raises PassError for another dtype.
    """
    half, single = _operators(target_dtype_ops), _operators(fp32_ops)
    conditions = [
        (Op.get(name), key, {str(value) for value in values}) for name, key, values in conditional_fp32_ops or ()
    ]
    excluded = set(excluded_sym_names or ())

    def precision(node: Node) -> Precision:
        in_single = node.name in excluded or node.op in single
        if in_single or any(node.op is op and node.attrs.dict.get(key) in values for op, key, values in conditions):
            return "float32"
        return "half" if node.op in half else precision_of(node)

    graph = reduce_precision(Graph(sym.outputs), _name(target_dtype), precision=precision)
    converted = GraphSymbol(graph.outputs).copy()
    for node in post_order(converted.outputs):  # what a cast reads has no dtype that follows from what it gives
        for each in (entry.node for entry in node.inputs if node.op is _CAST and entry.node.is_variable):
            if "__dtype__" not in each.attrs.dict:
                GraphSymbol([NodeEntry(each)]).set_attrs({"__dtype__": str(dtype_code("float32"))})
    return as_symbol(converted)


def convert_model(
    sym: GraphSymbol,
    arg_params: Mapping[str, Any],
    aux_params: Mapping[str, Any],
    target_dtype: Any = "float16",
    target_dtype_ops: Names = None,
    fp32_ops: Names = None,
    conditional_fp32_ops: Conditions = None,
    excluded_sym_names: Names = None,
    cast_optional_params: bool = False,
) -> tuple[Symbol, dict[str, Any], dict[str, Any]]:
    """(the network by `convert_symbol`, its parameters, its states); the arrays are those given."""
    lists = target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names
    return convert_symbol(sym, target_dtype, *lists), dict(arg_params), dict(aux_params)


def convert_bucketing_module(
    bucketing_mod: BucketingModule,
    target_dtype: Any = "float16",
    target_dtype_ops: Names = None,
    fp32_ops: Names = None,
    conditional_fp32_ops: Conditions = None,
    excluded_sym_names: Names = None,
    cast_optional_params: bool = False,
) -> BucketingModule:
    """A module of the same networks by `convert_symbol`, with the same parameters. Bind it before it runs."""
    lists = target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names
    return bucketing_mod.converted(lambda symbol: convert_symbol(symbol, target_dtype, *lists))


def convert_hybrid_block(
    block: HybridBlock,
    target_dtype: Any = "float16",
    target_dtype_ops: Names = None,
    fp32_ops: Names = None,
    conditional_fp32_ops: Conditions = None,
    excluded_sym_names: Names = None,
    ctx: Any = None,
    cast_optional_params: bool = False,
) -> SymbolBlock:
    """A block of the network by `convert_symbol`, with the same parameters, which stay float32.

    ctx: means nothing, the parameters stay on theirs. Raises NotInitializedError, a RuntimeError, for a block that was
    not hybridised and called.
    """
    inputs, symbol = block.traced("convert")
    lists = target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names
    return SymbolBlock(convert_symbol(symbol, target_dtype, *lists), inputs, params=block.collect_params())


# -- losses ------------------------------------------------------------------------------------------------------------


def init_trainer(optimizer_or_trainer: Any) -> None:
    """Nothing: gradients need no scaled losses, as what is not converted runs in float32, and bfloat16 has its range.

    MXNet's trainers get a scale that changes with the gradients.
    """


@contextmanager
def scale_loss(loss: Any, optimizer_or_trainer: Any) -> Iterator[Any]:
    """A block with the loss, or losses, as they are; see `init_trainer`."""
    yield loss


def unscale(optimizer_or_trainer: Any) -> None:
    """Nothing: gradients are not scaled; see `init_trainer`."""


def _operators(names: Names) -> set[Op]:
    """Operators by name. Raises OpNotRegisteredError."""
    return {Op.get(name) for name in names or ()}


def _name(dtype: Any) -> str:
    return dtype if isinstance(dtype, str) else np.dtype(dtype).name


# -- which operators run how -------------------------------------------------------------------------------------------


def _with(precision: Precision) -> list[str]:
    return sorted(op.name for op in list_unique_ops() if TPrecision.get(op, "float32") == precision)


def list_lp16_ops(target_dtype: Any) -> list[str]:
    """The operators that run in half precision."""
    return _with("half")


def list_fp32_ops(target_dtype: Any) -> list[str]:
    """Those that run in float32."""
    return _with("float32")


def list_lp16_fp32_ops(target_dtype: Any) -> list[str]:
    """Those that run in the dtype of their inputs, in float32 where these are of two."""
    return _with("either")


def list_conditional_fp32_ops(target_dtype: Any) -> list[Any]:
    """Those that run in float32 for some values of a parameter: none do by themselves."""
    return []


def list_widest_type_cast(target_dtype: Any) -> list[str]:
    """Those whose inputs are cast to the widest of them: those of `list_lp16_fp32_ops`."""
    return list_lp16_fp32_ops(target_dtype)


def list_loss_output_functions(target_dtype: Any) -> list[str]:
    """The heads that define their own gradient."""
    return sorted(op.name for op in list_unique_ops() if op in FLossEquivalent)


def list_lp16_use_fp32_params(target_dtype: Any) -> None:
    """Operators in half precision whose parameters stay float32: all do."""
