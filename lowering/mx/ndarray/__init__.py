"""`mx.nd`: arrays, and one function for each registered operator, run at once by the rules that graphs run by.

Functions are made from those of `symjax_nnvm.symbol` when they are first used: an operator that a user registers later
is there, too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax

import symjax_nnvm.symbol as symbols
from lowering.mx.accepted_types import ShapeLike
from lowering.mx.compatibility.array_functions import OF_NUMBERS, Internal, Wrapped, after_own, function_names, like
from lowering.mx.keys import seed as seed
from lowering.mx.ndarray import array_control_flow as control_flow
from lowering.mx.ndarray import contributed, sparse_arrays
from lowering.mx.ndarray.array import NDArray as NDArray
from lowering.mx.ndarray.array import as_jax as as_jax
from lowering.mx.ndarray.array import invoke as invoke
from lowering.mx.ndarray.array import like_jax as like_jax
from lowering.mx.ndarray.array import mark as mark
from lowering.mx.ndarray.array import on_backward as on_backward
from lowering.mx.ndarray.array import scalar_number
from lowering.mx.ndarray.cached_op import CachedOp as CachedOp
from lowering.mx.ndarray.contributed import split_v2 as split_v2
from lowering.mx.ndarray.creation import arange as arange
from lowering.mx.ndarray.creation import array as array
from lowering.mx.ndarray.creation import concatenate as concatenate
from lowering.mx.ndarray.creation import empty as empty
from lowering.mx.ndarray.creation import eye as eye
from lowering.mx.ndarray.creation import from_numpy as from_numpy
from lowering.mx.ndarray.creation import full as full
from lowering.mx.ndarray.creation import linspace as linspace
from lowering.mx.ndarray.creation import moveaxis as moveaxis
from lowering.mx.ndarray.creation import onehot_encode as onehot_encode
from lowering.mx.ndarray.creation import ones as ones
from lowering.mx.ndarray.creation import zeros as zeros
from lowering.mx.ndarray.decoding import imdecode as imdecode
from lowering.mx.ndarray.exchange import from_dlpack as from_dlpack
from lowering.mx.ndarray.exchange import load_frombuffer as load_frombuffer
from lowering.mx.ndarray.exchange import to_dlpack_for_read as to_dlpack_for_read
from lowering.mx.ndarray.exchange import to_dlpack_for_write as to_dlpack_for_write
from lowering.mx.ndarray.saved_arrays import as_ndarray as as_ndarray
from lowering.mx.ndarray.saved_arrays import load as load
from lowering.mx.ndarray.saved_arrays import save as save
from lowering.mx.tape.programs import run_all
from lowering.xla.out_of_memory import telling_memory
from symjax_nnvm.errors import UnknownFunctionError
from symjax_nnvm.symbol.operator_functions import OF_NODES, with_operands_named

py_slice = slice
"""Python's class, which MXNet's module has by this name: `mx.nd.slice` is an operator."""

_ARITHMETIC = {
    # function: (operator of two arrays, with a number on the right, with a number on the left)
    "add": ("broadcast_add", "_plus_scalar", "_plus_scalar"),
    "subtract": ("broadcast_sub", "_minus_scalar", "_rminus_scalar"),
    "multiply": ("broadcast_mul", "_mul_scalar", "_mul_scalar"),
    "divide": ("broadcast_div", "_div_scalar", "_rdiv_scalar"),
    "true_divide": ("broadcast_div", "_div_scalar", "_rdiv_scalar"),
    "modulo": ("broadcast_mod", "_mod_scalar", "_rmod_scalar"),
    "power": ("broadcast_power", "_power_scalar", "_rpower_scalar"),
    "pow": ("broadcast_power", "_power_scalar", "_rpower_scalar"),
    "maximum": ("broadcast_maximum", "_maximum_scalar", "_maximum_scalar"),
    "minimum": ("broadcast_minimum", "_minimum_scalar", "_minimum_scalar"),
    "hypot": ("broadcast_hypot", "_hypot_scalar", "_hypot_scalar"),
    "equal": ("broadcast_equal", "_equal_scalar", "_equal_scalar"),
    "not_equal": ("broadcast_not_equal", "_not_equal_scalar", "_not_equal_scalar"),
    "greater": ("broadcast_greater", "_greater_scalar", "_lesser_scalar"),
    "greater_equal": ("broadcast_greater_equal", "_greater_equal_scalar", "_lesser_equal_scalar"),
    "lesser": ("broadcast_lesser", "_lesser_scalar", "_greater_scalar"),
    "lesser_equal": ("broadcast_lesser_equal", "_lesser_equal_scalar", "_greater_equal_scalar"),
    "logical_and": ("broadcast_logical_and", "_logical_and_scalar", "_logical_and_scalar"),
    "logical_or": ("broadcast_logical_or", "_logical_or_scalar", "_logical_or_scalar"),
    "logical_xor": ("broadcast_logical_xor", "_logical_xor_scalar", "_logical_xor_scalar"),
}
"""MXNet's module functions of arrays and numbers in either place."""


