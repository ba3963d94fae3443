"""Methods of symbols that are operator functions, and the functions that MXNet's Python wraps around operators."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import jax
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import NotImplementedForSymbol, SymbolTypeError, SymbolValueError
from symjax_nnvm.symbol.fluent import Fluent
from tests.support.traced import evaluated

Y = sym.Variable("y")
ARGUMENTS = {
    "reshape": ((2, 3),),
    "reshape_like": (Y,),
    "expand_dims": (1,),
    "swapaxes": (0, 1),
    "flip": (1,),
    "depth_to_space": (2,),
    "space_to_depth": (2,),
    "split": (2,),
    "split_v2": ((1, 2),),
    "broadcast_to": ((2, 3),),
    "broadcast_like": (Y,),
    "repeat": (2,),
    "tile": ((2, 2),),
    "pad": ("edge", (0, 0, 0, 0, 1, 1, 1, 1)),
    "slice": ((0,), (1,)),
    "slice_axis": (0, 0, 1),
    "slice_like": (Y,),
    "take": (Y,),
    "pick": (Y,),
    "one_hot": (3,),
    "clip": (0, 1),
    "astype": ("float16",),
}
FUNCTIONS = {"astype": "cast"}
REFUSED = {
    "asnumpy": "holds no values; compile it with lowering.compile",
    "asscalar": "holds no values",
    "wait_to_read": "holds no values",
    "as_in_context": "jax.device_put",
    "as_np_ndarray": "classic dialect",
    "detach": "symbol.BlockGrad",
    "backward": "lowering.grad_fn",
    "bind": "lowering.bind",
    "simple_bind": "lowering.simple_bind",
    "eval": "lowering.to_jax",
    "optimize_for": "XLA optimises",
    "get_backend_symbol": "XLA optimises",
}
METHODS = [name for name in vars(Fluent) if not name.startswith("_") and name not in REFUSED]


@pytest.mark.parametrize("method", METHODS)
def test_method_is_the_operator_function(method: str):
    x, args = sym.Variable("x"), ARGUMENTS.get(method, ())
    with sym.NameManager():
        ours = getattr(x, method)(*args)
    with sym.NameManager():
        function = getattr(sym, FUNCTIONS.get(method, method))(x, *args)
    assert ours.tojson() == function.tojson()


def test_methods_chain_and_are_named_as_in_mxnet():
    with sym.NameManager():
        y = sym.Variable("x").reshape((2, 3)).sum(axis=1).flatten(inplace=True).astype("float16")
    assert [s.name for s in y.get_internals()] == ["x", "reshape0", "sum0", "flatten0", "cast0"]


@pytest.mark.parametrize("method", REFUSED)
def test_what_a_symbol_cannot_do_says_what_to_do(method: str):
    with pytest.raises(NotImplementedForSymbol, match=rf"Symbol\.{method}: .*{REFUSED[method]}"):
        getattr(sym.Variable("x"), method)()


@pytest.mark.slow("compiles")
def test_histogram():
    x = np.array([0.1, 0.2, 0.9], np.float32)
    counts, edges = evaluated(lowering.to_jax(sym.histogram(sym.Variable("x"), 2, (0, 1))), {"x": x})[0]
    assert (counts.tolist(), edges.tolist()) == ([2, 1], [0, 0.5, 1])
    by_edges = sym.histogram(sym.Variable("x"), sym.Variable("b"))
    counts, _ = evaluated(lowering.to_jax(by_edges), {"x": x, "b": np.array([0, 0.15, 1], np.float32)})[0]
    assert counts.tolist() == [1, 2]
    with pytest.raises(SymbolValueError, match="null range is not supported in symbol mode"):
        sym.histogram(sym.Variable("x"))
    with pytest.raises(SymbolValueError, match="either an integer or a symbol"):
        sym.histogram(sym.Variable("x"), 2.5)


def test_split_v2():
    x = np.arange(6.0, dtype=np.float32)
    for split, parts in ((3, [[0, 1], [2, 3], [4, 5]]), ((1, 4), [[0], [1, 2, 3], [4, 5]])):
        outputs = evaluated(lowering.to_jax(sym.split_v2(sym.Variable("x"), split)), {"x": x})[0]
        assert [part.tolist() for part in outputs] == parts
    with pytest.raises(SymbolValueError, match="either int or tuple of ints"):
        sym.split_v2(sym.Variable("x"), "two")


@pytest.mark.slow("compiles")
def test_rand_zipfian_draws_by_its_law():
    true = np.array([0, 3], np.float32)
    symbol = sym.Group(list(sym.contrib.rand_zipfian(sym.Variable("t"), 20_000, 5)))
    with jax.enable_x64(True):
        drawn, expected_true, expected_drawn = evaluated(lowering.to_jax(symbol), {"t": true}, {}, jax.random.key(0))[0]
    law = np.log((np.arange(5) + 2) / (np.arange(5) + 1)) / np.log(6) * 20_000
    np.testing.assert_allclose(expected_true, law[[0, 3]], rtol=1e-12)
    np.testing.assert_allclose(expected_drawn, law[drawn], rtol=1e-12)
    assert np.all(np.abs(np.bincount(drawn, minlength=5) - law) < 5 * np.sqrt(law))
    with pytest.raises(SymbolTypeError, match="true_classes must be a symbol"):
        sym.contrib.rand_zipfian(3, 4, 5)


@pytest.mark.slow("compiles")
def test_adamw_update_takes_a_number_as_scale():
    w, g, m, v = map(sym.Variable, ("w", "g", "m", "v"))
    update = sym.contrib.adamw_update(w, g, m, v, 0.5, lr=0.1, eta=1.0, name="u")
    assert update.list_arguments() == ["w", "g"]
    assert update.list_auxiliary_states() == ["m", "v"]
    symbolic = sym.contrib.adamw_update(w, g, m, v, sym.Variable("scale"), lr=0.1, eta=1.0, name="u")
    arrays = {"w": np.ones(3, np.float32), "g": np.full(3, 2, np.float32)}
    states = {"m": np.zeros(3, np.float32), "v": np.zeros(3, np.float32)}
    by_number = evaluated(lowering.to_jax(update), arrays, states)[0][0]
    by_symbol = evaluated(lowering.to_jax(symbolic), arrays | {"scale": np.full(1, 0.5, np.float32)}, states)[0][0]
    assert by_number.tolist() == by_symbol.tolist()
    with_master = sym.contrib.mp_adamw_update(w, g, m, v, sym.Variable("w32"), 0.5, lr=0.1, eta=1.0)
    assert with_master.list_auxiliary_states() == ["m", "v", "w32"]


def test_sparse_names_make_dense_operators():
    x = sym.Variable("x")
    with sym.NameManager():
        product = sym.sparse.dot(x, x)
    assert (product.attr("op_name"), product.name) == ("dot", "dot0")


def test_namespaces_name_nodes_by_the_short_name():
    x = sym.Variable("x")
    with sym.NameManager():
        names = [s.name for s in (sym.contrib.box_nms(x), sym.linalg.inverse(x), sym.random.uniform())]
    assert names == ["box_nms0", "inverse0", "_random_uniform0"]
