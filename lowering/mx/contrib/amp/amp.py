"""Networks converted, and which operators run in half precision."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from lowering.mx import mixed_precision
from lowering.mx.accepted_types import ContextLike, DType
from lowering.mx.contrib.amp.loss_scaler import LossScaler
from lowering.mx.gluon.block import HybridBlock, SymbolBlock
from lowering.mx.gluon.gluon_errors import BlockTypeError, MismatchError
from lowering.mx.gluon.trainer import Trainer
from lowering.mx.module import BucketingModule
from lowering.mx.shared_arguments import explained_by
from lowering.mx.symbol.runnable import Symbol, as_symbol
from symjax_nnvm.ir.attributes import FLossEquivalent, Precision, TPrecision
from symjax_nnvm.ir.node import Node
from symjax_nnvm.ir.op import Op, list_unique_ops
from symjax_nnvm.ir.types import dtype_name
from symjax_nnvm.passes.reduce_precision import precision_of
from symjax_nnvm.symbol.symbol import Symbol as GraphSymbol

bfloat16 = np.dtype([("bfloat16", np.uint16)])
"""MXNet's name of the dtype for NumPy; functions of `mx` take it for "bfloat16"."""

_amp_initialized = False
"""MXNet's word for whether `init` was called, which libraries read."""

Names = Sequence[str] | None
Conditions = Sequence[tuple[str, str, Sequence[str]]] | None
"""(operator, parameter, values with which it runs in float32)."""


def init(
    target_dtype: DType = "float16",
    target_precision_ops: Names = None,
    conditional_fp32_ops: Conditions = None,
    fp32_ops: Names = None,
) -> None:
    """Run in half precision whatever is hybridised and traced, or bound, from now on. Only the first call counts.

    Parameters, states, gradients and outputs stay float32, and so do eager calls: hybridise a block.

    Args:
        target_dtype: "float16" or "bfloat16".
        target_precision_ops: operators that run in half precision, against their cards.
        conditional_fp32_ops: operators that run in float32 for some values of a parameter.
        fp32_ops: operators that run in float32, against their cards.

    Raises:
        MismatchError: the dtype is another one; the error is an AssertionError, too.
        OpNotRegisteredError: there is no operator of a name.
    """
    global _amp_initialized
    if _amp_initialized:
        return
    policy = _policy(target_dtype, target_precision_ops, fp32_ops, conditional_fp32_ops)
    if policy.dtype not in ("float16", "bfloat16"):
        problem = "AMP currently supports only float16 or bfloat16 as a target_dtype"
        raise MismatchError(problem, got=target_dtype)
    _amp_initialized = True
    logging.info("Using AMP")
    mixed_precision.switch_on(policy)


def _policy(
    dtype: DType, half_ops: Names, fp32_ops: Names, conditional_fp32_ops: Conditions, excluded: Names = None
) -> mixed_precision.Policy:
    half, single = _operators(half_ops), _operators(fp32_ops)
    conditions = [
        (Op.get(name), key, {str(value) for value in values}) for name, key, values in conditional_fp32_ops or ()
    ]
    names = set(excluded or ())

    def precision(node: Node) -> Precision:
        in_single = node.name in names or node.op in single
        if in_single or any(node.op is op and node.attrs.dict.get(key) in values for op, key, values in conditions):
            return "float32"
        return "half" if node.op in half else precision_of(node)

    return mixed_precision.Policy(dtype if isinstance(dtype, str) else dtype_name(dtype), precision)


def convert_symbol(
    sym: GraphSymbol,
    target_dtype: DType = "float16",
    target_dtype_ops: Names = None,
    fp32_ops: Names = None,
    conditional_fp32_ops: Conditions = None,
    excluded_sym_names: Names = None,
    data_names: Names = None,
    cast_optional_params: bool = False,
) -> Symbol:
    """Return the network with `amp_cast` nodes around what runs in half precision.

    Args:
        sym: the network.
        target_dtype: "float16" or "bfloat16".
        target_dtype_ops: operators that run in half precision, against their cards.
        fp32_ops: operators that run in float32, against their cards.
        conditional_fp32_ops: operators that run in float32 for some values of a parameter.
        excluded_sym_names: nodes that stay float32.
        data_names: accepted and ignored.
        cast_optional_params: accepted and ignored: variables stay float32.

    Raises:
        PassError: the dtype is another one.
    """
    policy = _policy(target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names)
    return as_symbol(mixed_precision.with_casts(sym, policy))


@explained_by(convert_symbol)
def convert_model(
    sym: GraphSymbol,
    arg_params: Mapping[str, Any],
    aux_params: Mapping[str, Any],
    target_dtype: DType = "float16",
    target_dtype_ops: Names = None,
    fp32_ops: Names = None,
    conditional_fp32_ops: Conditions = None,
    excluded_sym_names: Names = None,
    cast_optional_params: bool = False,
) -> tuple[Symbol, dict[str, Any], dict[str, Any]]:
    """Return the network that `convert_symbol` returns, with the same parameters and states.

    Args:
        arg_params: parameters by name.
        aux_params: auxiliary states by name.
    """
    lists = target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names
    return convert_symbol(sym, target_dtype, *lists), dict(arg_params), dict(aux_params)


