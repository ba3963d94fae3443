"""JAX rules of the operators that make arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers, lowers_table
from lowering.jax_casts import cast, number_as
from symjax_nnvm.errors import LoweringError
from symjax_nnvm.ir.types import Shape, is_known
from symjax_nnvm.ops.creation import init as ops

lowers_table({"zeros_like": jnp.zeros_like, "ones_like": jnp.ones_like})


def decided_shape(p: Any, shapes: list[Shape | None]) -> tuple[int, ...]:
    """The inferred shape. Raises LoweringError when neither parameter nor users of the array give it."""
    (shape,) = shapes
    if shape is not None and is_known(shape):
        return shape  # type: ignore[return-value]  # every dimension is known
    raise LoweringError(
        "The shape of a new array cannot be inferred",
        param="shape",
        expected="a complete shape, or operators using the array that determine it",
        got="()" if p.shape in ((), None) else p.shape,
        fix="Pass shape=.",
    )


def _dtype(name: str | None) -> Any:
    """Return the dtype to use: the node's, as wide as JAX allows now; float32 when the node leaves it open."""
    return jax.dtypes.canonicalize_dtype(name or "float32")


def _lower_fill(name: str, value: float | None) -> None:
    def rule(p: Any, *, out_shapes: list[Shape | None], out_dtypes: list[str | None]) -> Array:
        dtype = _dtype(out_dtypes[0])
        return jnp.full(decided_shape(p, out_shapes), number_as(p.value if value is None else value, dtype))

    lowers(name, needs=("out_shapes", "out_dtypes"))(rule)


for _name, _value in (
    ("_zeros", 0),
    ("_ones", 1),
    ("_full", None),
    ("_zeros_without_dtype", 0),
    ("_npi_zeros", 0),
    ("_npi_ones", 1),
):
    _lower_fill(_name, _value)


@lowers("_npi_full_like", needs=("out_dtypes",))
def _full_like(p: ops.FullLikeParams, a: Array, *, out_dtypes: list[str | None]) -> Array:
    dtype = _dtype(out_dtypes[0])
    return jnp.full(a.shape, number_as(p.fill_value, dtype))


@lowers("_npi_identity", needs=("out_shapes", "out_dtypes"))
def _identity(p: ops.NumpyInitParams, *, out_shapes: list[Shape | None], out_dtypes: list[str | None]) -> Array:
    shape, dtype = decided_shape(p, out_shapes), _dtype(out_dtypes[0])
    rows, columns = (lax.broadcasted_iota(np.int32, shape, axis) for axis in range(2))
    return (rows == columns).astype(dtype)


@lowers("_arange", needs=("out_shapes", "out_dtypes"))
def _arange(p: ops.RangeParams, *, out_shapes: list[Shape | None], out_dtypes: list[str | None]) -> Array:
    start = p.start if p.is_open else p.bounds[0]
    length = _range_length(out_shapes) if p.is_open else p.count * p.repeat
    numbers = lax.iota("int32", length)
    dtype = _dtype(out_dtypes[0])
    step, first = number_as(p.step, dtype), number_as(start, dtype)  # integer ranges have integer steps
    return (numbers // p.repeat if p.repeat > 1 else numbers).astype(dtype) * step + first


def _range_length(shapes: list[Shape | None]) -> int:
    length = shapes[0][0] if shapes[0] else None
    if length is None:
        raise LoweringError(
            "The length of a range cannot be inferred",
            param="stop",
            expected="a number, or operators using the range that determine its length",
            got="None with infer_range",
        )
    return length


@lowers("_linspace", needs=("out_dtypes",))
def _linspace(p: ops.LinspaceParams, *, out_dtypes: list[str | None]) -> Array:
    dtype = _dtype(out_dtypes[0])
    step = (p.stop - p.start) / max(p.num - p.endpoint, 1)
    numbers = lax.iota(dtype if dtype == np.float64 else "float32", p.num)
    return cast(numbers * step + p.start, dtype)


@lowers("_eye", needs=("out_dtypes",))
def _eye(p: ops.EyeParams, *, out_dtypes: list[str | None]) -> Array:
    return jnp.eye(p.N, p.M or p.N, p.k, dtype=_dtype(out_dtypes[0]))


@lowers("_npi_arange")
def _npi_arange(p: ops.NumpyRangeParams) -> Array:
    dtype = _dtype(p.dtype)
    return lax.iota(np.int32, p.count).astype(dtype) * number_as(p.step, dtype) + number_as(p.start, dtype)


@lowers("_npi_eye")
def _npi_eye(p: ops.NumpyEyeParams) -> Array:
    return jnp.eye(p.N, p.columns, p.k, dtype=_dtype(p.dtype))


@lowers("_npi_indices")
def _indices(p: ops.IndicesParams) -> Array:
    dtype, shape = _dtype(p.dtype), p.dimensions
    axes = [lax.broadcasted_iota(np.int32, shape, axis).astype(dtype) for axis in range(len(shape))]
    return jnp.stack(axes) if axes else jnp.zeros((0,), dtype)


@lowers("_npi_logspace")
def _logspace(p: ops.LogspaceParams) -> Array:
    dtype = _dtype(p.dtype)
    step = (p.stop - p.start) / max(p.num - p.endpoint, 1)
    exponents = np.arange(p.num) * step + p.start
    return cast(jnp.asarray(np.power(p.base, exponents), jax.dtypes.canonicalize_dtype(np.float64)), dtype)


def _lower_window(name: str, weights: tuple[float, ...]) -> None:
    """A window is a sum of cosines of 0, 1, … periods over its points."""

    @lowers(name)
    def window(p: ops.WindowFunctionParams) -> Array:
        turn = 2 * np.pi * np.arange(p.count) / max(p.count - 1, 1)
        heights = sum(weight * np.cos(k * turn) for k, weight in enumerate(weights)) if p.count != 1 else np.ones(1)
        return cast(jnp.asarray(heights, jax.dtypes.canonicalize_dtype(np.float64)), _dtype(p.dtype))


for _name, _weights in (
    ("_npi_blackman", (0.42, -0.5, 0.08)),
    ("_npi_hamming", (0.54, -0.46)),
    ("_npi_hanning", (0.5, -0.5)),
):
    _lower_window(_name, _weights)
