"""`mx.test_utils`: what scripts check operators and networks with, against NumPy and finite differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from lowering.api.function import to_jax
from lowering.api.gradient import grad_fn
from lowering.mx import context as contexts
from lowering.mx.context import Context, current_context
from lowering.mx.ndarray.array import NDArray
from lowering.mx.ndarray.creation import array
from lowering.mx.symbol import Symbol, make_loss
from symjax_nnvm.errors import CallError
from symjax_nnvm.symbol.symbol import Symbol as GraphSymbol

__test__ = False  # not for pytest

Given = Mapping[str, Any] | Sequence[Any]

_TOLERANCES = {"float16": (1e-2, 1e-1), "float32": (1e-4, 1e-3), "float64": (1e-5, 1e-20), "bfloat16": (1e-1, 1e-1)}
"""MXNet's (rtol, atol) by the coarsest dtype."""


def default_context() -> Context:
    """The current context."""
    return current_context()


def set_default_context(ctx: Context) -> None:
    """Make a context this thread's current one, outside of all blocks."""
    contexts.set_outermost(ctx)


def default_dtype() -> Any:
    """The default dtype, float32."""
    return np.float32


# -- numbers by chance -----------------------------------------------------------------------------------------------


def random_arrays(*shapes: Sequence[int]) -> Any:
    """Normal numbers of NumPy's, float32; a list where there are several shapes."""
    arrays = [np.asarray(np.random.randn(*shape), np.float32) for shape in shapes]
    return arrays if len(arrays) != 1 else arrays[0]


def rand_ndarray(shape: Sequence[int], stype: str = "default", dtype: Any = None, ctx: Any = None, **_: Any) -> NDArray:
    """Normal numbers as an NDArray; dense; stype is ignored."""
    return array(np.random.randn(*shape), ctx, dtype)


