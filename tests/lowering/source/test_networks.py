"""Networks that are printed run where this library is not, and are the same functions."""

import ast
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from lowering import mx
from lowering.source.equations import Body, ComputedArray, Equation, merge_equal
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import LoweringError, SymbolValueError
from tests.lowering.source.networks import bidirectional, branches, lenet, residual, unrolled
from tests.support.printed import Child, well_formed
from tests.support.traced import evaluated


def values(net: Any, shapes: dict[str, tuple[int, ...]], dtype: str = "float32") -> tuple[dict, dict]:
    rng = np.random.RandomState(3)
    args, _, aux = net.infer_shape(**shapes)
    named = zip(net.list_arguments(), args, strict=True), zip(net.list_auxiliary_states(), aux, strict=True)
    drawn = [{name: rng.uniform(0.1, 0.9, shape).astype(dtype) - 0.4 for name, shape in each} for each in named]
    return drawn[0], {name: array + 1 for name, array in drawn[1].items()}


@pytest.mark.slow("compiles")
def test_lenet_in_training_has_mxnets_gradient(child: Child):
    net = lenet()
    shapes = {"data": (4, 1, 10, 10), "softmax_label": (4,)}
    args, _ = values(net, shapes)
    args["softmax_label"] = np.array([0, 3, 1, 4], "float32")
    source = lowering.to_source(net, shapes=shapes)
    well_formed(source)
    params = {name: array for name, array in args.items() if name not in shapes}
    heads = [np.ones((4, 5), "float32")]
    outputs, _, grads = child.run(source, params, [args["data"], args["softmax_label"]], heads=heads, compiled=True)
    expected, ours, _ = evaluated(lowering.grad_fn(net, [*sorted(params), "data"], platform="any"), args)
    assert grads is not None
    np.testing.assert_allclose(outputs[0], expected[0], rtol=1e-6)
    for name, gradient in zip([*sorted(params), "data"], grads, strict=False):  # the label has none
        assert gradient is not None
        np.testing.assert_allclose(gradient, ours[name], rtol=2e-5, atol=1e-6, err_msg=name)


@pytest.mark.slow("compiles")
def test_equal_blocks_are_one_function_in_a_loop_and_states_come_back(child: Child):
    net = residual(4)
    args, aux = values(net, {"data": (2, 3, 6, 6)})
    source = lowering.to_source(net, aux=aux, shapes={"data": ("batch", 3, 6, 6)})
    well_formed(source)
    assert "for i in range(4):" in source
    assert len(source.splitlines()) < 85
    params = {name: array for name, array in args.items() if name != "data"} | aux
    for is_train in (False, True):
        outputs, states, _ = child.run(source, params, [args["data"]], train=is_train, seed=7)
        expected, new = evaluated(lowering.to_jax(net, is_train=is_train, platform="any"), args, aux, jax.random.key(7))
        np.testing.assert_allclose(outputs[0], expected[0], rtol=1e-5, atol=1e-6)
        assert states.keys() == (new.keys() if is_train else set())
        for name in states:
            np.testing.assert_allclose(states[name], new[name], rtol=1e-6, err_msg=name)


@pytest.mark.slow("starts a process")
def test_blocks_that_differ_in_names_numbers_and_windows_are_one_function(child: Child):
    net = branches(3)
    args, _ = values(net, {"data": (2, 3, 5, 5)})
    source = lowering.to_source(net, shapes={"data": ("batch", 3, 5, 5)})
    well_formed(source)
    assert re.search(r"def \w+\(p, name, x, conv, padding=\"VALID\"\):", source), source
    assert len(source.splitlines()) < 60
    outputs, _, _ = child.run(source, {n: a for n, a in args.items() if n != "data"}, [args["data"]])
    expected, _ = evaluated(lowering.to_jax(net, platform="any"), args)
    np.testing.assert_allclose(outputs[0], expected[0], rtol=1e-5, atol=1e-5)


