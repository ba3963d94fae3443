"""Programs that are traced once for sizes that change, and sizes for which they are not."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from lowering import mx
from lowering.host import open_sizes
from lowering.host.open_sizes import OpenTraces
from lowering.host.staged import Staged
from symjax_nnvm import symbol as sym
from tests.support.compilations import compilations

TRACED = [3, 4, 5]
"""The first sizes, of which the last is left open."""


def traced_sizes(function: Callable[[Any], Any], sizes: list[int], entries: Any = ()) -> list[int]:
    """The sizes of arrays (n, 10) for which a function is traced after the first three."""
    seen: list[Any] = []

    def noted(x: Any) -> Any:
        seen.append(x.shape[0])
        return function(x)

    staged = Staged(noted, open_traces=OpenTraces(entries))
    for size in TRACED + sizes:
        x = np.arange(size * 10, dtype="f").reshape(size, 10)
        np.testing.assert_allclose(staged(jnp.asarray(x)), function(x), rtol=1e-6)
    return [size for size in seen if isinstance(size, int) and size not in TRACED]


def test_a_further_size_is_not_traced():
    assert traced_sizes(lambda x: (x * 2 + 1).sum(0) / x.shape[0], [7, 30, 6]) == []


def test_small_sizes_those_of_other_axes_and_those_of_parameters_are_traced_as_numbers():
    net = sym.FullyConnected(sym.Variable("x"), num_hidden=40)
    assert traced_sizes(lambda x: x.T[2:] + 1, [1, 2, 10, 40, 41], net.outputs) == [1, 2, 10, 40]


def test_a_rule_that_asks_for_the_number_is_traced_for_each():
    assert traced_sizes(lambda x: x * 2 if x.shape[0] > 6 else x + 1, [6, 7, 8]) == [6, 7, 8]
    assert traced_sizes(lambda x: x[np.arange(len(x))], [6, 7]) == [6, 7]


def test_where_jax_numbers_its_symbols_in_another_way_each_size_is_traced(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(open_sizes, "number_of", lambda size, numbers: size)
    assert traced_sizes(lambda x: x * 2, [6, 7]) == [6, 7]


def test_two_axes_that_change_are_open_apart():
    staged, counted = Staged(lambda x, y: jnp.dot(x, y), open_traces=OpenTraces()), []
    for rows, columns in ((3, 4), (5, 6), (7, 8), (9, 20), (20, 9), (9, 9)):
        x, y = jnp.ones((rows, 2)), jnp.ones((2, columns))
        with compilations() as seen:
            np.testing.assert_array_equal(staged(x, y), np.full((rows, columns), 2))
        counted.append(bool(seen))
    assert counted == [True, True, True, False, False, True]  # two equal sizes are no two symbols


def perceptron(hybridised: bool) -> Callable[[int], Any]:
    net: Any = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(6, activation="relu", in_units=20), mx.gluon.nn.Dense(4, in_units=6))
    net.initialize(mx.init.Constant(0.5))
    net.hybridize(hybridised)

    def step(n: int) -> Any:
        with mx.autograd.record():
            loss = net(mx.nd.ones((n, 20))).sum()
        loss.backward()
        return net[0].weight.grad().asnumpy() / n

    return step


def slices(n: int) -> Any:
    return mx.nd.ones((50, 10))[:n].sum().asnumpy() / n


def network(door: str) -> Callable[[int], Any]:
    """What a door of `lowering` makes of n rows."""
    net = sym.SoftmaxOutput(sym.FullyConnected(sym.Variable("data"), num_hidden=6, name="fc"), name="softmax")
    args = {"fc_weight": np.full((6, 20), 0.5, "f"), "fc_bias": np.arange(6, dtype="f")}
    trainer, predictor = lowering.Trainer(net), lowering.Predictor(net, args)
    trainer.init(0, args, data=(11, 20))
    compiled = lowering.compile(net)

    def result(n: int) -> Any:
        batch = {"data": np.ones((n, 20), "f"), "softmax_label": np.zeros(n, "f")}
        match door:
            case "compile":
                return np.asarray(compiled(args | batch)[0][0])[0]
            case "Predictor":
                return np.asarray(predictor(data=batch["data"])[0])[0]
            case "predict":
                return trainer.predict([batch])[0][0]
            case "predict without labels":
                return trainer.predict(batch["data"])[0][0]
        trainer.step(batch)
        return np.zeros(1)  # it changes from step to step: test_training_parity has its numbers

    return result


DOORS = [*map(network, ("compile", "Predictor", "step", "predict", "predict without labels"))]


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("door", [perceptron(False), perceptron(True), slices, *DOORS])
def test_what_users_call_traces_no_further_size(door: Callable[[int], Any]):
    first, *_ = [door(n) for n in (11, 12, 13, 14)]
    with compilations() as seen:
        np.testing.assert_allclose(door(33), first, rtol=1e-6)
    assert not seen


def test_what_was_traced_counts_and_is_forgotten():
    traces = OpenTraces()
    for size in TRACED:
        traces.traced(lambda x: x + 1, [jnp.ones((size, 2))])
    assert traces.result(lambda x: x + 1, [jnp.ones((8, 2))]) == jax.ShapeDtypeStruct((8, 2), jnp.float32)
    ((key, family),) = traces._families.items()
    assert family._kept.bytes > 0
    traces.forget(key)
    assert traces.traced(lambda x: x + 1, [jnp.ones((9, 2))]) is None
