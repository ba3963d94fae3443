"""Hybridised blocks over `mx.sym.np`: values, shapes and gradients are those of functions of arrays, thus MXNet's."""

import json
import warnings
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as onp
import pytest

from lowering import mx
from symjax_nnvm import NarrowedDtypeWarning
from tests.support.together import together

np, npx = mx.np, mx.npx

X = [[1.0, 2.0, 3.0], [4.0, -5.0, 6.0]]
CUBE = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 9.0]]]

CALLS: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
    "det": ([[1.0, 2.0], [3.0, 5.0]], lambda F, x: F.np.linalg.det(x)),
    "det of several": (CUBE, lambda F, x: F.np.linalg.det(x)),
    "slogdet": ([[1.0, 2.0], [3.0, 5.0]], lambda F, x: F.np.linalg.slogdet(x)),
    "expand_dims of ()": (2.0, lambda F, x: F.np.expand_dims(x, 0)),
    "flip": (X, lambda F, x: F.np.flip(x)),
    "flip of ()": (2.0, lambda F, x: F.np.flip(x)),
    "hsplit": ([1.0, 2.0, 3.0, 4.0], lambda F, x: F.np.hsplit(x, 2)),
    "hsplit at": (X, lambda F, x: F.np.hsplit(x, (1,))),
    "dsplit": (CUBE, lambda F, x: F.np.dsplit(x, 2)),
    "vsplit": (X, lambda F, x: F.np.vsplit(x, 2)),
    "resize": (X, lambda F, x: F.np.resize(x, (3, 5))),
    "resize of ()": (2.0, lambda F, x: F.np.resize(x, (2, 2))),
    "resize of nothing": (onp.zeros((2, 0)), lambda F, x: F.np.resize(x, (2, 2))),
    "T": (CUBE, lambda F, x: x.T),
    "norm of rows": (X, lambda F, x: F.np.linalg.norm(x, axis=-1)),
    "hanning": (X, lambda F, x: x + F.np.hanning(3)),
    "hamming": (X, lambda F, x: x + F.np.hamming(3)),
    "blackman": (X, lambda F, x: x + F.np.blackman(M=3, dtype="float32")),
}
"""What is called → (the values of x, the call)."""


class Called(mx.gluon.HybridBlock):
    def __init__(self, function: Callable[[Any, Any], Any]):
        super().__init__()
        self.function = function

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.function(F, x)


@pytest.fixture(autouse=True)
def numpy_dialect() -> Iterator[None]:
    npx.set_np()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NarrowedDtypeWarning)
        yield
    npx.reset_np()


def _outcome(function: Callable[[Any, Any], Any], values: Any, hybrid: bool) -> list[onp.ndarray]:
    """The outputs and the gradient of their sum."""
    block, x = Called(function), np.array(values)
    block.hybridize(hybrid)
    x.attach_grad()
    with mx.autograd.record():
        outputs = block(x)
        outputs = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
    mx.autograd.backward(outputs)
    return [each.asnumpy() for each in (*outputs, x.grad)]


@pytest.mark.slow("traces each function")
def test_functions_of_symbols_give_what_those_of_arrays_do():
    with together() as checks:
        for what, (values, function) in CALLS.items():
            with checks(what):
                eager, graph = (_outcome(function, values, hybrid) for hybrid in (False, True))
                assert [each.shape for each in eager] == [each.shape for each in graph]
                for a, b in zip(eager, graph, strict=True):
                    onp.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_indices_of_the_flat_array_are_rows_of_one_symbol():
    block = Called(lambda F, x: F.np.unravel_index(x, (3, 4)))
    block.hybridize()
    assert block(np.array([[7, 2]], dtype="int32")).tolist() == [[[1, 0]], [[3, 2]]]
    assert block(np.array(7, dtype="int32")).tolist() == [1, 3]


def test_a_determinant_has_the_classic_name_in_files_and_comes_back_without_axes():
    x, sym_np = mx.sym.var("x").as_np_ndarray(), cast("Any", mx.sym.np)
    text = sym_np.linalg.det(x).tojson()
    assert [node["op"] for node in json.loads(text)["nodes"]] == ["null", "_linalg_det"]
    again = mx.sym.load_json(text)
    assert again.infer_shape(x=(2, 2))[1] == [()]
    assert again.tojson() == text


def test_places_that_a_graph_cannot_count_have_a_way_out():
    for call in (lambda F, x: F.np.nonzero(x), lambda F, x: F.np.where(x > 0)):
        net = Called(call)
        net.hybridize()
        with pytest.raises(
            TypeError, match=r"a symbol's axes are unknown.*F.npx.nonzero\(x\) returns the places as rows"
        ):
            net(np.array(X))
    net = Called(lambda F, x: F.npx.nonzero(x > 2))
    net.hybridize()
    assert net(np.array(X)).tolist() == [[0, 2], [1, 0], [1, 2]]
    with pytest.raises(mx.MXNetError, match=r"Argument a must have NDArray type, but got \[1\]. mx.np.array\(value\)"):
        np.nonzero([1])


def test_a_graph_stores_which_numbers_are_whole_and_which_name_abs_has():
    whole = Called(lambda F, x: [1 + x, x + 1, 2 * x, F.np.add(1, x), F.np.abs(x), F.np.absolute(x), abs(x)])
    whole.hybridize()
    dtypes = [y.dtype.name for y in whole(np.array([[1, 2]], dtype="int32"))]
    assert dtypes == ["int32", "int32", *["float32"] * 2, *["int32"] * 3]  # float64 in MXNet, and where JAX has it
    x: Any = mx.sym.var("x").as_np_ndarray()
    sym_np: Any = mx.sym.np
    with mx.name.NameManager():
        assert [sym_np.abs(x).name, sym_np.absolute(x).name] == ["abs0", "absolute0"]


def test_what_a_graph_cannot_read_or_write_has_a_way_out():
    def write(F: Any, x: Any) -> Any:
        x[0] = 1
        return x

    for call, error, way_out in (
        (lambda F, x: x[x > 2], IndexError, r"F.np._internal.boolean_mask\(x, mask\) takes a mask"),
        (lambda F, x: x[None], IndexError, "None is F.np.expand_dims"),
        (write, NotImplementedError, r"F.np.where\(mask, value, x\) makes a new one"),
    ):
        net = Called(call)
        net.hybridize()
        with pytest.raises(error, match=way_out):
            net(np.array(X))
    for call in (
        lambda F, x: F.np._internal.boolean_mask(x[:, 0], x[:, 1] < 0),
        lambda F, x: F.np.reshape(F.np.expand_dims(F.np.where(x > 2, x, 0), 0), -1)[2:5],
    ):
        net = Called(call)
        net.hybridize()
        assert net(np.array(X)).tolist() in ([4.0], [3.0, 4.0, 0.0])
