"""Arrays by chance have the shapes, bounds and properties that are asked for."""

import numpy as np
import pytest

from lowering import mx
from lowering.mx import test_utils as tu


@pytest.fixture(autouse=True)
def seeded():
    """One sequence of numbers."""
    np.random.seed(5)


def test_numbers():
    assert tu.random_arrays((2, 3)).dtype == tu.default_dtype() == np.float32
    assert [each.shape for each in tu.random_arrays((2, 3), ())] == [(2, 3), ()]
    (drawn,) = tu.random_uniform_arrays((500,), low=2.0, high=3.0, dtype="float16")
    assert (drawn.dtype, drawn.min() >= 2, drawn.max() <= 3) == (np.float16, True, True)
    with pytest.raises(TypeError, match="Unexpected arguments"):
        tu.random_uniform_arrays((2,), hihg=3)
    population = list(range(20))
    chosen = tu.random_sample(population, 4)
    assert len(set(chosen)) == 4
    assert set(chosen) < set(population) == set(range(20))
    assert population == list(range(20))


def test_shapes():
    for _ in range(50):
        assert all(1 <= size <= most for size, most in zip(tu.rand_shape_2d(2, 5), (2, 5), strict=True))
        assert all(1 <= size <= most for size, most in zip(tu.rand_shape_3d(1, 2, 3), (1, 2, 3), strict=True))
        x, y = tu.rand_coord_2d(1, 3, 5, 6)
        assert (1 <= x < 3, y) == (True, 5)
    shapes = [tu.rand_shape_nd(4, 2, allow_zero_size=True) for _ in range(50)]
    assert {size for shape in shapes for size in shape} == {0, 1, 2}


def test_ndarrays():
    assert tu.rand_ndarray((2, 3), dtype="float16").dtype == np.float16
    sparse = tu.rand_ndarray((40, 50), "csr", density=0.25, modifier_func=lambda x: x + 10).asnumpy()
    assert 0.2 < np.mean(sparse > 0) < 0.3
    assert sparse[sparse > 0].min() > 10
    assert set(np.sum(tu.rand_ndarray((200, 3), "row_sparse", density=0.5).asnumpy() != 0, 1)) == {0, 3}
    assert tu.create_vector(3, "int32").asnumpy().tolist() == [0, 1, 2]
    assert tu.create_2d_tensor(2, 3, "int32").asnumpy().tolist() == [[0, 0, 0], [1, 1, 1]]
    np.testing.assert_array_equal(tu.get_identity_mat(3).asnumpy(), np.eye(3))
    np.testing.assert_array_equal(tu.get_identity_mat_batch(2).asnumpy(), np.stack([np.eye(2)] * 2))


def test_elementwise():
    x = np.array([[1, 2], [3, 4]])
    assert tu.assign_each(x, lambda v: v + 0.5).tolist() == [[1.5, 2.5], [3.5, 4.5]]
    assert tu.assign_each2(x, x, lambda v, w: v * w).tolist() == [[1, 4], [9, 16]]
    for copied in (tu.assign_each(x, None), tu.assign_each2(x, x + 1, None)):
        np.testing.assert_array_equal(copied, x)
        assert copied is not x
    with pytest.raises(AssertionError):
        tu.assign_each2(x, x[0], max)


def test_reductions():
    x = np.arange(24.0).reshape(2, 3, 4)
    for axis in (None, 1, (0, 2), [1]):
        for keepdims in (False, True):
            expected = np.sum(x, axis=tuple(axis) if isinstance(axis, list) else axis, keepdims=keepdims)
            np.testing.assert_array_equal(tu.np_reduce(x, axis, keepdims, np.sum), expected)
    np.testing.assert_array_equal(tu.collapse_sum_like(x, (3, 1)), x.sum((0, 2))[:, None])
    np.testing.assert_array_equal(tu.collapse_sum_like(x, (2, 3, 4)), x)
    assert tu.collapse_sum_like(np.zeros((0, 3)), (1, 3)).tolist() == [[0, 0, 0]]
    with pytest.raises(AssertionError):
        tu.collapse_sum_like(x, (2, 4))


def test_matrices():
    basis = tu.new_orthonormal_matrix_2d(4)
    np.testing.assert_allclose(basis @ basis.T, np.eye(4), atol=1e-12)
    many = tu.new_matrix_with_real_eigvals_nd((2, 3, 4, 4))
    assert many.shape == (2, 3, 4, 4)
    assert np.abs(np.imag(np.linalg.eigvals(many))).max() < 1e-9
    symmetric = tu.new_sym_matrix_with_real_eigvals_nd((3, 3))
    np.testing.assert_allclose(symmetric, symmetric.T, atol=1e-12)
    assert tu.new_matrix_with_real_eigvals_2d(2).shape == tu.new_sym_matrix_with_real_eigvals_2d(2).shape == (2, 2)
    assert isinstance(tu.rand_ndarray((1,)), mx.nd.NDArray)