def _eager(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of symbols as one of arrays, with `out=` and `ctx=`."""

    @after_own(function, out=(NDArray, list, tuple), name=str)
    def call(*args: Any, **kwargs: Any) -> Any:
        return invoke(function, *args, **kwargs)

    call = like(function, call)
    call.__signature__ = _signature_of_arrays(function)  # pyright: ignore[reportFunctionMemberAccess]
    call.__doc__ = (call.__doc__ or "").replace(OF_NODES, "out: the array, or the list of arrays, to write to.")
    return call


def _signature_of_arrays(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature that a function of symbols has as one of arrays."""
    own = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in ("ctx", "out", "name")]
    parameters = [
        parameter.replace(annotation=NDArray) if parameter.annotation in (symbols.Symbol, "Symbol") else parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name not in ("ctx", "out", "name", "attr") and parameter.kind is not parameter.VAR_KEYWORD
    ]
    return inspect.Signature([*parameters, *own], return_annotation=NDArray)


def _arithmetic(name: str, of_one_shape: str | None = None) -> Callable[..., Any]:
    """Return a row of the table as a function of two operands, at least one of them an array. of_one_shape: the
    operator of arrays of one shape, where it is another."""
    arrays, right, left = (symbols.function_named(op) for op in _ARITHMETIC[name])
    elementwise = arrays if of_one_shape is None else symbols.function_named(of_one_shape)

    def function(lhs: Any, rhs: Any) -> Any:
        number, other = scalar_number(lhs), scalar_number(rhs)
        if other is not None:
            return invoke(right, lhs, scalar=other) if number is None else OF_NUMBERS[name](lhs, rhs)
        if number is not None:
            return invoke(left, rhs, scalar=number)
        return invoke(elementwise if _shape_of(lhs) == _shape_of(rhs) else arrays, lhs, rhs)

    function = with_operands_named(name, function)
    function.__name__ = function.__qualname__ = name
    operands = "of two arrays, two numbers, or one of each"
    function.__doc__ = f"`{_ARITHMETIC[name][0]}` {operands}."
    return function


def _shape_of(operand: Any) -> Any:
    return operand.shape if isinstance(operand, NDArray) else None


def _multinomial(
    data: NDArray, shape: ShapeLike | None = None, get_prob: bool = False, dtype: str = "int32", **kwargs: Any
) -> Any:
    """Draw classes with the probabilities in the last axis of data; get_prob: their log-likelihoods, too."""
    return invoke(symbols.random.multinomial, data, shape=shape, get_prob=get_prob, dtype=dtype, **kwargs)


contrib = Wrapped(
    "mx.nd",
    __name__,
    symbols.contrib,
    _eager,
    foreach=control_flow.foreach,
    while_loop=control_flow.while_loop,
    cond=control_flow.cond,
    isnan=contributed.isnan,
    isinf=contributed.isinf,
    isfinite=contributed.isfinite,
    boolean_mask=contributed.boolean_mask,
    getnnz=sparse_arrays.getnnz,
    adamw_update=contributed.adamw_update,
    mp_adamw_update=contributed.mp_adamw_update,
    multi_adamw_update=contributed.multi_adamw_update,
    multi_mp_adamw_update=contributed.multi_mp_adamw_update,
    multi_lamb_update=contributed.multi_lamb_update,
    multi_mp_lamb_update=contributed.multi_mp_lamb_update,
)
linalg = Wrapped("mx.nd", __name__, symbols.linalg, _eager)
_internal = op = Internal(__name__, _eager)
random = Wrapped("mx.nd", __name__, symbols.random, _eager, multinomial=_multinomial, seed=seed)
sparse = Wrapped(
    "mx.nd",
    __name__,
    symbols.sparse,
    _eager,
    csr_matrix=sparse_arrays.csr_matrix,
    row_sparse_array=sparse_arrays.row_sparse_array,
    zeros=sparse_arrays.zeros,
    empty=sparse_arrays.empty,
    array=sparse_arrays.array,
    BaseSparseNDArray=sparse_arrays.BaseSparseNDArray,
    CSRNDArray=sparse_arrays.CSRNDArray,
    RowSparseNDArray=sparse_arrays.RowSparseNDArray,
    adagrad_update=sparse_arrays.adagrad_update,
    gs_retain=_eager(symbols.sparse.retain),
    add=_arithmetic("add", "elemwise_add"),
    subtract=_arithmetic("subtract", "elemwise_sub"),
    multiply=_arithmetic("multiply", "elemwise_mul"),
    divide=_arithmetic("divide", "elemwise_div"),
)
image = Wrapped("mx.nd", __name__, symbols.image, _eager)


def waitall() -> None:
    """Wait until everything that was begun is done."""
    run_all()
    jax.effects_barrier()
    for live in jax.live_arrays():
        try:
            with telling_memory:
                live.block_until_ready()
        except RuntimeError:
            if not live.is_deleted():  # as an update in another thread does that writes it in place
                raise


def __getattr__(name: str) -> Callable[..., Any]:
    if name in _ARITHMETIC:
        function = _arithmetic(name)
    else:
        try:
            function = _eager(getattr(symbols, name))
        except AttributeError as error:
            lacks = error  # `error` ends with this block
            raise UnknownFunctionError(lambda: f"mx.nd: {lacks}".replace("symbol.", "mx.nd.")) from None
    globals()[name] = function
    return function


def _function(name: str) -> Callable[..., Any]:
    return globals().get(name) or __getattr__(name)


NDArray._operator_function = staticmethod(_function)


def __dir__() -> list[str]:
    return sorted({*globals(), *_ARITHMETIC, *function_names()})