def test_what_calls_share_is_a_default_unless_it_has_an_open_size():
    net = sym.Variable("data")
    for i, count in enumerate((4, 4, 6)):
        net = sym.Dropout(sym.FullyConnected(net, num_hidden=count, name=f"fc{i}"), p=0.3, name=f"drop{i}")
    fixed, opened = (lowering.to_source(net, shapes={"data": (n, 4)}) for n in (2, "batch"))
    assert "train, key, shape=(2, 4)):" in fixed
    assert "(x, value, shape, train, key):" in opened
    for source in (fixed, opened):
        well_formed(source)


def test_a_table_is_no_default_and_long_names_are_broken():
    options = {"kernel": (3, 3), "pad": (1, 1), "pool_type": "avg", "count_include_pad": False}
    net = sym.Variable("data")
    for i in range(4):
        net = sym.Pooling(net, **options, name=f"{'long_' * 30}{i}")
        net = sym.InstanceNorm(net, name=f"{'long_' * 30}{'abcd'[i]}")
        net = net if i else sym.Pooling(net, kernel=(1, 2), pool_type="max", name="smaller")
    source = lowering.to_source(net, shapes={"data": (1, 2, 3, 4)})
    well_formed(source)
    assert "jnp.array(table, jnp.float32)" in source
    assert '_long_"\n' in source


@pytest.mark.nightly("every case", but_one_in=2)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    ("cell", "most"), [("LSTMCell", 95), ("GRUCell", 95), ("RNNCell", 80), ("BidirectionalCell", 115)]
)
def test_the_steps_of_an_unrolled_network_are_a_loop_for_each_layer(child: Child, cell: str, most: int):
    shapes = {"data": (2, 7), "softmax_label": (2, 7)}
    net = bidirectional(7) if cell == "BidirectionalCell" else unrolled(cell, 7)
    source = lowering.to_source(net, shapes={"data": ("batch", 7), "softmax_label": ("batch", 7)})
    well_formed(source)
    assert source.count("    for i in range(7):\n") == 2
    assert source.count("    for i in range(6, -1, -1):\n") == 2 * (cell == "BidirectionalCell")
    assert len(source.splitlines()) < most
    args, _ = values(net, shapes)
    args |= {name: np.arange(14).reshape(2, 7).astype("float32") % 9 for name in shapes}
    params = {name: array for name, array in args.items() if name not in shapes}
    heads = [np.ones((14, 9), "float32")]
    outputs, _, grads = child.run(source, params, [args[name] for name in shapes], heads=heads, compiled=True)
    expected, ours, _ = evaluated(lowering.grad_fn(net, sorted(params), platform="any"), args)
    assert grads is not None
    np.testing.assert_allclose(outputs[0], expected[0], rtol=1e-6)
    for name, gradient in zip(sorted(params), grads, strict=False):
        assert gradient is not None
        np.testing.assert_allclose(gradient, ours[name], rtol=2e-5, atol=1e-6, err_msg=name)


@pytest.mark.slow("compiles")
def test_outputs_of_equal_names_come_each(child: Child):
    outputs, states = mx.rnn.LSTMCell(2, prefix="cell_").unroll(5, mx.sym.Variable("data"), merge_outputs=False)
    net = mx.sym.Group([*outputs, *states])
    source = lowering.to_source(net, shapes={"data": (2, 5, 3)})
    well_formed(source)
    args, _ = values(net, {"data": (2, 5, 3)})
    got, _, _ = child.run(source, {n: a for n, a in args.items() if n != "data"}, [args["data"]])
    expected, _ = evaluated(lowering.to_jax(net, platform="any"), args)
    assert len(got) == len(expected) == 7
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.slow("compiles")
def test_what_8_bit_layers_hand_on_together_is_a_tuple_and_their_blocks_are_functions(child: Child):
    net = sym.Variable("data")
    for i in range(3):
        net = sym.FullyConnected(net, num_hidden=4, flatten=False, name=f"fc{i}")
        net = sym.Activation(net, act_type="relu", name=f"relu{i}")
    args, _ = values(net, {"data": (2, 4)})
    data = args.pop("data")
    quantized = nn.quantize(net, args, calibration=[data], mode="naive")
    source = lowering.to_source(*quantized, shapes={"data": ("batch", 4)})
    well_formed(source)
    assert "= contrib_quantized_act(*" in source
    outputs, _, _ = child.run(source, quantized.args, [data])
    expected, _ = evaluated(lowering.to_jax(quantized.net, platform="any"), {**quantized.args, "data": data})
    assert np.array_equal(outputs[0], np.asarray(expected[0]))


