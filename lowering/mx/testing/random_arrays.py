"""Arrays and shapes by chance, and arithmetic on NumPy's arrays that tests compare with."""

from __future__ import annotations

from collections.abc import Callable, MutableSequence, Sequence
from typing import Any

import numpy as np

from lowering.mx import ndarray as nd
from lowering.mx.accepted_types import ContextLike, DType
from lowering.mx.ndarray import NDArray, arange, array, eye
from lowering.mx.ndarray.array import stored_as
from symjax_nnvm.errors import CallError


def default_dtype() -> Any:
    """float32."""
    return np.float32


def random_arrays(*shapes: Sequence[int]) -> Any:
    """Normal numbers of NumPy's, float32; a list where there are several shapes."""
    arrays = [np.asarray(np.random.randn(*shape), np.float32) for shape in shapes]
    return arrays if len(arrays) != 1 else arrays[0]


def random_uniform_arrays(*shapes: Sequence[int], **kwargs: Any) -> list[np.ndarray]:
    """Uniform numbers of NumPy's from low=0.0 to high=1.0 in dtype=float32, a list. Raises CallError for others."""
    low, high = kwargs.pop("low", 0.0), kwargs.pop("high", 1.0)
    dtype = kwargs.pop("dtype", default_dtype())
    if kwargs:
        raise CallError("Unexpected arguments", expected=["low", "high", "dtype"], got=list(kwargs))
    return [np.random.uniform(low, high, size=shape).astype(dtype) for shape in shapes]


def random_sample(population: MutableSequence[Any], k: int) -> Any:
    """k elements of a sequence, in an order of NumPy's generator."""
    assert 0 <= k <= len(population)
    shuffled = population[:]
    np.random.shuffle(shuffled)  # pyright: ignore[reportArgumentType]
    return shuffled[:k]


def rand_ndarray(
    shape: Sequence[int],
    stype: str = "default",
    density: float | None = None,
    dtype: DType = None,
    modifier_func: Callable[[Any], Any] | None = None,
    shuffle_csr_indices: bool = False,
    distribution: str | None = None,
    ctx: ContextLike = None,
) -> NDArray:
    """Normal numbers as an NDArray. stype other than "default": uniform numbers with a share `density` of nonzeros, by
    default a random share, changed by modifier_func."""
    if stype == "default":
        return array(np.random.randn(*shape), ctx, dtype)
    part = np.random.rand() if density is None else density
    values = np.random.uniform(size=tuple(shape))
    if modifier_func is not None:
        values = assign_each(values, modifier_func)
    rows = tuple(shape[:1]) + (1,) * (len(shape) - 1)
    mask = np.random.uniform(size=rows if stype == "row_sparse" else tuple(shape)) < part
    return stored_as(array(np.where(mask, values, 0), ctx, dtype), stype)


def _sizes(dims: Sequence[int], allow_zero_size: bool) -> tuple[int, ...]:
    return tuple(int(np.random.randint(0 if allow_zero_size else 1, dim + 1)) for dim in dims)


