"""Sparse arrays are shown as MXNet's: class, storage type, text, parts, files, gradients. What is expected is what
MXNet 1.9.1 gave."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowering import mx
from lowering.mx import autograd
from lowering.mx.ndarray.sparse_arrays import BaseSparseNDArray, CSRNDArray, RowSparseNDArray
from symjax_nnvm.errors import CallError

pytestmark = pytest.mark.filterwarnings("ignore::lowering.mx.ndarray.storage_types.DenseWarning")

DENSE = np.array([[0, 1.5, 0], [0, 0, 0], [2, 0, -3]], np.float32)
FILES = Path(__file__).parents[3] / "goldens" / "files"
sparse: Any = mx.nd.sparse


def csr() -> Any:
    return mx.nd.array(DENSE).tostype("csr")


def rows() -> Any:
    return mx.nd.array(DENSE).tostype("row_sparse")


def parts_of(array: Any) -> tuple[list[Any], ...]:
    names = ("data", "indices", "indptr")[: 3 if array.stype == "csr" else 2]
    return tuple(getattr(array, name).asnumpy().tolist() for name in names)


def test_a_sparse_array_is_shown_as_mxnets():
    assert (repr(csr()), repr(rows())) == ("\n<CSRNDArray 3x3 @cpu(0)>", "\n<RowSparseNDArray 3x3 @cpu(0)>")
    assert parts_of(csr()) == ([1.5, 2, -3], [1, 0, 2], [0, 1, 1, 3])
    assert parts_of(rows()) == ([[0, 1.5, 0], [2, 0, -3]], [0, 2])
    assert isinstance(csr(), sparse.CSRNDArray)
    assert isinstance(rows(), sparse.RowSparseNDArray)
    assert isinstance(rows(), sparse.BaseSparseNDArray)
    assert not isinstance(mx.nd.array(DENSE), sparse.BaseSparseNDArray)
    np.testing.assert_array_equal(csr().asnumpy(), DENSE)


def test_the_numbers_of_parts_have_64_bits():
    assert {csr().indices.dtype, csr().indptr.dtype, rows().indices.dtype} == {np.int64}
    assert csr().data.dtype == np.float32


def test_parts_follow_what_is_written():
    array = csr()
    array[:] = mx.nd.array([[0, 0, 0], [7, 0, 0], [0, 0, 0]])
    assert parts_of(array) == ([7], [0], [0, 0, 1, 1])
    array += array
    assert parts_of(array) == ([14], [0], [0, 0, 1, 1])


def test_an_array_keeps_the_parts_that_it_was_made_from():
    zero = sparse.csr_matrix((np.array([0.0, 1], "f"), [1, 0], [0, 2, 2]), shape=(2, 2))
    assert parts_of(zero) == parts_of(zero.copy()) == parts_of(pickle.loads(pickle.dumps(zero)))
    assert parts_of(zero) == ([0, 1], [1, 0], [0, 2, 2])
    with pytest.raises(CallError, match="validity of this sparse NDArray: the columns of row 0 do not rise"):
        zero.check_format()
    zero.check_format(full_check=False)
    zero.tostype("csr").check_format()
    csr().check_format()


SAME = {
    "copy": lambda x: x.copy(),
    "copy.copy": copy.copy,
    "detach": lambda x: x.detach(),
    "astype": lambda x: x.astype("float16"),
    "as_in_context": lambda x: x.as_in_context(mx.cpu(1)),
    "copyto a context": lambda x: x.copyto(mx.cpu(1)),
    "nd.array": lambda x: mx.nd.array(x),
    "sparse.array": lambda x: sparse.array(x),
    "zeros_like": lambda x: x.zeros_like(),
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "[:]": lambda x: x[:],
    "x + x": lambda x: x + x,
    "x - x": lambda x: x - x,
    "x * x": lambda x: x * x,
    "x * 2": lambda x: x * 2,
    "2 * x": lambda x: 2 * x,
    "x / 2": lambda x: x / 2,
    "x + 0": lambda x: x + 0,
    "x > 0": lambda x: x > 0,
    "-x": lambda x: -x,
    "abs": abs,
    "square": lambda x: x.square(),
    "x * dense": lambda x: x * mx.nd.array(DENSE),
    "sparse.add": lambda x: sparse.add(x, x),
}

DENSE_AFTER = {
    "x + dense": lambda x: x + mx.nd.array(DENSE),
    "dense + x": lambda x: mx.nd.array(DENSE) + x,
    "dense * x": lambda x: mx.nd.array(DENSE) * x,
    "x / x": lambda x: x / x,
    "2 / x": lambda x: 2 / x,
    "x + 1": lambda x: x + 1,
    "x + 1, then x - 1": lambda x: x + 1 - 1,
    "x == x": lambda x: x == x,
    "x ** 2": lambda x: x**2,
    "T": lambda x: x.T,
    "sum": lambda x: x.sum(axis=0),
    "exp": lambda x: x.exp(),
    "nd.add": lambda x: mx.nd.add(x, x),
    "tostype": lambda x: x.tostype("default"),
}


@pytest.mark.slow("computes much")
@pytest.mark.parametrize("what", SAME)
@pytest.mark.parametrize("make", [csr, rows])
def test_what_stays_sparse(what: str, make: Any):
    result = SAME[what](make())
    assert (type(result), result.stype) == (type(make()), make().stype)
    assert BaseSparseNDArray in type(result).__mro__


@pytest.mark.parametrize("what", DENSE_AFTER)
@pytest.mark.parametrize("make", [csr, rows])
def test_what_becomes_dense(what: str, make: Any):
    assert type(DENSE_AFTER[what](make())) is mx.nd.NDArray


def test_a_number_decides_in_each_call_anew():
    array = csr()
    assert [(array + number).stype for number in (1, 0, 2, 0)] == ["default", "csr", "default", "csr"]


def test_products_of_a_csr_matrix():
    array, dense = csr(), mx.nd.array(DENSE)
    assert mx.nd.dot(array, dense).stype == "default"
    assert mx.nd.dot(array, dense, transpose_a=True).stype == "row_sparse"
    assert mx.nd.dot(dense, array).stype == "csr"
    assert (array / dense).stype == (array / mx.nd.ones((1, 3))).stype == "csr"
    assert (rows() / dense).stype == "default"


def test_rows_of_a_csr_matrix_are_csr():
    array = csr()
    assert parts_of(array[2]) == parts_of(array[-1]) == ([2, -3], [0, 2], [0, 2])
    assert parts_of(array[1:3]) == ([2, -3], [0, 2], [0, 0, 2])
    part = array[0:1]
    part[:] = mx.nd.ones((1, 3))
    np.testing.assert_array_equal(array.asnumpy(), DENSE)  # a copy, as in MXNet
    for row in (3, -4):
        with pytest.raises(IndexError, match=rf"index {row} is out of bounds; expected a row of 3"):
            array[row]


@pytest.mark.parametrize("retain", [sparse.retain, RowSparseNDArray.retain])
def test_retain_keeps_some_rows(retain: Any):
    assert parts_of(retain(rows(), mx.nd.array([2]))) == ([[2, 0, -3]], [2])


def test_values_that_are_stored_are_counted():
    counts = [mx.nd.contrib.getnnz(csr(), axis=axis) for axis in (None, 0, 1)]
    assert [(count.asnumpy().tolist(), count.dtype) for count in counts] == [
        ([3], np.int64),
        ([1, 1, 1], np.int64),
        ([1, 0, 2], np.int64),
    ]
    zeros = sparse.csr_matrix((np.zeros(2, "f"), [0, 1], [0, 2, 2]), shape=(2, 2))
    assert mx.nd.contrib.getnnz(zeros, axis=1).asnumpy().tolist() == [2, 0]
    with pytest.raises(mx.MXNetError, match=r"Unexpected value for axis\(2\). Candidates are None, 0, and 1"):
        mx.nd.contrib.getnnz(csr(), axis=2)
    with pytest.raises(mx.MXNetError, match=r"got RowSparseNDArray. x.tostype\('csr'\)"):
        mx.nd.contrib.getnnz(rows())


def test_makers_of_sparse_arrays():
    assert parts_of(sparse.csr_matrix((2, 3))) == ([], [], [0, 0, 0])
    assert parts_of(mx.nd.zeros((3, 2), stype="row_sparse")) == ([], [])
    assert mx.nd.empty((3, 2), stype="csr").stype == sparse.empty("csr", (3, 2)).stype == "csr"
    assert sparse.csr_matrix(DENSE).stype == sparse.csr_matrix(mx.nd.array(DENSE)).stype == "csr"
    assert sparse.row_sparse_array(DENSE).stype == sparse.row_sparse_array((3, 4)).stype == "row_sparse"
    made = sparse.row_sparse_array(([[1, 2], [3, 4]], [1, 4]), shape=(6, 2), dtype="float16")
    assert (parts_of(made), made.dtype) == (([[1, 2], [3, 4]], [1, 4]), np.float16)
    with pytest.raises(CallError, match=r"tostype\("):
        sparse.array(mx.nd.array(DENSE))


NO_MATRIX = {
    "csr_matrix": lambda: sparse.csr_matrix((2, 3, 4)),
    "csr_matrix of an array": lambda: sparse.csr_matrix(np.ones(3, "f")),
    "sparse.zeros": lambda: sparse.zeros("csr", (2,)),
    "nd.zeros": lambda: mx.nd.zeros(3, stype="csr"),
    "tostype": lambda: mx.nd.ones((2, 2, 2)).tostype("csr"),
    "cast_storage": lambda: mx.nd.cast_storage(mx.nd.ones(2), stype="csr"),
}


@pytest.mark.parametrize("make", NO_MATRIX.values(), ids=NO_MATRIX)
def test_a_csr_array_is_a_matrix(make: Any):
    with pytest.raises(ValueError, match="A csr array must have two axes; got shape"):
        make()


OF_TWO_SHAPES = {
    "csr_matrix of an array": lambda: sparse.csr_matrix(DENSE, shape=(2, 3)),
    "csr_matrix of a list": lambda: sparse.csr_matrix(DENSE.tolist(), shape=(2, 3)),
    "csr_matrix of a csr matrix": lambda: sparse.csr_matrix(csr(), shape=(2, 3)),
    "csr_matrix of zeros": lambda: sparse.csr_matrix((3, 3), shape=(2, 3)),
    "row_sparse_array of an array": lambda: sparse.row_sparse_array(mx.nd.array(DENSE), shape=(2, 3)),
    "row_sparse_array of zeros": lambda: sparse.row_sparse_array((3, 3), shape=(2, 3)),
}


@pytest.mark.parametrize("make", OF_TWO_SHAPES.values(), ids=OF_TWO_SHAPES)
def test_a_shape_that_is_not_the_arrays_is_refused(make: Any):
    with pytest.raises(ValueError, match=r"Shape mismatch detected. \(3, 3\) v.s. \(2, 3\)"):
        make()


def test_no_values_say_no_shape():
    with pytest.raises(ValueError, match="invalid shape. Say shape="):
        sparse.csr_matrix(([], [], [0, 0]))
    with pytest.raises(ValueError, match="invalid shape"):
        sparse.row_sparse_array((np.zeros((0, 3)), []))
    assert sparse.csr_matrix(([], [], [0, 0]), shape=(1, 4)).shape == (1, 4)


def test_scipy_takes_and_gives_csr():
    scipy_sparse = pytest.importorskip("scipy.sparse")
    theirs = csr().asscipy()
    assert isinstance(theirs, scipy_sparse.csr_matrix)
    np.testing.assert_array_equal(theirs.toarray(), DENSE)
    assert parts_of(mx.nd.array(theirs)) == parts_of(sparse.csr_matrix(theirs)) == parts_of(csr())


@pytest.mark.filterwarnings("ignore::symjax_nnvm.errors.NarrowedDtypeWarning")
def test_a_file_of_mxnets_is_saved_as_it_was_read(tmp_path: Path):
    arrays: Any = mx.nd.load(str(FILES / "dict.params"))
    assert {name: array.stype for name, array in arrays.items() if array.stype != "default"} == {
        "csr": "csr",
        "rows": "row_sparse",
    }
    again = {name: arrays[name] for name in ("csr", "rows")}
    mx.nd.save(str(tmp_path / "again.params"), again)
    theirs, ours = (FILES / "dict.params").read_bytes(), (tmp_path / "again.params").read_bytes()
    for record, name in zip(_records(ours), again, strict=True):
        assert record in theirs
        pickled = type(arrays[name])(None)
        pickled.__setstate__({"handle": record})  # as MXNet pickles it
        assert parts_of(pickled) == parts_of(arrays[name])


def _records(content: bytes) -> list[bytes]:
    """The two records of arrays in a file, each of which begins with the number of its version."""
    begin = b"\xc9\xfa\x93\xf9"
    _, first, second = content.split(begin)
    return [begin + first, begin + second[: second.rindex((2).to_bytes(8, "little") + (3).to_bytes(8, "little"))]]


def test_the_gradient_of_an_embedding_has_the_rows_that_were_read():
    embedding = mx.gluon.nn.Embedding(10, 2, sparse_grad=True)
    embedding.initialize()
    assert parts_of(embedding.weight.grad()) == ([], [])
    for hybridized in (False, True):
        embedding.hybridize(hybridized)
        with autograd.record():
            loss = embedding(mx.nd.array([7, 2, 7])).sum()
        loss.backward()
        assert parts_of(embedding.weight.grad()) == ([[1, 1], [2, 2]], [2, 7])
    embedding.weight.zero_grad()
    assert parts_of(embedding.weight.grad()) == ([], [])
    assert embedding.weight.data().stype == "default"


def test_gradients_have_the_storage_that_was_asked_for():
    weight, array = mx.nd.ones((3, 2)), csr()
    weight.attach_grad(stype="row_sparse")
    array.attach_grad()
    with autograd.record():
        loss = mx.nd.dot(array, weight).sum()
    loss.backward()
    assert type(array.grad) is CSRNDArray
    assert type(weight.grad) is RowSparseNDArray
    assert parts_of(weight.grad) == ([[2, 2], [1.5, 1.5], [-3, -3]], [0, 1, 2])


def test_parameters_and_their_gradients_have_their_storage():
    parameter = mx.gluon.Parameter("w", shape=(4, 2), stype="row_sparse", grad_stype="row_sparse")
    parameter.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    assert {array.stype for array in (*parameter.list_data(), *parameter.list_grad())} == {"row_sparse"}
    parameter.cast("float16")
    assert {array.stype for array in (*parameter.list_data(), *parameter.list_grad())} == {"row_sparse"}


def test_a_store_gives_rows():
    store = mx.kv.create("local")
    store.init("w", mx.nd.ones((4, 2)).tostype("row_sparse"))
    out = sparse.zeros("row_sparse", (4, 2))
    store.row_sparse_pull("w", out=out, row_ids=mx.nd.array([1, 3, 1]))
    assert parts_of(out) == ([[1, 1], [1, 1]], [1, 3])


def test_executors_show_storage():
    x, w = mx.sym.var("x", stype="csr"), mx.sym.var("w", stype="row_sparse")
    executor = mx.sym.sparse.dot(x, w).simple_bind(mx.cpu(), x=(2, 4), w=(4, 3))
    assert {name: array.stype for name, array in executor.arg_dict.items()} == {"x": "csr", "w": "row_sparse"}
    assert executor.grad_dict["w"].stype == "row_sparse"
    assert executor.forward()[0].stype == "default"
    bound = mx.sym.sparse.square(x).bind(mx.cpu(), {"x": csr()})
    assert parts_of(bound.forward()[0]) == ([2.25, 4, 9], [1, 0, 2], [0, 1, 1, 3])
    assert bound.arg_dict["x"].stype == "csr"


def test_batches_of_libsvm_files_are_csr(tmp_path: Path):
    (tmp_path / "a.svm").write_text("1 0:1.5 2:2\n0 1:3\n1 0:1\n")
    iterator = mx.io.LibSVMIter(data_libsvm=str(tmp_path / "a.svm"), data_shape=(4,), batch_size=2)
    batch = next(iter(iterator))
    assert parts_of(batch.data[0]) == ([1.5, 2, 3], [0, 2, 1], [0, 2, 3])
    assert batch.label[0].stype == "default"