def convert_bucketing_module(
    bucketing_mod: BucketingModule,
    target_dtype: DType = "float16",
    target_dtype_ops: Names = None,
    fp32_ops: Names = None,
    conditional_fp32_ops: Conditions = None,
    excluded_sym_names: Names = None,
    cast_optional_params: bool = False,
) -> BucketingModule:
    """A module of the same networks by `convert_symbol`, with the same parameters. Bind it before it runs."""
    lists = target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names
    return bucketing_mod.converted(lambda symbol: convert_symbol(symbol, target_dtype, *lists))


@explained_by(convert_symbol)
def convert_hybrid_block(
    block: HybridBlock,
    target_dtype: DType = "float16",
    target_dtype_ops: Names = None,
    fp32_ops: Names = None,
    conditional_fp32_ops: Conditions = None,
    excluded_sym_names: Names = None,
    ctx: ContextLike = None,
    cast_optional_params: bool = False,
) -> SymbolBlock:
    """Return a block of the network that `convert_symbol` returns, with the same parameters, which stay float32.

    Args:
        block: the block, hybridised and called.
        ctx: accepted and ignored: parameters stay on their contexts.

    Raises:
        NotInitializedError: the block was not hybridised and called; the error is a RuntimeError, too.
        MismatchError: `block` is not a HybridBlock; the error is an AssertionError, too.
    """
    if not isinstance(block, HybridBlock):
        raise MismatchError("block input should be a HybridBlock", got=type(block).__name__)
    inputs, symbol = block.traced_symbol("convert")
    lists = target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names
    return SymbolBlock(convert_symbol(symbol, target_dtype, *lists), inputs, params=block.collect_params())


# -- losses ------------------------------------------------------------------------------------------------------------


def init_trainer(optimizer_or_trainer: Any) -> None:
    """Give a `gluon.Trainer` a loss scale that changes with the gradients.

    `scale_loss` uses the scale; a step whose gradients overflow is left out.

    Args:
        optimizer_or_trainer: the trainer.

    Raises:
        MismatchError: `init` was not called; the error is an AssertionError, too.
        BlockTypeError: the argument is not a Trainer; the error is a TypeError, too.
    """
    if not _amp_initialized:
        raise MismatchError("AMP not initialized, did you forget to call amp.init()?")
    _refuse_others(optimizer_or_trainer)
    optimizer_or_trainer._amp_loss_scaler = LossScaler()
    optimizer_or_trainer._amp_original_scale = optimizer_or_trainer._scale


@contextmanager
def scale_loss(loss: Any, optimizer_or_trainer: Any) -> Iterator[Any]:
    """A `with` block that gives the loss multiplied by a Trainer's scale; its steps divide by it.

    Args:
        loss: a loss, or a list of losses.
        optimizer_or_trainer: the trainer.

    Raises:
        MismatchError: `init_trainer` was not called; the error is an AssertionError, too.
    """
    scaler = getattr(optimizer_or_trainer, "_amp_loss_scaler", None)
    if scaler is None:
        raise MismatchError("Loss scaler is not initialized, did you forget to call amp.init_trainer()?")
    optimizer_or_trainer._scale = optimizer_or_trainer._amp_original_scale / scaler.loss_scale
    yield [value * scaler.loss_scale for value in loss] if isinstance(loss, list | tuple) else loss * scaler.loss_scale


def unscale(optimizer_or_trainer: Any) -> None:
    """Divide the gradients of a Trainer by its scale before `step`, so that they can be clipped, for example.

    Args:
        optimizer_or_trainer: the trainer.

    Raises:
        BlockTypeError: the argument is not a Trainer; the error is a TypeError, too.
    """
    _refuse_others(optimizer_or_trainer)
    optimizer_or_trainer.unscale_grads()


def _refuse_others(trainer: Any) -> None:
    if not isinstance(trainer, Trainer):
        raise BlockTypeError("AMP is only compatible with a Gluon Trainer", got=type(trainer).__name__)


def _operators(names: Names) -> set[Op]:
    """Return operators by name. Raises OpNotRegisteredError."""
    return {Op.get(name) for name in names or ()}


# -- which operators run how -------------------------------------------------------------------------------------------


def _with(precision: Precision) -> list[str]:
    return sorted(op.name for op in list_unique_ops() if TPrecision.get(op, "float32") == precision)


def list_lp16_ops(target_dtype: DType) -> list[str]:
    """Return the operators that run in half precision."""
    return _with("half")


def list_fp32_ops(target_dtype: DType) -> list[str]:
    """Return the operators that run in float32."""
    return _with("float32")


def list_lp16_fp32_ops(target_dtype: DType) -> list[str]:
    """Return the operators that run in the dtype of their inputs, or in float32 where inputs have two dtypes."""
    return _with("either")


def list_conditional_fp32_ops(target_dtype: DType) -> list[Any]:
    """Return the operators that run in float32 for some values of a parameter: none by default."""
    return []


def list_widest_type_cast(target_dtype: DType) -> list[str]:
    """Return the operators whose inputs are cast to the widest of their dtypes: those of `list_lp16_fp32_ops`."""
    return list_lp16_fp32_ops(target_dtype)


def list_loss_output_functions(target_dtype: DType) -> list[str]:
    """Return the heads that define their own gradient."""
    return sorted(op.name for op in list_unique_ops() if op in FLossEquivalent)


def list_lp16_use_fp32_params(target_dtype: DType) -> None:
    """Return None: parameters of all operators in half precision stay float32."""
