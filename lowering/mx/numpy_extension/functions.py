"""The functions of `mx.npx` that are operators: layers, and what NumPy lacks."""

from __future__ import annotations

from typing import Any

from lowering.mx.accepted_types import ContextLike, DType, ShapeLike
from lowering.mx.numpy.distributions import drawn
from lowering.mx.numpy.operators import DialectValueError, Group, Operators, bound

NAMES = (
    "activation", "arange_like", "batch_dot", "batch_flatten", "batch_norm", "cast", "convolution",
    "deconvolution", "dropout", "embedding", "erf", "erfinv", "fully_connected", "gamma", "gammaln", "gather_nd",
    "layer_norm", "leaky_relu", "log_softmax", "multibox_detection", "multibox_prior", "multibox_target", "one_hot",
    "pick", "pooling", "relu", "reshape_like", "rnn", "roi_pooling", "sequence_mask", "shape_array", "sigmoid", "slice",
    "smooth_l1", "softmax", "topk",
)  # fmt: skip

IMAGE_NAMES = (
    "adjust_lighting", "crop", "flip_left_right", "flip_top_bottom", "normalize", "random_brightness",
    "random_color_jitter", "random_contrast", "random_flip_left_right", "random_flip_top_bottom", "random_hue",
    "random_lighting", "random_saturation", "resize", "to_tensor",
)  # fmt: skip
"""Those of `mx.npx.image`."""


def reshape(op: Operators, a: Any, newshape: Any, reverse: bool = False, order: str = "C") -> Any:
    """The elements in another shape, in which numbers from -1 to -6 are codes: -1 what is left, -2 the same size, -3 an
    axis of size 1 that is dropped, -4 all axes that are left, -5 the product of two, -6 one in two."""
    return op("_npx_reshape", a, newshape=newshape, reverse=reverse, order=order)


def nonzero(op: Operators, a: Any) -> Any:
    """The indices of the elements that are not zero, as rows."""
    return op("_npx_nonzero", a)


def constraint_check(op: Operators, x: Any, msg: str = "Constraint violated.") -> Any:
    """Whether all elements are True. Raises ConstraintError, a ValueError, with the message where an array has
    others."""
    return op("_npx_constraint_check", x, msg=msg)


def bernoulli(
    op: Operators,
    prob: Any = None,
    logit: Any = None,
    size: ShapeLike | None = None,
    dtype: DType = None,
    ctx: ContextLike = None,
    out: Any = None,
) -> Any:
    """0 or 1. prob: the probability of 1; or logit: its logit; each a number or an array."""
    if (prob is None) == (logit is None):
        raise DialectValueError("Either `prob` or `logit` must be specified, but not both.")
    numbers = {"prob": prob} if logit is None else {"logit": logit}
    params = {"prob": None, "logit": None, "is_logit": prob is None, "dtype": dtype or "float32"}
    return drawn(op, "bernoulli", numbers, size, **params, ctx=ctx, out=out)


def normal_n(
    op: Operators,
    loc: Any = 0.0,
    scale: Any = 1.0,
    batch_shape: Any = None,
    dtype: DType = None,
    ctx: ContextLike = None,
) -> Any:
    """Normal numbers in the shape batch_shape + that of loc and scale."""
    return drawn(op, "normal_n", {"loc": loc, "scale": scale}, batch_shape, dtype=dtype or "float32", ctx=ctx)


def uniform_n(
    op: Operators,
    low: Any = 0.0,
    high: Any = 1.0,
    batch_shape: Any = None,
    dtype: DType = None,
    ctx: ContextLike = None,
) -> Any:
    """Uniform numbers in the shape batch_shape + that of low and high."""
    return drawn(op, "uniform_n", {"low": low, "high": high}, batch_shape, dtype=dtype or "float32", ctx=ctx)


OWN = {function.__name__: function for function in (reshape, nonzero, constraint_check)}
RANDOM = {function.__name__: function for function in (bernoulli, normal_n, uniform_n)}
"""Those of `mx.npx.random`."""


def extension(owner: str, op: Operators) -> Group:
    """The functions of `mx.npx` of arrays, or of symbols. owner: its name."""
    functions = {name: bound(function, op) for name, function in OWN.items()}
    random = Group(f"{owner}.random", op, (), "", **{name: bound(function, op) for name, function in RANDOM.items()})
    image = Group(f"{owner}.image", op, IMAGE_NAMES, "_npx__image_")
    return Group(owner, op, NAMES, "_npx_", **functions, random=random, image=image)
