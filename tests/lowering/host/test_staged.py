"""When a program is evaluated, and when it is compiled."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import lowering
from lowering import mx
from lowering.host import staged as staged_module
from lowering.host.staged import Staged
from lowering.xla.compile_options import options_for
from lowering.xla.program_bound import Kept, jitted
from symjax_nnvm.errors import CallError
from tests.support.compilations import compilations

ONES = jnp.ones((3, 4))


def compiled_calls(function: Any, calls: int, *args: Any) -> list[int]:
    """The numbers of the calls that compiled something."""
    found = []
    for i in range(calls):
        with compilations(traces=False) as seen:
            function(*args)
        found += [i] * bool(seen)
    return found


def test_a_signature_is_compiled_when_its_calls_have_cost_a_part_of_compiling():
    functions = [Staged(lambda x: jnp.tanh(x) * 2) for _ in range(2)]
    moved = [compiled_calls(staged, 480, ONES) for staged in functions]
    assert moved[0] == moved[1]  # by counts, so the same each time
    assert 80 < moved[0][0] < 480
    staged = functions[0]
    assert compiled_calls(staged, 3, ONES) == []
    assert compiled_calls(staged, 3, ONES[:2]) == []  # another signature begins anew


@pytest.mark.slow("compiles")
def test_work_that_would_take_longer_than_compiling_is_compiled_at_once():
    assert compiled_calls(Staged(lambda x: jax.lax.fori_loop(0, 10**6, lambda i, s: s + 1, x)), 1, ONES) == [0]
    assert compiled_calls(Staged(jnp.linalg.cholesky), 1, jnp.eye(3)) == [0]


@pytest.mark.slow("compiles twice")
def test_what_is_not_evaluated_and_compiles_long_is_compiled_quickly_first(monkeypatch: pytest.MonkeyPatch):
    def step(x: Any) -> Any:
        return jnp.linalg.cholesky(x), jax.random.normal(jax.random.key(0), (3,)), jax.random.uniform(jax.random.key(1))

    monkeypatch.setattr(staged_module, "_MOST", 4)
    assert compiled_calls(Staged(step), 6, jnp.eye(3)) == [0, 4]
    monkeypatch.setattr(staged_module, "_LONG", 1e9)
    assert compiled_calls(Staged(step), 6, jnp.eye(3)) == [0]


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(("size", "compiled"), [(3, [0, 4]), (300_000, [0])])
def test_what_compiles_long_is_compiled_quickly_where_its_calls_cost_little(
    size: int, compiled: list[int], monkeypatch: pytest.MonkeyPatch
):
    def step(x: Any) -> Any:
        for _ in range(400):
            x = x * 0.5 + x  # cheap: the next test waits for the longer calls
        return x

    monkeypatch.setattr(staged_module, "_MOST", 4)
    monkeypatch.setattr(staged_module.Account, "limit", 1e-9)  # nothing is evaluated
    assert compiled_calls(Staged(step), 6, jnp.ones(size)) == compiled


def _sum_at(x):
    return jnp.zeros(3).at[jnp.array([0, 0, 2])].add(x)


@pytest.mark.parametrize(
    ("function", "has_options"), [(lambda x: jnp.exp(x) * 2, True), (_sum_at, False), (lambda x: lax.cumsum(x), True)]
)
@pytest.mark.slow("compiles")
def test_few_equations_are_compiled_by_options_of_their_own_unless_they_run_slower(function: Any, has_options: bool):
    taken: list[Any] = []

    def compiles(kept: Kept, compiler_options: Any = None) -> Any:
        taken.append(compiler_options)
        return jitted(function, kept, compiler_options)

    run, x = Staged(function, compiles, few=True), jnp.arange(3.0)
    while not taken:
        run(x)
    assert taken == [options_for("cpu", "few") if has_options else None]
    np.testing.assert_allclose(run(x), function(x), rtol=1e-6)
    inside = jax.jit(lambda x: run(x) + 1)(x)  # where JAX takes no options
    np.testing.assert_allclose(inside, function(x) + 1, rtol=1e-6)


def test_loops_and_draws_are_dear_to_compile_and_products_as_fast_as_compiled():
    def price(function: Any, *args: Any) -> float:
        staged = Staged(function)
        staged(*args)
        (signature,) = staged._signatures.values()
        return signature.account.price

    plain = price(jnp.tanh, ONES)
    assert price(lambda x: jax.lax.scan(lambda s, row: (s + row, s), x[0], x)[0], ONES) > 3 * plain
    assert price(lambda key: jax.random.bits(key, (3, 4)), jax.random.key(0)) > 5 * plain
    branches = [lambda x: jnp.tanh(jnp.tanh(jnp.tanh(x)) + 1) * x, jnp.tanh]
    assert (
        price(lambda x: jax.lax.switch(x[0, 0].astype(int), branches, x), ONES) > plain + 5 * staged_module._AN_EQUATION
    )
    x = jnp.ones((128, 128))
    assert compiled_calls(Staged(jnp.dot), 40, x, x) == []


def test_results_of_arrays_that_are_bound_to_a_device_are_bound_to_it():
    for x in (ONES, jax.device_put(ONES, jax.devices()[0])):
        evaluated = Staged(jnp.tanh)(x)
        with lowering.effort("full"):
            assert evaluated.committed == Staged(jnp.tanh)(x).committed == x.committed


def test_both_ways_have_the_same_structure_of_results():
    staged = Staged(lambda x, more: {"sum": x + more["y"], "none": None, "pair": (x, x.T)})
    given = ONES, {"y": ONES}
    evaluated = staged(*given)
    with lowering.effort("full"):
        compiled = staged(*given)
    assert jax.tree.structure(evaluated) == jax.tree.structure(compiled)
    for one, other in zip(jax.tree.leaves(evaluated), jax.tree.leaves(compiled), strict=True):
        assert (one.shape, one.dtype, one.weak_type) == (other.shape, other.dtype, other.weak_type)
        np.testing.assert_array_equal(one, other)


def test_results_are_arrays_of_their_own():
    """Results that were parts of inputs, constants or other results would be written when those are given away."""
    constant = np.arange(4096, dtype=np.float32)
    staged = Staged(lambda x: (x.reshape(2, -1), x, y := x + 1, y, y[:3], jnp.asarray(constant)))
    clear = jax.jit(lambda x: x * 0, donate_argnums=0)
    expected = [np.array(each) for each in staged(jnp.arange(4096.0))]
    for i in range(-1, 6):
        x = jnp.arange(4096.0)
        results = [*staged(x)]
        clear(x if i < 0 else results.pop(i))
        others = expected if i < 0 else expected[:i] + expected[i + 1 :]
        for result, value in zip(results, others, strict=True):
            np.testing.assert_array_equal(result, value)


@pytest.mark.slow("compiles")
def test_traced_calls_and_other_configurations_are_jaxs():
    staged = Staged(lambda x: jnp.log(x))
    assert jax.jit(staged)(ONES).sum() == 0
    assert jax.vmap(staged)(ONES).sum() == 0
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        staged(-ONES)
    with jax.enable_x64(True):
        assert staged(jnp.ones(3, np.float64)).dtype == np.float64
    with lowering.effort("full"):
        assert compiled_calls(Staged(lambda x: x + 3), 2, ONES) == [0]
    with pytest.raises(CallError, match="No such effort.*slow.*auto.*quick.*full"), lowering.effort("slow"):
        pass


def test_errors_are_those_of_the_compiled_way():
    x, y = mx.nd.ones((2, 3)), mx.nd.ones((4, 5))
    messages = []
    for word in ("auto", "full"):
        with lowering.effort(word), pytest.raises(mx.MXNetError) as raised:
            (x + y).asnumpy()
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize(
    "call",
    [
        lambda n: (mx.nd.ones((n, 10)) * 2 + 1).sum(axis=0).asnumpy(),
        lambda n: mx.nd.slice_axis(mx.nd.ones((200, 2)), axis=0, begin=n, end=n + 7).asnumpy(),
        lambda n: mx.nd.ones((n, 4)).clip(0, n).asnumpy(),
    ],
    ids=["shapes", "places", "bounds"],
)
def test_a_new_signature_compiles_nothing(call: Any):
    call(3)
    with compilations(traces=False) as seen:
        for n in range(4, 12):
            call(n)
    assert not seen


def test_a_new_batch_size_of_a_block_compiles_nothing():
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(5, activation="relu", in_units=4), mx.gluon.nn.Dense(2, in_units=5))
    net.initialize()
    net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})

    def step(n: int) -> None:
        net(mx.nd.ones((n, 4))).asnumpy()
        with mx.autograd.record():
            loss = net(mx.nd.ones((n, 4))).sum()
        loss.backward()
        trainer.step(n)

    step(2)
    with compilations(traces=False) as seen:
        for n in (3, 4, 5):
            step(n)
    assert not seen


@pytest.mark.parametrize("array", [ONES, np.ones((3, 4), np.float32)])
def test_an_error_of_the_library_says_nothing_of_jax(array: Any):
    def refused(x: Any) -> None:
        raise CallError("no such array", got=x.shape)

    for effort in ("auto", "quick", "full"):
        with lowering.effort(effort), pytest.raises(CallError) as raised:
            Staged(refused)(array)
        assert not getattr(raised.value, "__notes__", [])
        assert raised.value.__context__ is None or effort == "quick"