def rand_shape_2d(dim0: int = 10, dim1: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """Two sizes from 1, or 0, to dim0 and dim1."""
    return _sizes((dim0, dim1), allow_zero_size)


def rand_shape_3d(dim0: int = 10, dim1: int = 10, dim2: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """Three sizes."""
    return _sizes((dim0, dim1, dim2), allow_zero_size)


def rand_shape_nd(num_dim: int, dim: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """Sizes up to dim."""
    return _sizes((dim,) * num_dim, allow_zero_size)


def rand_coord_2d(x_low: int, x_high: int, y_low: int, y_high: int) -> tuple[Any, Any]:
    """(x, y), x_low ≤ x < x_high and y_low ≤ y < y_high."""
    return np.random.randint(x_low, x_high, dtype=np.int64), np.random.randint(y_low, y_high, dtype=np.int64)


def create_vector(size: int, dtype: DType = np.int64) -> NDArray:
    """0, 1, … size - 1."""
    return arange(0, size, dtype=dtype)


def create_2d_tensor(rows: int, columns: int, dtype: DType = np.int64) -> NDArray:
    """Rows of each its own number."""
    return create_vector(rows, dtype).reshape(rows, 1).broadcast_to(shape=(rows, columns))


def get_identity_mat(size: int) -> NDArray:
    """The identity matrix."""
    return eye(size)


def get_identity_mat_batch(size: int) -> NDArray:
    """Two of it."""
    return nd.stack(eye(size), eye(size))


def assign_each(the_input: Any, function: Callable[[Any], Any] | None) -> np.ndarray:
    """The function of each element, in float64; a copy where there is no function."""
    if function is None:
        return np.array(the_input)
    return np.reshape([float(function(value)) for value in np.ravel(the_input)], np.shape(the_input))


def assign_each2(input1: Any, input2: Any, function: Callable[[Any, Any], Any] | None) -> np.ndarray:
    """The function of each pair of elements, in float64; a copy of input1 where there is no function."""
    if function is None:
        return np.array(input1)
    assert np.shape(input1) == np.shape(input2)
    pairs = zip(np.ravel(input1), np.ravel(input2), strict=True)
    return np.reshape([float(function(x, y)) for x, y in pairs], np.shape(input1))


def np_reduce(
    dat: np.ndarray, axis: int | Sequence[int] | None, keepdims: bool, numpy_reduce_func: Callable[..., Any]
) -> Any:
    """A NumPy reduction over one axis after the other. axis: one, several, or None for all."""
    axes = [axis] if isinstance(axis, int) else list(range(dat.ndim) if axis is None else axis)
    reduced: Any = dat
    for dim in sorted(axes, reverse=True):
        reduced = numpy_reduce_func(reduced, axis=dim)
    if keepdims:
        new_shape = list(dat.shape)
        for dim in axes:
            new_shape[dim] = 1
        reduced = reduced.reshape(tuple(new_shape))
    return reduced


def collapse_sum_like(a: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """The sum over the axes along which an array of a shape was broadcast to a's. Raises AssertionError where it was
    not."""
    assert a.ndim >= len(shape)
    if np.prod(shape) == 0 or a.size == 0:
        return np.zeros(shape, a.dtype)
    ahead = a.ndim - len(shape)
    axes = [i + ahead for i, size in enumerate(shape) if size != a.shape[i + ahead]]
    assert all(shape[i - ahead] == 1 for i in axes)
    return np.sum(a, axis=(*range(ahead), *axes)).reshape(shape)


def new_orthonormal_matrix_2d(n: int) -> np.ndarray:
    """A random orthonormal matrix (n, n)."""
    return np.linalg.qr(np.random.randn(n, n))[0]


def new_matrix_with_real_eigvals_2d(n: int) -> np.ndarray:
    """A random matrix (n, n) whose eigenvalues are real."""
    basis = np.ravel(np.random.uniform(-1.0, 1.0, n))
    vectors = new_orthonormal_matrix_2d(n) + 0.1 * np.eye(n)
    return np.linalg.inv(vectors) @ np.diag(basis) @ vectors


def new_sym_matrix_with_real_eigvals_2d(n: int) -> np.ndarray:
    """A random symmetric matrix (n, n)."""
    vectors = new_orthonormal_matrix_2d(n)
    return vectors.T @ np.diag(np.random.uniform(-1.0, 1.0, n)) @ vectors


def new_matrix_with_real_eigvals_nd(shape: Sequence[int]) -> np.ndarray:
    """Random matrices (…, n, n) whose eigenvalues are real."""
    return _stacked(shape, new_matrix_with_real_eigvals_2d)


def new_sym_matrix_with_real_eigvals_nd(shape: Sequence[int]) -> np.ndarray:
    """Random symmetric matrices (…, n, n)."""
    return _stacked(shape, new_sym_matrix_with_real_eigvals_2d)


def _stacked(shape: Sequence[int], make: Callable[[int], np.ndarray]) -> np.ndarray:
    count = int(np.prod(shape[:-2])) if len(shape) > 2 else 1
    return np.reshape([make(shape[-1]) for _ in range(count)], tuple(shape))
