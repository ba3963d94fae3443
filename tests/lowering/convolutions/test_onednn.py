"""oneDNN's convolutions: what XLA calls for us equals what XLA computes, and what does not is not used."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from lowering.convolutions import directions
from lowering.convolutions.applicable import LIBRARY, applies
from lowering.convolutions.backends import onednn
from lowering.convolutions.geometry import Direction, Epilogue, Geometry
from lowering.convolutions.layouts import Blocks
from lowering.convolutions.products import row_product, sequence_product
from symjax_nnvm import pipeline
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.lowering.convolutions.test_convolutions import GEOMETRIES
from tests.support.comparison import assert_close

RNG = np.random.default_rng(0)
FEW_IN_A_GROUP = Geometry(1, (6, 6), 20, 6, (3, 3), (1, 1), (1, 1), (1, 1), groups=2)

needs_onednn = pytest.mark.skipif(
    onednn.block(Geometry(1, (6, 6), 4, 16, (3, 3), (1, 1), (1, 1), (1, 1)), Epilogue()) is None,
    reason="jaxlib has no oneDNN on this platform",
)


def both(data: np.ndarray, ograd: np.ndarray) -> list[tuple[Direction, Any, np.ndarray]]:
    """Directions, their rules, and what these take first."""
    return [("forward", directions.forward, data), ("data", directions.data_gradient, ograd)]


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.nightly("every geometry", but_one_in=3)
@pytest.mark.slow("has many cases")
@needs_onednn
@pytest.mark.parametrize("name", GEOMETRIES)
def test_every_geometry_equals_xla(name: str):
    g = replace(GEOMETRIES[name], dtype="float32")
    every = [Epilogue(*parts) for parts in product((False, True), (False, True), ("", "relu", "relu6"))]
    epilogue = every[len(name) % len(every)]
    block = onednn.block(g, epilogue)
    if block is None:
        pytest.skip("oneDNN lays this weight in another way")
    data, weight = numbers(g.batch, *g.size, g.channels), numbers(*g.kernel, g.channels // g.groups, g.filters)
    bias, addend = numbers(g.filters), numbers(g.batch, *g.out_size, g.filters)
    operands = [bias] * epilogue.bias + [addend] * epilogue.addend
    laid = Blocks.of_weight(block, g).lay(weight, np).ravel()
    found = onednn.convolve(jnp.asarray(data), laid, g, epilogue, [jnp.asarray(a) for a in operands])
    expected = np.asarray(directions.forward(jnp.asarray(data), jnp.asarray(weight), g, "xla")) + sum(operands)
    if epilogue.act_type:
        expected = np.clip(expected, 0, 6 if epilogue.act_type == "relu6" else None)
    assert_close(np.asarray(found), expected, 1e-5, name)


@pytest.mark.nightly("every geometry", but_one_in=3)
@pytest.mark.slow("compiles")
@needs_onednn
@pytest.mark.parametrize("name", GEOMETRIES)
def test_both_directions_that_call_it_equal_xla(name: str):
    g = replace(GEOMETRIES[name], dtype="float32")
    data, weight = numbers(g.batch, *g.size, g.channels), numbers(*g.kernel, g.channels // g.groups, g.filters)
    for direction, rule, first in both(data, numbers(g.batch, *g.out_size, g.filters)):
        if not applies(LIBRARY, direction, g) or not onednn.OneDnn("cpu").computes(direction, g):
            continue
        found, expected = (np.asarray(rule(jnp.asarray(first), jnp.asarray(weight), g, by)) for by in (LIBRARY, "xla"))
        assert_close(found, expected, 1e-5, f"{name}, {direction}")


_SHAPE = {"kernel": (3, 3), "pad": (1, 1), "num_filter": 64, "num_group": 64, "no_bias": True}
DEPTHWISE = sym.Convolution(sym.Convolution(sym.Variable("data"), name="conv", **_SHAPE), name="next", **_SHAPE)
"""What the table leaves to the library, where it is not alone."""


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    weights = {name: numbers(64, 1, 3, 3) for name in ("conv_weight", "next_weight")}
    return {"data": numbers(4, 64, 28, 28), **weights}


def without_it(f: Any, arrays: dict[str, np.ndarray]) -> Any:
    """What the function gives where it was made without the library."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onednn, "computes", lambda g: False)
        return f(arrays)


