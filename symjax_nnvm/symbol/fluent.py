"""Methods of a symbol that are operator functions with the symbol as their first input: `x.reshape((2, 3)).sum()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from symjax_nnvm.errors import NotImplementedForSymbol, did_you_mean

_Method = Callable[..., Any]


def _method(function: str) -> _Method:
    """Return a method that calls an operator function by its name."""

    def method(self: Fluent, *args: Any, **kwargs: Any) -> Any:
        return self._operator_function(function)(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = function
    method.__doc__ = f"`symbol.{function}` of this symbol; takes the function's other arguments."
    return method


def _in_shape(function: str) -> _Method:
    """Return a method as of `_method`, for functions whose method in MXNet takes an `inplace`, which symbols ignore."""
    call = _method(function)

    def method(self: Fluent, *args: Any, inplace: bool = False, **kwargs: Any) -> Any:
        return call(self, *args, **kwargs)

    method.__name__, method.__qualname__, method.__doc__ = call.__name__, call.__qualname__, call.__doc__
    return method


def _refusing(method: str, reason: str) -> Callable[..., NoReturn]:
    """Return a method of MXNet that symbols lack: it raises an error with the replacement."""

    def refuse(self: Fluent, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedForSymbol(f"{type(self).__name__}.{method}: {reason}")

    refuse.__name__ = refuse.__qualname__ = method
    refuse.__doc__ = f"Not here: {reason}"
    return refuse


_NO_VALUES = "a symbol holds no values; compile it with lowering.compile and call the result."
_XLA = "XLA optimises the whole graph when lowering.compile compiles it; there is no other backend."

_INFERRED = "A symbol has no array: symbol.infer_shape(data=…) and infer_type tell what follows from the inputs."
_ELSEWHERE = {
    **dict.fromkeys(("shape", "dtype", "ndim", "size"), _INFERRED),
    "grad": "lowering.grad_fn(symbol) computes gradients, and Symbol.gradient returns them as a graph.",
    "data": "A symbol has no array: lowering.to_jax(symbol)(args, aux) computes its values.",
    "T": "Write symbol.transpose().",
}
"""Attributes that arrays have and symbols lack, each with its replacement."""


class Fluent:
    """Offers MXNet's fluent methods. A symbol inherits them; the module of functions gives them theirs."""

    __slots__ = ()

    _operator_function: ClassVar[Callable[..., Callable[..., Any]]]
    _elsewhere = _ELSEWHERE

    # shape and order
    reshape = _method("reshape")
    reshape_like = _method("reshape_like")
    flatten = _in_shape("flatten")
    expand_dims = _in_shape("expand_dims")
    squeeze = _in_shape("squeeze")
    transpose = _method("transpose")
    swapaxes = _method("swapaxes")
    flip = _method("flip")
    depth_to_space = _method("depth_to_space")
    space_to_depth = _method("space_to_depth")
    split = _method("split")
    split_v2 = _method("split_v2")
    diag = _method("diag")
    shape_array = _method("shape_array")
    size_array = _method("size_array")

    # sizes
    broadcast_to = _method("broadcast_to")
    broadcast_axes = _method("broadcast_axes")
    broadcast_like = _method("broadcast_like")
    repeat = _method("repeat")
    tile = _method("tile")
    pad = _method("pad")

    # elements
    slice = _method("slice")
    slice_axis = _method("slice_axis")
    slice_like = _method("slice_like")
    take = _method("take")
    pick = _method("pick")
    one_hot = _method("one_hot")
    sort = _method("sort")
    argsort = _method("argsort")
    topk = _method("topk")
    argmax = _method("argmax")
    argmax_channel = _method("argmax_channel")
    argmin = _method("argmin")

    # reductions
    sum = _method("sum")
    nansum = _method("nansum")
    prod = _method("prod")
    nanprod = _method("nanprod")
    mean = _method("mean")
    max = _method("max")
    min = _method("min")
    norm = _method("norm")

    # functions of each element
    astype = _method("cast")
    zeros_like = _method("zeros_like")
    ones_like = _method("ones_like")
    clip = _method("clip")
    abs = _method("abs")
    sign = _method("sign")
    round = _method("round")
    rint = _method("rint")
    fix = _method("fix")
    floor = _method("floor")
    ceil = _method("ceil")
    trunc = _method("trunc")
    sin = _method("sin")
    cos = _method("cos")
    tan = _method("tan")
    arcsin = _method("arcsin")
    arccos = _method("arccos")
    arctan = _method("arctan")
    sinh = _method("sinh")
    cosh = _method("cosh")
    tanh = _method("tanh")
    arcsinh = _method("arcsinh")
    arccosh = _method("arccosh")
    arctanh = _method("arctanh")
    degrees = _method("degrees")
    radians = _method("radians")
    exp = _method("exp")
    expm1 = _method("expm1")
    log = _method("log")
    log10 = _method("log10")
    log2 = _method("log2")
    log1p = _method("log1p")
    sqrt = _method("sqrt")
    rsqrt = _method("rsqrt")
    cbrt = _method("cbrt")
    rcbrt = _method("rcbrt")
    square = _method("square")
    reciprocal = _method("reciprocal")
    relu = _method("relu")
    sigmoid = _method("sigmoid")
    softmax = _method("softmax")
    log_softmax = _method("log_softmax")
    softmin = _method("softmin")

    # what only arrays, or the engine, can do
    asnumpy = _refusing("asnumpy", _NO_VALUES)
    asscalar = _refusing("asscalar", _NO_VALUES)
    wait_to_read = _refusing("wait_to_read", _NO_VALUES)
    as_in_context = _refusing(
        "as_in_context", "a symbol holds no values; move the arrays it is called with: jax.device_put(array, device)."
    )
    as_np_ndarray = _refusing("as_np_ndarray", "operators are those of the classic dialect; the numpy one is not here.")
    detach = _refusing("detach", "stop gradients with symbol.BlockGrad.")
    backward = _refusing("backward", "the gradient is lowering.grad_fn(symbol) or, as a graph, Symbol.gradient.")
    bind = _refusing("bind", "import lowering, and call lowering.bind(symbol, …).")
    simple_bind = _refusing("simple_bind", "import lowering, and call lowering.simple_bind(symbol, …).")
    eval = _refusing("eval", "import lowering, and call lowering.to_jax(symbol)(arrays by name).")
    optimize_for = _refusing("optimize_for", _XLA)
    get_backend_symbol = _refusing("get_backend_symbol", _XLA)

    if not TYPE_CHECKING:  # for which every name would then be an attribute

        def __getattr__(self, name: str) -> Any:
            """Raise the error for a missing attribute, which proposes a replacement or close names."""
            fix = "" if name.startswith("_") else self._elsewhere.get(name) or did_you_mean(name, dir(type(self)))
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{fix and '. '}{fix}")