def test_a_large_table_has_what_is_not_zero(child: Child):
    net = sym.contrib.BilinearResize2D(sym.Variable("data"), height=80, width=4, name="resize")
    source = lowering.to_source(net, shapes={"data": (1, 1, 60, 2)})
    well_formed(source)
    assert "jnp.zeros(4800, jnp.float32).at[numbers].set(numbers_2).reshape((80, 60))" in source
    args, _ = values(net, {"data": (1, 1, 60, 2)})
    outputs, _, _ = child.run(source, {}, [args["data"]])
    expected, _ = evaluated(lowering.to_jax(net, platform="any"), args)
    np.testing.assert_allclose(outputs[0], expected[0], rtol=1e-6, atol=1e-7)


@pytest.mark.slow("compiles")
def test_in_float64_outputs_have_the_same_bits(child: Child):
    net = lenet()
    args, _ = values(net, {"data": (2, 1, 10, 10)}, "float64")
    del args["softmax_label"]
    with jax.enable_x64(True):
        params = {name: array for name, array in args.items() if name != "data"}
        source = lowering.to_source(net, params, shapes={"data": (2, 1, 10, 10)}, dtypes={"data": "float64"})
        outputs, _, _ = child.run(source, params, [args["data"]])
        expected, _ = lowering.to_jax(nn.inference_symbol(net), platform="any")(args)
    assert np.array_equal(outputs[0], expected[0])


def test_a_foreach_is_a_scan(child: Child):
    def step(x: Any, state: Any) -> tuple[Any, Any]:
        new = sym.tanh(x + state)
        return new * 2, new

    outputs, last = sym.contrib.foreach(step, sym.Variable("data"), sym.Variable("start"))
    net = sym.Group([outputs, last])
    shapes = {"data": (5, 3), "start": (3,)}
    source = lowering.to_source(net, shapes=shapes)
    well_formed(source)
    assert "lax.scan(" in source
    args, _ = values(net, shapes)
    got, _, _ = child.run(source, {}, [args[name] for name in net.list_arguments()])
    expected, _ = evaluated(lowering.to_jax(net, platform="any"), args)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.slow("compiles")
def test_an_operator_in_a_loop_has_its_own_gradient(child: Child):
    def step(x: Any, label: Any) -> tuple[Any, Any]:
        scores = sym.FullyConnected(x, num_hidden=3, name="scores")
        fixed = sym.sum(sym.BlockGrad(scores), axis=1, keepdims=True)
        return sym.broadcast_add(sym.SoftmaxOutput(scores, label, name="softmax"), fixed), label

    outputs, _ = sym.contrib.foreach(step, sym.Variable("data"), sym.Variable("label"))
    shapes = {"data": (4, 2, 3), "label": (2,)}
    args, _ = values(outputs, shapes)
    args["label"] = np.array([2, 0], "float32")
    source = lowering.to_source(outputs, shapes=shapes)
    well_formed(source)
    params = {name: array for name, array in args.items() if name not in shapes}
    heads = [np.ones((4, 2, 3), "float32")]
    _, _, grads = child.run(
        source, params, [args[n] for n in outputs.list_arguments() if n in shapes], heads=heads, compiled=True
    )
    _, ours, _ = evaluated(lowering.grad_fn(outputs, sorted(params), platform="any"), args)
    for name, gradient in zip(sorted(params), grads or (), strict=False):
        assert gradient is not None
        np.testing.assert_allclose(gradient, ours[name], rtol=2e-5, atol=1e-6, err_msg=name)