@pytest.mark.slow("compiles")
@needs_onednn
def test_a_trainer_calls_it(arrays: dict[str, np.ndarray]):
    trainer = lowering.Trainer(sym.MakeLoss(DEPTHWISE), "sgd", {"learning_rate": 0.1})
    weights = {name: array for name, array in arrays.items() if name != "data"}
    trainer.init(0, weights, {}, data=arrays["data"].shape)
    batch = {"data": arrays["data"]}
    assert onednn.TARGET in trainer.step_fn.lower(trainer.require_state(), batch).as_text()


@pytest.mark.slow("compiles")
@needs_onednn
def test_functions_call_it_and_may_be_transformed(arrays: dict[str, np.ndarray]):
    """Mapped and differentiated functions do without, by the same numbers."""
    function = lowering.to_jax(DEPTHWISE)
    head = jnp.asarray(numbers(4, 64, 28, 28))

    def run(a: Any) -> jax.Array:
        return function(a, {})[0][0]

    assert onednn.TARGET in jax.jit(run).lower(arrays).as_text()
    two = {name: np.stack([array, 2 * array]) for name, array in arrays.items()}
    of_both = {"data": 0, "conv_weight": None, "next_weight": None}
    small = {name: array / 3 for name, array in arrays.items()}
    transformed: dict[str, Any] = {
        "eager": lambda a: run(a),
        "vmap": lambda a: jax.vmap(run)(two),
        "one operand mapped": lambda a: jax.vmap(run, (of_both,))({**a, "data": two["data"]}),
        "grad": jax.grad(lambda a: (run(a) * head).sum()),
        "jvp of one": lambda a: jax.jvp(lambda x: run({**a, "data": x}), (a["data"],), (small["data"],))[1],
        "hessian": lambda a: jax.jvp(jax.grad(lambda a: (run(a) ** 2).sum()), (a,), (small,))[1],
    }
    for name, transform in transformed.items():
        found, expected = (jax.tree.leaves(made) for made in (transform(arrays), without_it(transform, arrays)))
        for one, other in zip(found, expected, strict=True):
            assert_close(np.asarray(one), np.asarray(other), 1e-5, name)


@pytest.mark.slow("compiles")
@needs_onednn
def test_gradient_functions_call_it(arrays: dict[str, np.ndarray]):
    gradient = lowering.grad_fn(DEPTHWISE, ["data", "conv_weight"])

    def run(a: Any) -> Any:
        return gradient(a, {}, None, [jnp.ones((4, 64, 28, 28))])[1]

    assert onednn.TARGET in jax.jit(run).lower(arrays).as_text()
    expected = without_it(run, arrays)
    for name, found in run(arrays).items():
        assert_close(np.asarray(found), np.asarray(expected[name]), 1e-5, name)


@pytest.mark.slow("compiles")
@needs_onednn
@pytest.mark.parametrize("kind", ["over rows", "sequence over rows", "sequence"])
def test_products_call_it_and_may_be_transformed(kind: str):
    sequence = (3,) if "sequence" in kind else ()
    ours = row_product if "rows" in kind else sequence_product
    by_jax = (lambda a, b: a.swapaxes(-1, -2) @ b) if "rows" in kind else jnp.matmul
    a, b, head = numbers(*sequence, 320, 64), numbers(*sequence, 320, 80), numbers(*sequence, 64, 80)
    a = a if "rows" in kind else a.swapaxes(-1, -2)
    assert onednn.PRODUCT_TARGET in jax.jit(ours).lower(a, b).as_text()
    assert onednn.PRODUCT_TARGET not in jax.export.export(jax.jit(ours))(a, b).mlir_module()
    functions: dict[str, Any] = {
        "product": lambda product: jax.jit(product)(a, b),
        "eager": lambda product: product(jnp.asarray(a), jnp.asarray(b)),
        "vmap": lambda product: jax.vmap(product, (0, None))(np.stack([a, 2 * a]), b),
        "gradients": lambda product: jax.grad(lambda a, b: (product(a, b) * head).sum(), (0, 1))(a, b),
    }
    for name, function in functions.items():
        found, expected = (jax.tree.leaves(function(product)) for product in (ours, by_jax))
        for one, other in zip(found, expected, strict=True):
            assert_close(np.asarray(one), np.asarray(other), 1e-5, name)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_products_of_other_dtypes_are_xlas(dtype: str):
    """Half precision is summed in float32."""
    with jax.enable_x64(dtype == "float64"):
        a, b = jnp.asarray(numbers(320, 64), dtype), jnp.asarray(numbers(320, 80), dtype)
        assert "library_call" not in str(jax.make_jaxpr(row_product)(a, b))
        expected = np.asarray(a, np.float64).T @ np.asarray(b, np.float64)
        assert_close(np.asarray(row_product(a, b), np.float64), expected, 1e-12 if dtype == "float64" else 4e-3, dtype)


