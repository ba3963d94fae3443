"""The three backends of a CPU, each by its word in the environment: the same numbers, and each makes its own calls."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import lowering
from lowering.convolutions import backends
from lowering.convolutions.backends import onednn
from lowering.xla.compile_options import options_for
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import CallError
from tests.lowering.convolutions.test_convolutions import GEOMETRIES
from tests.lowering.convolutions.test_onednn import arguments, encoder, residual
from tests.support.comparison import assert_close

HAVE = {
    "0": None,
    "1": onednn.why_not(),
    "xla": onednn.why_not() or (None if backends.xla_makes_calls() else "XLA of this jaxlib makes no calls of oneDNN"),
}
WORDS = [pytest.param(w, marks=pytest.mark.skipif(why is not None, reason=why or "")) for w, why in HAVE.items()]
"""Words of the environment; why a backend is not there."""


def every_geometry() -> sym.Symbol:
    """A convolution with bias and ReLU of each geometry, of data of its own."""
    outputs = []
    for number, g in enumerate(GEOMETRIES.values()):
        steps: dict[str, Any] = {"kernel": g.kernel, "stride": g.stride, "dilate": g.dilate, "pad": g.pad}
        layer = sym.Convolution(
            sym.Variable(f"data{number}"), num_filter=g.filters, num_group=g.groups, name=f"c{number}", **steps
        )
        outputs.append(sym.relu(layer, name=f"r{number}"))
    return sym.Group(outputs)


NETWORKS: dict[str, tuple[sym.Symbol, dict[str, tuple[int, ...]]]] = {
    "every geometry": (
        every_geometry(),
        {f"data{i}": (g.batch, g.channels, *g.size) for i, g in enumerate(GEOMETRIES.values())},
    ),
    "residual": (residual(), {"data": (2, 8, 6, 6)}),
    "encoder": (encoder(), {"data": (4, 24, 96)}),
}


@cache
def known(name: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], list[np.ndarray]]:
    """The arguments of a network, its data, and its outputs by XLA alone."""
    net, shapes = NETWORKS[name]
    rng = np.random.default_rng(0)
    data = {input: rng.standard_normal(shape).astype(np.float32) for input, shape in shapes.items()}
    args = arguments(net, **shapes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SYMJAX_NNVM_ONEDNN", "0")
        outputs, _ = lowering.compile(net)({**args, **data}, {})
    return args, data, [np.asarray(output) for output in outputs]


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_predictor_computes_the_network(name: str, word: str, monkeypatch: pytest.MonkeyPatch):
    args, data, expected = known(name)
    monkeypatch.setenv("SYMJAX_NNVM_ONEDNN", word)
    outputs = lowering.Predictor(NETWORKS[name][0], args)(**data)
    for number, (found, right) in enumerate(zip(outputs, expected, strict=True)):
        assert_close(np.asarray(found), right, 1e-5, f"output {number}")


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("word", WORDS)
def test_an_executor_computes_the_gradients(word: str, monkeypatch: pytest.MonkeyPatch):
    (net, _), (args, data, _) = NETWORKS["residual"], known("residual")
    loss = sym.make_loss(sym.sum(net[0] * net[0]))

    def gradients() -> dict[str, Any]:
        shapes: dict[str, Any] = {name: array.shape for name, array in (args | data).items()}
        executor = lowering.simple_bind(loss, **shapes)
        executor.copy_params_from(args | data, allow_extra_params=True)
        executor.forward(is_train=True)
        executor.backward()
        return {name: np.asarray(array) for name, array in executor.grad_dict.items()}

    monkeypatch.setenv("SYMJAX_NNVM_ONEDNN", "0")
    expected = gradients()
    monkeypatch.setenv("SYMJAX_NNVM_ONEDNN", word)
    for name, found in gradients().items():
        assert_close(found, expected[name], 1e-5, name)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("word", WORDS)
def test_each_makes_its_own_calls(word: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SYMJAX_NNVM_ONEDNN", word)
    net = sym.Convolution(sym.Variable("data"), kernel=(3, 3), pad=(1, 1), num_filter=64, no_bias=True, name="conv")
    net = sym.Convolution(net, kernel=(3, 3), pad=(1, 1), num_filter=64, no_bias=True, num_group=64, name="apart")
    args = arguments(net, data=(2, 64, 28, 28))
    predict = lowering.Predictor(net, args, platform="cpu").warm(data=(2, 64, 28, 28))
    graph = predict.plan_of(data=(2, 64, 28, 28)).graph
    assert ("library" in set(graph.attrs["algorithm"].values())) == (word == "1")
    ((_, ready),) = predict._prepared_ones()
    program: Any = ready.executable
    assert ("onednn$conv" in getattr(program, "_executable", program).executable.as_text()) == (word != "0")


def test_another_word_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SYMJAX_NNVM_ONEDNN", "off")
    with pytest.raises(CallError, match="SYMJAX_NNVM_ONEDNN.*'off'.*'0', '1', 'xla'"):
        lowering.to_jax(sym.relu(sym.Variable("data")))({"data": np.ones(2)})


def test_the_options_that_programs_with_our_calls_need_are_known():
    """They were not: jaxlib takes "False" for a word of this option, and not "false"."""
    assert (options_for("cpu") or {})["xla_cpu_experimental_onednn_custom_call"] == "False"