def test_files_that_python_or_numpy_would_take_for_others_have_other_names(tmp_path: Path):
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=2, no_bias=True, name="fc")
    args = {"fc_weight": np.ones((2, 3), "float32")}
    code, _ = nn.Model(net, args).to_jax_source(tmp_path / "json", {"data": (1, 3)})
    assert code.name == "json_2.py"
    for name in ("fc_weight.npy", "a\0b"):
        other = nn.rename(net, {"fc_weight": name})
        with pytest.raises(SymbolValueError, match="npz cannot have arrays"):
            nn.Model(other, {name: args["fc_weight"]}).to_jax_source(tmp_path / "net", {"data": (1, 3)})


def test_what_a_loop_does_not_read_is_not_written():
    net = sym.Correlation(sym.Variable("a"), sym.Variable("b"), kernel_size=1, max_displacement=1, pad_size=1)
    well_formed(lowering.to_source(net, shapes={"a": (1, 2, 4, 5), "b": (1, 2, 4, 5)}, wrt=["a", "b"]))


def test_bfloat16_weights_come_back_from_their_file(tmp_path: Path):
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=2, name="fc")
    args = {"fc_weight": np.full((2, 3), 0.3, jnp.bfloat16), "fc_bias": np.ones(2, "float32")}
    code, weights = nn.Model(net, args).to_jax_source(tmp_path / "net", {"data": (1, 3)}, dtypes={"data": "bfloat16"})
    well_formed(code.read_text())
    namespace: dict[str, Any] = {"__name__": "net"}
    exec(code.read_text(), namespace)
    loaded = namespace["load"](weights)
    assert {name: array.dtype.name for name, array in loaded.items()} == {"fc_weight": "bfloat16", "fc_bias": "float32"}
    assert np.array_equal(loaded["fc_weight"], args["fc_weight"])