def rand_shape_nd(num_dim: int, dim: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """Sizes from 1 to dim."""
    return tuple(int(size) for size in np.random.randint(0 if allow_zero_size else 1, dim + 1, size=num_dim))


def rand_shape_2d(dim0: int = 10, dim1: int = 10) -> tuple[int, ...]:
    """Two sizes."""
    return tuple(int(np.random.randint(1, dim + 1)) for dim in (dim0, dim1))


def rand_shape_3d(dim0: int = 10, dim1: int = 10, dim2: int = 10) -> tuple[int, ...]:
    """Three sizes."""
    return tuple(int(np.random.randint(1, dim + 1)) for dim in (dim0, dim1, dim2))


# -- comparisons -----------------------------------------------------------------------------------------------------


def same(a: Any, b: Any) -> bool:
    """Whether two arrays are equal, in shape, too."""
    return bool(np.array_equal(np.asarray(a), np.asarray(b)))


def _tolerances(a: Any, b: Any, rtol: float | None, atol: float | None) -> tuple[float, float]:
    """The tolerances given, else those of the coarser dtype."""
    names = [str(getattr(np.asarray(x), "dtype", "float64")) for x in (a, b)]
    tolerances = [_TOLERANCES.get(name, _TOLERANCES["float64"]) for name in names]
    coarse = max(tolerances, key=lambda pair: pair[0])
    return coarse[0] if rtol is None else rtol, coarse[1] if atol is None else atol


def almost_equal(a: Any, b: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = False) -> bool:
    """Whether |a - b| ≤ atol + rtol |b| everywhere."""
    rtol, atol = _tolerances(a, b, rtol, atol)
    wide = [np.asarray(np.asarray(x), np.float64) for x in (a, b)]
    return bool(np.allclose(*wide, rtol=rtol, atol=atol, equal_nan=equal_nan))


def assert_almost_equal(
    a: Any,
    b: Any,
    rtol: float | None = None,
    atol: float | None = None,
    names: tuple[str, str] = ("a", "b"),
    equal_nan: bool = False,
    use_broadcast: bool = True,
    mismatches: Any = None,
) -> None:
    """Raises AssertionError, which says where two arrays differ most, unless |a - b| ≤ atol + rtol |b|."""
    rtol, atol = _tolerances(a, b, rtol, atol)
    left, right = (np.asarray(np.asarray(x), np.float64) for x in (a, b))
    shown = f"{names[0]} and {names[1]}"
    if not use_broadcast and left.shape != right.shape:
        raise AssertionError(f"{shown} have shapes {left.shape} and {right.shape}")
    np.testing.assert_allclose(left, right, rtol, atol, equal_nan, err_msg=f"{shown} differ", verbose=True)


# -- networks --------------------------------------------------------------------------------------------------------


def simple_forward(sym: Symbol, ctx: Context | None = None, is_train: bool = False, **inputs: Any) -> Any:
    """The outputs for NumPy's arrays by name; one alone where there is one."""
    executor = sym.bind(ctx, {name: _asarray(value) for name, value in inputs.items()}, grad_req="null")
    outputs = [out.asnumpy() for out in executor.forward(is_train=is_train)]
    return outputs[0] if len(outputs) == 1 else outputs


def _asarray(value: Any, dtype: Any = None, ctx: Any = None) -> NDArray:
    return value if isinstance(value, NDArray) and dtype is None else array(value, ctx, dtype)


def _named(
    given: Given | None, names: Sequence[str], what: str, dtype: Any = None, ctx: Any = None
) -> dict[str, NDArray]:
    """Arrays by name. Raises CallError for other names, or another number of them."""
    if given is None:
        given = {}
    arrays = dict(given) if isinstance(given, Mapping) else dict(zip(names, given, strict=False))
    if set(arrays) != set(names) or len(given) != len(names):
        raise CallError(f"Symbol {what} do not match the names given", expected=list(names), got=list(arrays))
    return {name: _asarray(value, dtype, ctx) for name, value in arrays.items()}


def check_symbolic_forward(
    sym: Symbol,
    location: Given,
    expected: Given,
    rtol: float | None = None,
    atol: float | None = None,
    aux_states: Given | None = None,
    ctx: Context | None = None,
    equal_nan: bool = False,
    dtype: Any = np.float32,
) -> list[NDArray]:
    """Check the outputs in inference, and return them. Raises AssertionError."""
    executor = sym.bind(
        ctx,
        _named(location, sym.list_arguments(), "arguments", dtype, ctx),
        grad_req="null",
        aux_states=_named(aux_states, sym.list_auxiliary_states(), "auxiliary states", dtype, ctx),
    )
    outputs = executor.forward(is_train=False)
    wanted = [expected[name] for name in sym.list_outputs()] if isinstance(expected, Mapping) else expected
    for name, want, output in zip(sym.list_outputs(), wanted, outputs, strict=True):
        assert_almost_equal(want, output, rtol, atol, (f"EXPECTED_{name}", f"FORWARD_{name}"), equal_nan)
    return outputs


def check_symbolic_backward(
    sym: Symbol,
    location: Given,
    out_grads: Any,
    expected: Given,
    rtol: float | None = None,
    atol: float | None = None,
    aux_states: Given | None = None,
    grad_req: Any = "write",
    ctx: Context | None = None,
    grad_stypes: Any = None,
    equal_nan: bool = False,
    dtype: Any = np.float32,
) -> list[NDArray]:
    """Check the gradients for head gradients, and return them; added to what was there where grad_req says "add".

    expected: by name, or in the order of the arguments. Raises AssertionError.
    """
    names = sym.list_arguments()
    wanted = dict(expected) if isinstance(expected, Mapping) else dict(zip(names, expected, strict=True))
    if isinstance(grad_req, str):
        requests = dict.fromkeys(names, grad_req)
    else:
        requests = dict(grad_req if isinstance(grad_req, Mapping) else zip(names, grad_req, strict=True))
    before = {name: np.random.normal(size=np.shape(np.asarray(value))) for name, value in wanted.items()}
    grads = {name: array(value, ctx, dtype) for name, value in before.items()}
    executor = sym.bind(
        ctx,
        _named(location, names, "arguments", dtype, ctx),
        grads,
        requests,
        _named(aux_states, sym.list_auxiliary_states(), "auxiliary states", dtype, ctx),
    )
    executor.forward(is_train=True)
    executor.backward(_heads(out_grads, dtype, ctx))
    for name, want in wanted.items():
        was = {"write": 0, "add": before[name], "null": before[name]}[requests[name]]
        target = (0 if requests[name] == "null" else np.asarray(want)) + was
        assert_almost_equal(target, grads[name], rtol, atol, (f"EXPECTED_{name}", f"BACKWARD_{name}"), equal_nan)
    return list(grads.values())


def _heads(out_grads: Any, dtype: Any, ctx: Any) -> Any:
    if isinstance(out_grads, Mapping):
        return {name: _asarray(value, dtype, ctx) for name, value in out_grads.items()}
    return None if out_grads is None else [_asarray(value, dtype, ctx) for value in out_grads]


def check_numeric_gradient(
    sym: GraphSymbol,
    location: Given,
    aux_states: Given | None = None,
    numeric_eps: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    grad_nodes: Any = None,
    use_forward_train: bool = True,
    ctx: Context | None = None,
    grad_stype_dict: Any = None,
    dtype: Any = np.float32,
) -> None:
    """Check the gradients of a random projection of the first output against central differences, in float64.

    grad_nodes: names of arguments; None: all. MXNet calculates in `dtype`, and needs wider tolerances for it. Raises
    AssertionError.
    """
    names = list(grad_nodes or sym.list_arguments())
    args = _named(location, sym.list_arguments(), "arguments")
    aux = _named(aux_states, sym.list_auxiliary_states(), "auxiliary states")
    values, states = ({name: _wide(value) for name, value in given.items()} for given in (args, aux))
    _, shapes, _ = sym.infer_shape(**{name: value.shape for name, value in values.items()})
    projection = np.random.rand(*shapes[0]) + 0.1
    with jax.enable_x64(True):
        net = make_loss(Symbol(sym.outputs[:1]) * Symbol.create_variable("__random_proj"))
        given = {**values, "__random_proj": projection}
        run = jax.jit(to_jax(net, is_train=use_forward_train))
        _, gradients, _ = grad_fn(net, names, is_train=use_forward_train)(given, states)

        def total(changed: Mapping[str, np.ndarray]) -> float:
            return float(run({**given, **changed}, states)[0][0].sum())

        for name in names:
            numeric = numeric_grad(lambda x, name=name: total({name: x}), values[name], numeric_eps or 1e-4)
            tolerances = 1e-4 if rtol is None else rtol, 1e-5 if atol is None else atol
            assert_almost_equal(numeric, gradients[name], *tolerances, (f"NUMERICAL_{name}", f"BACKWARD_{name}"))


def _wide(value: NDArray) -> np.ndarray:
    array = value.asnumpy()
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def numeric_grad(function: Callable[[np.ndarray], float], at: np.ndarray, eps: float = 1e-4) -> np.ndarray:
    """The gradient of a function of an array, by central differences."""
    gradient = np.zeros(at.shape)
    for index in np.ndindex(at.shape):
        moved = np.zeros(at.shape)
        moved[index] = eps / 2
        gradient[index] = (function(at + moved) - function(at - moved)) / eps
    return gradient


def list_gpus() -> list[int]:
    """The numbers of the GPUs."""
    return list(range(contexts.num_gpus()))
