"""Files that MXNet 1.9.1 exported under `npx.set_np()`: they load, infer, run, train and are saved byte for byte."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from lowering import mx
from symjax_nnvm.symbol import Symbol
from tests.support.comparison import assert_close
from tests.support.traced import evaluated

FILES = Path(__file__).parents[1] / "goldens" / "numpy_files"
NETWORKS = sorted(path.name.removesuffix("-symbol.json") for path in FILES.glob("*-symbol.json"))
VALUES = np.load(FILES / "values.npz")

each_network = pytest.mark.parametrize("name", NETWORKS)


@cache
def symbol_of(name: str) -> Symbol:
    return nn.symbol.load(FILES / f"{name}-symbol.json")


def outputs_of(name: str) -> list[np.ndarray]:
    return [VALUES[key] for key in VALUES if key.startswith(f"{name}|y")]


def inputs_of(name: str) -> dict[str, np.ndarray]:
    names = [n for n in symbol_of(name).list_arguments() if n.startswith("data")]
    return {n: VALUES[f"{name}|x{i}"] for i, n in enumerate(names)}


@each_network
def test_is_saved_byte_for_byte(name: str):
    text = (FILES / f"{name}-symbol.json").read_text(encoding="utf-8")
    assert json.loads(text)["attrs"]["is_np_shape"] == ["int", 1]
    assert symbol_of(name).tojson() == text
    with mx.np_shape():
        assert mx.sym.load_json(text).tojson() == text


@each_network
def test_infers_the_shapes_that_mxnet_has(name: str):
    arguments, outputs, _ = symbol_of(name).infer_shape(**{n: x.shape for n, x in inputs_of(name).items()})
    given = dict(zip(symbol_of(name).list_arguments(), arguments, strict=True))
    assert outputs == [y.shape for y in outputs_of(name)]
    assert {n: shape for n, shape in given.items() if f"{name}|grad|{n}" in VALUES} == {
        n.split("|")[2]: VALUES[n].shape for n in VALUES if n.startswith(f"{name}|grad|")
    }


@pytest.mark.slow("compiles")
@each_network
def test_runs_and_has_gradients_as_in_mxnet(name: str):
    net = symbol_of(name)
    _, arrays, aux = nn.load_checkpoint(FILES / name, 0)
    args = {n: np.asarray(a) for n, a in arrays.items()} | inputs_of(name)
    aux = {n: np.asarray(a) for n, a in aux.items()}
    outputs, _ = evaluated(lowering.to_jax(net, is_train=False), args, aux)
    for output, y in zip(outputs, outputs_of(name), strict=True):
        assert_close(output, y, 1e-5, "output")
    parameters = [n for n in arrays if f"{name}|grad|{n}" in VALUES]
    heads, _ = evaluated(lowering.to_jax(net, is_train=True), args, aux)
    _, grads, _ = evaluated(lowering.grad_fn(net, parameters), args, aux, head_grads=heads)
    for parameter in parameters:
        assert_close(grads[parameter], VALUES[f"{name}|grad|{parameter}"], 1e-4, f"gradient of {parameter}")


@pytest.mark.parametrize(
    ("op", "params", "inputs", "count"),
    [  # MXNet 1.9.1's numbers
        ("_npi_average", {}, 2, 2),
        ("_npi_eigh", {}, 1, 2),
        ("_npi_exponential", {}, 0, 2),
        ("_npi_norm", {}, 1, 4),
        ("_npi_normal", {"loc": 0.0, "scale": 1.0}, 0, 2),
        ("_npi_std", {}, 1, 2),
        ("_npi_svd", {}, 1, 3),
        ("_npi_uniform", {"low": 0.0, "high": 1.0}, 0, 1),
    ],
)
def test_hidden_outputs_are_counted_as_mxnet_does(op: str, params: dict[str, float], inputs: int, count: int):
    net = getattr(nn.symbol, op)(*(nn.symbol.Variable(f"x{i}") for i in range(inputs)), **params)
    rows = json.loads(net.tojson())["node_row_ptr"]
    assert rows[-1] - rows[-2] == count


def test_a_network_with_other_names_is_in_the_mode_of_its_file():
    part = nn.rename(symbol_of("a_number"), {"data": "x"})
    assert json.loads(part.tojson())["attrs"]["is_np_shape"] == ["int", 1]
    assert part.infer_shape(x=(2, 4))[1] == [()]


@pytest.mark.parametrize("name", ["hybrid_net", "arithmetic"])
def test_trains_as_a_symbol_block(name: str):
    with mx.np_shape():
        net = mx.gluon.SymbolBlock.imports(
            str(FILES / f"{name}-symbol.json"), ["data"], str(FILES / f"{name}-0000.params")
        )
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})
        x = mx.nd.array(VALUES[f"{name}|x0"])
        before = {n: p.data().asnumpy() for n, p in net.collect_params().items()}
        with mx.autograd.record():
            half = (net(x) ** 2).sum() / 2
        half.backward()
        trainer.step(1)
    for n, parameter in net.collect_params().items():
        assert_close(parameter.data().asnumpy(), before[n] - 0.01 * VALUES[f"{name}|grad|{n}"], 1e-5, n)