@pytest.mark.slow("compiles")
def test_the_gradient_of_a_network_is_a_program_too(child: Child):
    net = lenet()
    shapes = {"data": (2, 1, 10, 10), "softmax_label": (2,)}
    args, _ = values(net, shapes)
    source = lowering.to_source(net, shapes=shapes, wrt=["conv1_weight", "fc_bias"])
    well_formed(source)
    params = {name: array for name, array in args.items() if name not in shapes}
    got, _, _ = child.run(source, params, [args["data"], args["softmax_label"]])
    expected, grads, _ = evaluated(lowering.grad_fn(net, ["conv1_weight", "fc_bias"], platform="any"), args)
    for one, other in zip(got, [*expected, *grads.values()], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.slow("starts a process")
def test_steps_of_slices_pairs_of_matrices_and_groups_are_printed(child: Child):
    x = sym.Convolution(sym.Variable("data"), kernel=(1, 1), num_filter=4, num_group=2, no_bias=True, name="conv")
    x = sym.slice(x, begin=(None, None, 1, 0), end=(None, None, 4, 1), step=(None, None, 2, 1))
    x = sym.squeeze(sym.expand_dims(x, axis=0), axis=(0, 4))
    net = sym.batch_dot(x, x, transpose_b=True)
    args, _ = values(net, {"data": (2, 6, 5, 3)})
    source = lowering.to_source(net, shapes={"data": (2, 6, 5, 3)}, wrt=["conv_weight"])
    head = np.arange(32, dtype="float32").reshape(2, 4, 4)
    got, _, _ = child.run(source, {"conv_weight": args["conv_weight"]}, [args["data"], head], compiled=True)
    gradient = lowering.grad_fn(net, ["conv_weight"], platform="any")
    expected, grads, _ = evaluated(gradient, args, head_grads=[head])
    for one, other in zip(got, [*expected, grads["conv_weight"]], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.slow("starts a process")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_of_outputs_have_their_dtypes(child: Child, dtype: str):
    net = sym.tanh(sym.FullyConnected(sym.Variable("data"), num_hidden=2, name="fc"))
    args = {"data": np.ones((3, 2)), "fc_weight": np.full((2, 2), 0.25), "fc_bias": np.ones(2)}
    args = {name: array.astype(jnp.dtype(dtype)) for name, array in args.items()}
    params = {name: array for name, array in args.items() if name != "data"}
    source = lowering.to_source(net, params, shapes={"data": (3, 2)}, dtypes={"data": dtype}, wrt=["fc_weight"])
    head = np.ones((3, 2), jnp.dtype(dtype))
    got, _, _ = child.run(source, params, [args["data"], head])
    expected, gradients, _ = lowering.grad_fn(net, ["fc_weight"], platform="any")(args, head_grads=[head])
    for one, other in zip(got, [*expected, gradients["fc_weight"]], strict=True):
        assert one.dtype == dtype
        np.testing.assert_allclose(one.astype("float32"), np.asarray(other, "float32"), rtol=2**-7)


HOSTILE = (
    *('x"); import os; ("', "class", "jnp", "lax", "params", "数据", "a.b", "a-b", "a(, b", "f(a, )", "train", "p = q"),
    *("{name}", "\\", "\n", "for", "long_" * 60, "split[0], split[1]", "0", ""),
)
"""Names of nodes in a file: code, words with a meaning, and such as are equal once they are identifiers."""


def test_names_from_files_are_data(child: Child):
    net = sym.Variable("data")
    for i, name in enumerate(HOSTILE):
        weight = sym.Variable(f"{name} weight")
        net = sym.FullyConnected(net, weight, no_bias=True, num_hidden=2, name=name or f"none{i}")
    args, _ = values(net, {"data": (1, 2)})
    args = {name: array + 1 for name, array in args.items()}
    source = lowering.to_source(net, shapes={"data": (1, 2)})
    well_formed(source)
    assert "from jax import lax" not in source
    assert "import os" not in {ast.unparse(node) for node in ast.walk(ast.parse(source))}
    outputs, _, _ = child.run(source, {n: a for n, a in args.items() if n != "data"}, [args["data"]])
    expected, _ = evaluated(lowering.to_jax(net, platform="any"), args)
    np.testing.assert_allclose(outputs[0], expected[0], rtol=1e-5)


def test_strings_with_quotes_are_as_ruff_has_them_and_two_variables_of_one_name_are_one_argument(child: Child):
    net = sym.Variable("data")
    for i in range(3):
        weight = sym.Variable(f'{"abc"[i]} for "quoted" in it')
        net = sym.FullyConnected(net, weight, no_bias=True, num_hidden=2, name=f"fc{i}") + sym.Variable("data")
    source = lowering.to_source(net, shapes={"data": (1, 2)})
    well_formed(source)
    args, _ = values(net, {"data": (1, 2)})
    outputs, _, _ = child.run(source, {n: a for n, a in args.items() if n != "data"}, [args["data"]])
    expected, _ = evaluated(lowering.to_jax(net, platform="any"), args)
    np.testing.assert_allclose(outputs[0], expected[0], rtol=1e-6)


def counted() -> Any:
    """A loop of which a step reads elements, not its number, and adds equal numbers twice."""

    def step(x: Any, state: Any) -> Any:
        return sym.tanh(x + state), x * 1 + state

    return sym.Group([*sym.contrib.foreach(step, sym.Variable("data"), sym.Variable("init"), name="loop")])


def recurrent() -> Any:
    """An LSTM as Gluon exports it: its weights are flattened and put together, for RNN to take them apart."""
    names = [f"lstm_{cell}_{part}" for part in ("weight", "bias") for cell in ("i2h", "h2h")]
    shapes = ((8, 3), (8, 2), (8,), (8,))
    flat = [sym.Variable(name, shape=shape).reshape(-1) for name, shape in zip(names, shapes, strict=True)]
    states = [sym.zeros((1, 4, 2), name=f"state{i}") for i in range(2)]
    data, joined = sym.Variable("data"), sym.concat(*flat, dim=0)
    return sym.RNN(data, joined, *states, mode="lstm", state_size=2, num_layers=1, name="cells")


def pyramid() -> Any:
    """Scores and boxes of the features of five levels, as of a detector."""
    x, features, scores = sym.Variable("data"), [], []
    for i in range(5):
        features.append(sym.relu(sym.FullyConnected(x, num_hidden=3, name=f"level{i}"), name=f"level{i}_relu"))
        x = sym.FullyConnected(features[-1], num_hidden=3, name=f"down{i}")
        scores.append(sym.tanh(sym.FullyConnected(features[-1], num_hidden=2, name=f"score{i}"), name=f"score{i}_tanh"))
    boxes = [sym.sigmoid(sym.FullyConnected(f, num_hidden=4, name=f"box{i}")) for i, f in enumerate(features)]
    boxes = [sym.FullyConnected(box, num_hidden=2, name=f"box{i}_out") for i, box in enumerate(boxes)]
    return sym.Group([sym.concat(*scores, dim=1), sym.concat(*boxes, dim=1), x])


def chain(count: int) -> Any:
    """Nodes without names, in a row of equal steps."""
    x = sym.Variable("data")
    for _ in range(count):
        x = (x + 0.5) * sym.sigmoid(x)
    return x


def normalized_loop() -> Any:
    """A loop whose step is another one in training."""

    def step(x: Any, state: Any) -> Any:
        y = sym.BatchNorm(x, name="norm")
        return y + state, sym.tanh(y)

    return sym.Group([*sym.contrib.foreach(step, sym.Variable("data"), sym.Variable("init"))])


def strided() -> Any:
    x = sym.Variable("data")
    for i in range(3):
        x = sym.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max", name=f"pool{i}")
        x = sym.InstanceNorm(x, name=f"norm{i}")
    return sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max", pooling_convention="full")


AS_WRITTEN = (
    (chain(120), {"data": (2, 3)}, "    y = data\n    for _ in range(120):\n        y = block(y)\n    return y\n"),
    (
        sym.Pooling(sym.Variable("data"), kernel=(2, 2), stride=(2, 2), pool_type="avg", name="pool"),
        {"data": (1, 3, 2, 2)},
        "pool = jnp.mean(data, axis=(2, 3), keepdims=True)",
    ),
    (normalized_loop(), {"data": (4, 2, 3), "init": (2, 3)}, "    if train:\n\n        def step(carry, item):"),
    (strided(), {"data": ("n", 3, "h", "w")}, "# (n, 3, (h - 1) // 2 // 2 // 2 + 1, "),
    (sym.Group([sym.Variable("data"), sym.Variable("w", shape=(2,))]), {"data": (2, 3)}, 'return (data, params["w"])'),
    (pyramid(), {"data": (2, 3)}, '(params, f"box{i}", all_level_relu[i])'),
    (sym.contrib.box_nms(sym.Variable("data")), {"data": (1, 4, 6)}, 'part_11[:, None], axis=1, mode="clip")'),
    (
        sym.Pooling(sym.concat(sym.Variable("a"), sym.Variable("b"), name="both"), kernel=(2, 2), pool_type="max"),
        {"a": (1, 2, 4, 4), "b": (1, 2, 4, 4)},
        "both = jnp.concatenate([a, b], axis=1)",
    ),
    (sym.sum(sym.cast(sym.Variable("data"), "int32"), axis=1), {"data": (2, 3)}, "axis=1, dtype=jnp.int32)"),
    (sym.Variable("data") * 1e38, {"data": (2, 3)}, "data * 1e38"),
    (sym.Variable("label") - sym.relu(sym.Variable("label")), {"label": (2,)}, "def forward(params, label):"),
    (recurrent(), {"data": (5, 4, 3)}, 'cells = rnn(params, "lstm", data, state0, state0)'),
    (recurrent(), {"data": (5, 4, 3)}, 'p[f"{name}_h2h_weight"] @ part'),
    (
        sym.contrib.MultiBoxPrior(sym.Variable("data"), sizes=(0.2, 0.3), ratios=(1, 2, 0.5)),
        {"data": (1, 8, 50, 50)},
        "jnp.broadcast_to(numbers[:, None] - numbers_2, (50, 50, 4))",
    ),
    (sym.Dropout(sym.Variable("data")), {"data": (2, 3)}, "draws = jax.random.uniform("),
    (sym.argsort(sym.Variable("data"), axis=1), {"data": (2, 3)}, "jnp.argsort(x, axis=1, stable=True)"),
    (
        sym.pick(sym.Variable("data"), sym.Variable("at")),
        {"data": (2, 3), "at": (2,)},
        "jnp.take_along_axis(data, smaller, axis=1, mode=",
    ),
    (
        sym.take(sym.Variable("data"), sym.Variable("at"), axis=1),
        {"data": (2, 3), "at": (4,)},
        'jnp.take(data, at.astype(jnp.int32), axis=1, mode="clip")',
    ),
    (
        sym.SoftmaxOutput(sym.Variable("data"), name="net"),
        {"data": ("n", 4), "net_label": ("n",)},
        "equal = jnp.arange(4, dtype=jnp.int32) == chosen[:, None]",
    ),
    (
        sym.contrib.box_nms(sym.Variable("data")),
        {"data": (2, 4, 6)},
        'jnp.take_along_axis(fixed, order[:, :, None], axis=1, mode="clip")',
    ),
    (
        counted(),
        {"data": (4, 2), "init": (2,)},
        "def step(carry, item):\n        shifted = item + carry\n        return shifted, jnp.tanh(shifted)",
    ),
    (
        sym.BatchNorm(sym.Variable("data"), name="norm"),
        {"data": (2, 3, 4, 4)},
        'states[f"{name}_moving_mean"] = lax.stop_gradient(moving_mean)',
    ),
    (
        sym.contrib.arange_like(sym.relu(sym.Variable("data")), axis=1) + sym.Variable("bias"),
        {"data": (2, 3), "bias": (3,)},
        'def forward(params, data, bias):\n    """data (2, 3), bias (3,) -> (3,)."""\n    arange_like0 =',
    ),
)
"""Networks, the shapes of their inputs, and lines of their modules: as a person would write them."""


@pytest.mark.slow("prints networks")
@pytest.mark.parametrize(
    ("net", "shapes", "text"), AS_WRITTEN, ids=lambda value: value[:24] if isinstance(value, str) else ""
)
def test_modules_have_what_a_person_would_write(net: Any, shapes: Any, text: str):
    with sym.NameManager():
        source = lowering.to_source(net, shapes=shapes)
    well_formed(source)
    assert text in source, source
    assert "dimension_numbers" not in source


def test_equal_equations_are_those_with_equal_parameters():
    data = ComputedArray((2,), np.float32)
    tables = [np.arange(2000), np.arange(2000), np.arange(2000)]
    tables[1][1000] = 0  # which NumPy leaves out of a text
    results = [ComputedArray((2,), np.float32) for _ in range(5)]
    for result, params in zip(results, [*({"table": table} for table in tables), {"n": 1}, {"n": 1}], strict=True):
        result.made_by = Equation("f", [data], [result], params)
    body = Body([data], [*results])
    merge_equal(body, {})
    assert len({*map(id, body.results[:3])}) == 3
    assert body.results[3] is body.results[4]


@mx.operator.register("printed_doubled")
class Doubled(mx.operator.CustomOpProp):
    """A user's operator in Python, of one input and one output."""


def test_a_users_python_is_refused_with_the_way_out():
    doubled = sym.Custom(sym.Variable("data"), op_type="printed_doubled", name="mine")
    with pytest.raises(LoweringError, match="mine.*cannot be printed|cannot be printed.*mine") as caught:
        lowering.to_source(doubled, shapes={"data": (2, 3)})
    assert "lowering.to_jax" in str(caught.value)