def test_small_products_and_open_sizes_are_xlas():
    for sizes in ((10, 4), (320, 4), (16, 32, 64)):  # of a sequence few rows
        assert "library_call" not in str(jax.make_jaxpr(row_product)(numbers(*sizes), numbers(*sizes)))
    (rows,) = jax.export.symbolic_shape("rows")
    shapes = [jax.ShapeDtypeStruct((rows, size), jnp.float32) for size in (64, 80)]
    assert onednn.PRODUCT_TARGET not in jax.export.export(jax.jit(row_product))(*shapes).mlir_module()


@needs_onednn
def test_what_is_exported_or_kept_by_jax_does_without(arrays: dict[str, np.ndarray], tmp_path: Path):
    function = lowering.to_jax(DEPTHWISE)
    exported = jax.export.export(jax.jit(lambda a: function(a, {})[0]))(arrays)
    assert onednn.TARGET not in exported.mlir_module()
    assert exported.serialize()
    with _cache(tmp_path):
        kept = lowering.to_jax(DEPTHWISE)
        assert onednn.TARGET not in jax.jit(lambda a: kept(a, {})[0]).lower(arrays).as_text()


@contextmanager
def _cache(folder: Path) -> Iterator[None]:
    before = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    jax.config.update("jax_compilation_cache_dir", str(folder))
    yield
    jax.config.update("jax_compilation_cache_dir", before)


@needs_onednn
def test_most_geometries_are_computed():
    found = [onednn.block(replace(g, dtype="float32"), Epilogue(bias=True)) for g in GEOMETRIES.values()]
    assert sum(block is not None for block in found) > len(found) / 2


@pytest.mark.parametrize("block", [1, 4, 16])
@pytest.mark.parametrize(("channels", "filters", "groups"), [(3, 5, 1), (4, 6, 2), (5, 5, 5), (1, 1, 1)])
def test_blocks_hold_the_weight(block: int, channels: int, filters: int, groups: int):
    blocks = Blocks(block, (3, 2), channels, filters, groups)
    weight = numbers(3, 2, channels // groups, filters)
    laid = blocks.lay(weight, np)
    assert laid.shape == blocks.shape
    assert np.array_equal(blocks.unlay(laid), weight)
    for f in range(filters):
        assert np.array_equal(laid.ravel()[blocks.where(f)], weight[..., f].reshape(6, -1))
    assert np.count_nonzero(laid) == weight.size


@pytest.mark.parametrize("layout", ["b0c8", "b16", "16", "b16c8 ", "b16c0"])
def test_a_word_that_is_no_layout_is_told(layout: str):
    with pytest.raises(ParamError, match="layout=.*expected such as 'b16c64'"):
        sym._blocked_weight(sym.Variable("w"), layout=layout)
    with pytest.raises(ParamError, match="layout=.*expected such as 'b16c64'"):
        sym._fused_fully_connected(sym.Variable("x"), num_hidden=4, layout=layout)
    with pytest.raises(ParamError, match="layout=.*expected such as 'b16c64'"):
        sym._fused_convolution(sym.Variable("x"), kernel=(3, 3), num_filter=4, layout=layout)


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SYMJAX_NNVM_ONEDNN", "0")
    assert onednn.block.__wrapped__(FEW_IN_A_GROUP, Epilogue()) is None
    assert not onednn.computes.__wrapped__(FEW_IN_A_GROUP)
    assert onednn.why_not() == "SYMJAX_NNVM_ONEDNN=0 in the environment"


@pytest.mark.parametrize("change", [{"pad": (-1, 0)}, {"batch": 0}, {"size": (0, 6)}, {"dilate": (0, 1)}], ids=str)
def test_what_would_end_the_process_is_not_asked(change: dict[str, object]):
    g = replace(FEW_IN_A_GROUP, **change)  # type: ignore
    assert onednn.block(g, Epilogue()) is None
    assert not onednn.computes(g)


def test_other_dtypes_are_left_to_xla():
    assert onednn.block(replace(FEW_IN_A_GROUP, dtype="float64"), Epilogue()) is None


# -- networks --------------------------------------------------------------------------------------------------------


def residual() -> sym.Symbol:
    """Two convolutions, a sum, a ReLU; then one whose result is read twice, and a clip to 6."""
    x = sym.Variable("data")
    shape = {"kernel": (3, 3), "pad": (1, 1), "num_filter": 8}
    first = sym.Activation(sym.Convolution(x, name="a", **shape), act_type="relu", name="ra")
    joined = sym.relu(sym.Convolution(first, name="b", **shape) + first, name="rb")
    third = sym.clip(sym.Convolution(joined, name="c", **shape), a_min=0, a_max=6, name="rc")
    fourth = sym.Convolution(third, name="d", **shape)
    return sym.Group([sym.relu(fourth, name="rd"), sym.clip(fourth, a_min=-1, a_max=6, name="re")])


def arguments(net: sym.Symbol, **shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    found = dict(zip(net.list_arguments(), net.infer_shape(**shapes)[0], strict=True))
    return {name: numbers(*shape) / 5 for name, shape in found.items() if name not in shapes}


@needs_onednn
def test_what_follows_is_fused_where_nobody_else_reads():
    net = residual()
    predict = lowering.Predictor(net, arguments(net, data=(1, 8, 6, 6)), platform="cpu")
    nodes = {n.name: n for n in predict.plan_of(data=(1, 8, 6, 6)).graph.nodes() if n.op is not None}
    epilogues = {
        name: (node.attrs.parsed.with_addend, node.attrs.parsed.act_type)
        for name, node in nodes.items()
        if node.op is not None and node.op.name == "_fused_convolution"
    }
    assert epilogues == {"ra": (False, "relu"), "rb": (True, "relu"), "rc": (False, "relu6"), "d": (False, "")}


def encoder() -> sym.Symbol:
    """A dense layer with GELU, one that adds its input's input, one of few rows; and one that another reads."""
    x = sym.Variable("data")
    wide = sym.FullyConnected(x, num_hidden=320, flatten=False, name="a")
    wide = sym.LeakyReLU(wide, act_type="gelu", name="ga")
    joined = sym.FullyConnected(wide, num_hidden=96, flatten=False, no_bias=True, name="b") + x
    rows = sym.relu(sym.FullyConnected(joined, num_hidden=48, name="c"), name="rc")
    return sym.Group([rows, sym.FullyConnected(joined, num_hidden=160, flatten=False, name="d")])


@pytest.mark.slow("compiles")
@needs_onednn
def test_dense_layers_of_many_rows_call_it_with_what_follows():
    net = encoder()
    args, x = arguments(net, data=(4, 24, 96)), numbers(4, 24, 96)
    predict = lowering.Predictor(net, args, platform="cpu")
    nodes = [n for n in predict.plan_of(data=x.shape).graph.nodes() if n.op is not None]
    dense = [n.attrs.parsed for n in nodes if n.op is not None and n.op.name == "_fused_fully_connected"]
    found = {(p.num_hidden, p.act_type, p.with_addend, bool(p.layout)) for p in dense}
    assert found == {
        (320, "gelu", False, True),
        (96, "", True, True),
        (48, "relu", False, False),
        (160, "", False, True),
    }
    for ours, expected in zip(predict(data=x), lowering.to_jax(net)({**args, "data": x}, {})[0], strict=True):
        assert_close(np.asarray(ours), np.asarray(expected), 1e-5, "outputs")


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("left_out", [(), ("FuseConvolution",), ("TransformWeights",), ("ChooseAlgorithm",)], ids=str)
def test_the_outputs_are_those_of_the_network(left_out: tuple[str, ...]):
    net = residual()
    args, x = arguments(net, data=(2, 8, 6, 6)), numbers(2, 8, 6, 6)
    expected = lowering.to_jax(net)({**args, "data": x}, {})[0]
    with pipeline.without(*left_out):
        found = lowering.Predictor(net, args)(data=x)
    for a, b in zip(found, expected, strict=True):
        assert_close(np.asarray(a), np.asarray(b), 1e-5, str(left_out))


@pytest.mark.slow("compiles")
@pytest.mark.usefixtures("compiled_fully")
@needs_onednn
def test_a_folder_of_a_machine_whose_library_wants_other_blocks_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    net = residual()
    args, x = arguments(net, data=(1, 8, 6, 6)), numbers(1, 8, 6, 6)
    predict = lowering.Predictor(net, args)
    expected = [np.asarray(a) for a in predict(data=x)]
    predict.save(tmp_path / "saved")
    same = lowering.Predictor.load(tmp_path / "saved")
    assert all(np.array_equal(a, b) for a, b in zip(same(data=x), expected, strict=True))
    assert same._kept.computed.keys() == predict._kept.computed.keys() == same._kept.saved.keys()
    monkeypatch.setattr(onednn, "block", lambda *asked: None)
    other = lowering.Predictor.load(tmp_path / "saved")
    for a, b in zip(other(data=x), expected, strict=True):
        assert_close(np.asarray(a), b, 1e-5, "outputs")
    assert other._kept.computed.keys() != same._kept.computed.keys()


@needs_onednn
@pytest.mark.parametrize("dtype", ["float16", "int8", "bool"])
def test_weights_of_another_dtype_are_told_before_it_is_called(dtype: str):
    """Of a file that has the operator itself; oneDNN would end the process."""
    parameters = {"kernel": "(3, 3)", "num_filter": "16", "no_bias": "True", "layout": "b16c8"}
    nodes = [{"op": "null", "name": name, "inputs": []} for name in ("data", "w")]
    nodes += [{"op": "_fused_convolution", "name": "c", "attrs": parameters, "inputs": [[0, 0, 0], [1, 0, 0]]}]
    net = sym.load_json(json.dumps({"nodes": nodes, "arg_nodes": [0, 1], "heads": [[2, 0, 0]]}))
    predict = lowering.Predictor(net, {"w": np.ones(3 * 3 * 8 * 16, dtype)}, platform="cpu")
    with pytest.raises(InferenceError, match=f"expected float32, got {dtype}"):
        predict(data=numbers(2, 8, 8, 8))


def read_again() -> sym.Symbol:
    """Sums with the data, with what is an output, and with what another convolution reads that nothing orders."""
    same = {"kernel": (3, 3), "pad": (1, 1), "num_filter": 64}
    x = sym.Variable("data")
    a = sym.relu(sym.Convolution(x, name="a", **same) + x)
    b = sym.relu(sym.Convolution(a, name="b", **same))
    return sym.Group([sym.Convolution(b, name="c", **same) + a, a, (sym.Convolution(a, name="d", **same) + b) - b])


@pytest.mark.slow("compiles")
@needs_onednn
def test_what_a_sum_is_written_over_is_there_for_others():
    net = read_again()
    args, x = arguments(net, data=(1, 64, 14, 14)), numbers(1, 64, 14, 14)
    predict = lowering.Predictor(net, args, platform="cpu")
    plan = predict.plan_of(data=x.shape)
    sums = [n.name for n in plan.graph.nodes() if n.op and getattr(n.attrs.parsed, "with_addend", False)]
    assert len(sums) == 3, "each is done by a convolution"
    given = jnp.asarray(x)
    found = [np.asarray(out) for out in predict(data=given)]
    expected, _ = lowering.to_jax(net)({**args, "data": x})
    for one, other in zip(found, expected, strict=True):
        assert_close(one, np.asarray(other), 1e-5, "output")
    assert np.array_equal(given, x)


@pytest.mark.slow("compiles")
@pytest.mark.usefixtures("compiled_fully")
@needs_onednn
def test_deviation_relu_of_nan_is_0_in_the_library_as_in_mxnet_and_nan_elsewhere():
    net = sym.relu(sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=64, name="c"))
    data = np.full((1, 64, 8, 8), np.nan, np.float32)
    args = arguments(net, data=data.shape)
    assert np.array_equal(lowering.Predictor(net, args, platform="cpu")(data=data)[0], np.zeros((1, 64, 6, 6)))
    assert np.isnan(lowering.to_jax(net)({**args, "data": data})[0][0]).all()


def test_a_weight_that_lies_in_blocks_in_a_file_keeps_them():
    """It was laid in blocks once more, and refused as no weight of a convolution."""
    weight = np.random.default_rng(0).standard_normal((3, 3, 8, 8)).astype("float32")
    node = {"op": "_fused_convolution", "name": "n", "inputs": [[0, 0, 0], [1, 0, 0]]}
    attrs = {"kernel": "(3,3)", "num_filter": "8", "no_bias": "True", "layout": "b8c8"}
    variables = [{"op": "null", "name": name, "inputs": []} for name in ("x", "w")]
    text = {"nodes": [*variables, node | {"attrs": attrs}], "arg_nodes": [0, 1], "heads": [[2, 0, 0]]}
    net = sym.load_json(json.dumps(text))
    x = np.random.default_rng(1).standard_normal((1, 8, 8, 8)).astype("float32")
    laid = Blocks(8, (3, 3), 8, 8, 1).lay(weight, np).ravel()
    plain = sym._channels_last_convolution(
        sym.Variable("x"), sym.Variable("w"), kernel=(3, 3), num_filter=8, no_bias=True
    )
    expected = lowering.to_jax(plain)({"x": x, "w": weight})[0][0]
    np.testing.assert_allclose(lowering.Predictor(net, {"w": laid})(x=x)[0], expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(InferenceError, match="the pipeline inserts.*Convolution.*'n'"):
        sym._blocked_weight(sym.Variable("w"), layout="b8c64", name="n").infer_shape(w=(576,))
