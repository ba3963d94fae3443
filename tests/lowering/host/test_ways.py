"""Networks by three ways: evaluated, compiled quickly, compiled fully."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import lowering
from lowering import mx
from lowering.core.cache import Programs
from lowering.executor.ways import Ways
from lowering.host import staged
from lowering.xla import compile_options as xla_options
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import CallError, InferenceError
from symjax_nnvm.pipeline import Options
from symjax_nnvm.symbol import Symbol
from tests.support.compilations import compilations

SHAPES: dict[str, Any] = {"data": (2, 3, 8, 8)}
WAYS = ("auto", "quick", "full")


def network() -> Symbol:
    net = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=4, stride=(2, 2), pad=(1, 1), name="conv")
    net = sym.Pooling(sym.BatchNorm(net, fix_gamma=False, name="bn"), kernel=(2, 2), pool_type="max", stride=(2, 2))
    net = sym.RNN(
        sym.reshape(net, shape=(2, 2, 8)), state_size=4, num_layers=1, mode="lstm", name="lstm", state_outputs=False
    )
    net = sym.Dropout(sym.Activation(net, act_type="tanh"), p=0.5)
    return sym.SoftmaxOutput(sym.FullyConnected(net, num_hidden=3, name="fc"), name="softmax")


@pytest.fixture(scope="module")
def net() -> Symbol:
    return network()


@pytest.fixture(scope="module")
def arrays(net: Symbol) -> tuple[dict[str, Any], dict[str, Any]]:
    shapes, _, aux_shapes = net.infer_shape(**SHAPES)
    rng = np.random.default_rng(5)
    draw = lambda low, names, sizes: {  # noqa: E731
        name: rng.uniform(low, 1, size).astype("f") for name, size in zip(names, sizes, strict=True)
    }
    args = draw(-1, net.list_arguments(), shapes) | {"softmax_label": np.ones(2, "f")}
    return args, draw(0.5, net.list_auxiliary_states(), aux_shapes)


def by_executor(net: Symbol, args: Any, aux: Any, effort: str) -> list[Any]:
    executor = lowering.simple_bind(net, effort=effort, seed=5, **SHAPES)
    executor.copy_params_from(args, aux)
    outputs = executor.forward(is_train=True)
    executor.backward()
    return [*outputs, *executor.grad_dict.values(), *executor.aux_dict.values()]


def by_compile(net: Symbol, args: Any, aux: Any, effort: str) -> list[Any]:
    outputs, states = lowering.compile(net, is_train=True, effort=effort)(args, aux, jax.random.key(3))
    return [*outputs, *states.values()]


def by_predictor(net: Symbol, args: Any, aux: Any, effort: str) -> list[Any]:
    parameters = {name: array for name, array in args.items() if name not in ("data", "softmax_label")}
    return lowering.Predictor(net, parameters, aux, effort=effort)(data=args["data"])


def by_trainer(net: Symbol, args: Any, aux: Any, effort: str) -> list[Any]:
    parameters = {name: array for name, array in args.items() if name not in ("data", "softmax_label")}
    trainer = lowering.Trainer(net, "sgd", {"momentum": 0.9}, effort=effort)
    trainer.init(0, parameters, aux, **SHAPES)
    batch = {name: args[name] for name in ("data", "softmax_label")}
    trainer.step(batch)
    return [*trainer.step(batch), *jax.tree.leaves(trainer.require_state().params)]


def by_block(net: Symbol, args: Any, aux: Any, effort: str) -> list[Any]:
    block = mx.gluon.SymbolBlock(net.get_internals()["bn_output"], mx.sym.var("data"))
    block.initialize()
    for name, parameter in block.collect_params().items():
        parameter.set_data(mx.nd.array({**args, **aux}[name]))
    block.hybridize(effort=effort)
    x: Any = mx.nd.array(args["data"])
    x.attach_grad()
    with mx.autograd.record():
        loss = (block(x) ** 3).sum()  # the squares of what is normalised have one sum whatever x is
    loss.backward()
    return [loss.asnumpy(), x.grad.asnumpy()]


DOORS: list[Callable[..., list[Any]]] = [by_executor, by_compile, by_predictor, by_trainer, by_block]


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("door", DOORS)
def test_a_network_computes_the_same_by_all_ways(door: Callable[..., list[Any]], net: Symbol, arrays: Any):
    """All arrays agree to a millionth of their own scale, but for the gradient of the convolution's bias, which
    normalisation makes 0: what is left of it is the rounding of a sum, to a millionth of the largest result.

    Values are centred. Of positive ones a convolution's mean is 15 times its deviation: gradients through a
    normalisation are then 1.4e-6 of scale away from those of float64, evaluated or compiled fully, and 3.2e-6
    compiled quickly."""
    results = {effort: door(net, *arrays, effort) for effort in WAYS}
    largest = max(float(np.abs(expected).max()) for expected in results["full"])
    for effort in ("auto", "quick"):
        for found, expected in zip(results[effort], results["full"], strict=True):
            scale = float(np.abs(expected).max())
            scale = largest if scale < 1e-6 * largest else scale
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * scale)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("door", DOORS[:4])
def test_first_calls_compile_no_network(door: Callable[..., list[Any]], net: Symbol, arrays: Any):
    door(net, *arrays, "auto")  # zeros, keys, and the like
    with compilations(traces=False) as seen:
        door(net, *arrays, "auto")
    assert not seen


def test_a_network_moves_up_when_its_calls_have_cost_their_part(monkeypatch: pytest.MonkeyPatch):
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc")
    args = {"fc_weight": np.ones((3, 4), "f"), "fc_bias": np.ones(3, "f")}
    predict, x = lowering.Predictor(net, args), np.ones((2, 4), "f")
    for _ in range(3):
        predict(data=x)
    assert "evaluated by NumPy; compiled when first calls have cost" in lowering.explain(predict).ways[0]
    monkeypatch.setattr(staged.Account, "limit", 1e-9)
    predict(data=x)
    assert predict.ways()[-1] == "float32[2, 4]: compiled"
    assert "compiled" in str(lowering.explain(predict))


def test_an_executor_tells_which_way_its_next_call_runs(monkeypatch: pytest.MonkeyPatch):
    executor = lowering.simple_bind(sym.relu(sym.Variable("data")), data=(2,))
    assert executor.ways() == ["evaluated by NumPy; not called yet"]
    executor.forward(is_train=False)
    assert executor.ways()[0].startswith("evaluated by NumPy; compiled when")
    monkeypatch.setattr(staged.Account, "limit", 1e-9)
    monkeypatch.setattr(staged.Account, "pays_quickly", True)
    assert executor.ways()[0].startswith("compiled quickly; compiled when")


def test_a_hybridised_block_tells_which_way_its_next_call_runs():
    block = mx.gluon.nn.Dense(2, in_units=3)
    block.initialize()
    block.hybridize()
    with mx.autograd.record():
        loss = block(mx.nd.ones((2, 3)))
    loss.backward()
    loss.wait_to_read()
    assert any("evaluated by NumPy" in line for line in lowering.explain(block).ways)


@pytest.mark.slow("compiles")
def test_a_training_pass_is_compiled_quickly_when_asked(monkeypatch: pytest.MonkeyPatch):
    kinds: set[Any] = set()
    known = xla_options.options_for
    monkeypatch.setattr(xla_options, "options_for", lambda on, kind: kinds.add(kind) or known(on, kind))
    block = mx.gluon.nn.Dense(2, in_units=3)
    block.initialize()
    block.hybridize(effort="quick")
    trainer = mx.gluon.Trainer(block.collect_params(), "sgd")
    for _ in range(2):
        with mx.autograd.record():
            loss = block(mx.nd.ones((2, 3)))
        loss.backward()
        trainer.step(2)
        loss.wait_to_read()
    assert kinds == {"quick"}


def test_ways_have_what_is_compiled_at_its_first_call():
    x = {"data": np.ones(3, "f")}
    run = lowering.compile(sym.Variable("data") + 1)
    for effort in ("quick", "full", "quick"):
        with lowering.effort(effort):
            run(x)
    assert lowering.explain(run).ways == ['by effort="quick": compiled quickly', 'by effort="full": compiled']


@pytest.mark.slow("compiles")
def test_all_parts_of_a_step_are_of_one_way(net: Symbol, arrays: Any, monkeypatch: pytest.MonkeyPatch):
    executor = lowering.simple_bind(net, **SHAPES)
    executor.copy_params_from(*arrays)
    executor.forward(is_train=True)
    assert "evaluated" in executor.ways()[0]
    monkeypatch.setattr(staged.Account, "last", 1e-9)
    executor.backward()  # of what the evaluated pass left
    assert "evaluated" in executor.ways()[0]
    executor.forward(is_train=True)
    assert executor.ways() == ["compiled"]
    executor.backward()


def test_on_a_gpu_the_first_calls_are_compiled_quickly(net: Symbol, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(staged, "may_evaluate", lambda leaves=(): False)
    run = staged.Staged(lambda x: x + 1, lambda _: lambda x: "full", network=True)
    quick = vars(run)["_quick"] = lambda x: "quick"
    x = jax.numpy.ones(3)
    assert [run(x) for _ in range(6)] == ["quick"] * 4 + ["full"] * 2
    assert quick
    ways = Ways(Programs(net), Options(is_train=True, wrt=(), platform="gpu"))
    assert ways.functions("kinds").quick
    with lowering.effort("full"):
        assert ways._may_start
        assert ways.functions("kinds") is ways.full


def test_parts_of_a_network_that_are_compiled_quickly_move_up_together(net: Symbol, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(staged, "may_evaluate", lambda leaves=(): False)
    ways = Ways(Programs(net), Options(is_train=True, wrt=()))
    first = ways.functions("kinds")
    part = first.forward(False)
    vars(part)["_in_full"] = lambda *args: "quick"
    for _ in range(4):
        assert ways.functions("kinds") is first
        assert part([], [], None) == "quick"
    assert not ways.functions("kinds").quick


def test_errors_are_the_same_by_all_ways(net: Symbol, arrays: Any):
    args, aux = arrays
    parameters = {name: array for name, array in args.items() if name not in ("data", "softmax_label")}
    messages = set()
    for effort in WAYS:
        predict = lowering.Predictor(net, parameters, aux, effort=effort)
        with pytest.raises(InferenceError) as raised:
            predict(data=np.ones((2, 5, 8, 8), "f"))
        messages.add(str(raised.value))
    assert len(messages) == 1


@pytest.mark.parametrize("word", ["slow", ""])
def test_no_door_takes_another_effort(word: str, net: Symbol):
    doors: list[Any] = [lowering.compile, lowering.to_jax, lowering.grad_fn, lowering.simple_bind, lowering.Trainer]
    for door in doors:
        with pytest.raises(CallError, match="No such effort"):
            door(net, effort=word, **(SHAPES if door is lowering.simple_bind else {}))
    with pytest.raises(CallError, match="No such effort"):
        lowering.Predictor(sym.Variable("data") + 1, {}, effort=word)
    with pytest.raises(CallError, match="No such effort"):
        mx.gluon.nn.Dense(2).hybridize(effort=word)


@pytest.mark.parametrize("effort", WAYS)
def test_errors_of_blocks_have_no_notes_of_jax(effort: str):
    block = mx.gluon.nn.Dense(3, in_units=4)
    block.initialize()
    block.hybridize(effort=effort)
    with pytest.raises(InferenceError) as raised:
        block(mx.nd.ones((2, 5)))
    assert not hasattr(raised.value, "__notes__")


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("effort", WAYS)
def test_a_step_consumes_the_state_that_it_is_given(effort: str, net: Symbol, arrays: Any):
    args, aux = arrays
    parameters = {name: array for name, array in args.items() if name not in ("data", "softmax_label")}
    trainer = lowering.Trainer(net, "sgd", {"momentum": 0.9}, effort=effort)
    trainer.init(0, parameters, aux, **SHAPES)
    batch = {name: args[name] for name in ("data", "softmax_label")}
    before, copied = trainer.require_state(), jax.tree.map(jax.numpy.copy, trainer.state)
    outputs = trainer.step(batch)
    assert all(array.is_deleted() for array in jax.tree.leaves(before))
    trainer.state = copied
    for first, again in zip(outputs, trainer.step(batch), strict=True):
        np.testing.assert_array_equal(first, again)


def test_what_moved_up_stays_there_however_many_signatures_come(monkeypatch: pytest.MonkeyPatch):
    ways = Ways(Programs(sym.tanh(sym.Variable("data"))), Options(is_train=True, wrt=()))
    first = ways.functions("of the first")
    assert first.quick
    assert first.account is not None
    first.account.price = first.account.spent = 1.0
    full = ways.functions("of the first")
    assert not full.quick
    for i in range(300):
        assert ways.functions(i).quick
    assert ways.functions("of the first") is full


def test_what_memory_cannot_hold_is_left_to_the_compiler(monkeypatch: pytest.MonkeyPatch):
    def fails(*_: Any) -> Any:
        raise MemoryError

    run = staged.Staged(lambda x: x + 1)
    monkeypatch.setattr(staged._Evaluated, "__call__", fails)
    np.testing.assert_array_equal(run(jax.numpy.ones(3)), np.full(3, 2))


@pytest.mark.parametrize("effort", ["auto", "full"])  # quickly, the first call of a program is waited for
def test_results_that_memory_cannot_hold_are_an_error_of_the_call(effort: str, monkeypatch: pytest.MonkeyPatch):
    """NumPy, reading what XLA could not allocate, would end the process. The first call of a size is waited for."""
    waited: list[int] = []
    monkeypatch.setattr(staged, "_LARGE", 64)
    monkeypatch.setattr(staged, "wait_for_memory", lambda results: waited.append(results[0].size))
    monkeypatch.setattr(staged.Account, "limit", 1e-9)
    run = staged.Staged(lambda x: [x + 1], effort=effort, few=True)
    for n in (8, 65, 65):
        run(jax.numpy.ones(n))
    assert waited == [*[8] * (effort == "auto"), 65, 65]


def test_keys_are_results_too():
    key, other = staged.Staged(lambda key: (key, jax.random.fold_in(key, 3)))(jax.random.key(7))
    assert jax.random.uniform(other) == jax.random.uniform(jax.random.fold_in(jax.random.key(7), 3))
    assert jax.random.uniform(key) == jax.random.uniform(jax.random.key(7))


def test_long_compiling_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    net, x = sym.Variable("data") + 1, np.ones(3, "f")
    with caplog.at_level(logging.INFO, "lowering"), lowering.effort("full"):
        lowering.compile(net)({"data": x})
        assert not caplog.records
        monkeypatch.setattr(xla_options, "_LONG", 0.0)
        run = lowering.compile(net)
        for _ in range(2):
            run({"data": x})
    assert len(caplog.records) == 1
    assert "Compiling" in caplog.text
    assert " s." in caplog.text


@pytest.mark.slow("compiles")
def test_the_log_names_what_took_long(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setattr(xla_options, "_LONG", 0.0)
    block = mx.gluon.nn.Dense(2, in_units=3, prefix="dense_")
    block.initialize()
    x = mx.nd.ones((2, 3))
    with caplog.at_level(logging.INFO, "lowering"), lowering.effort("full"):
        for hybridised in (False, False, False, True):
            block.hybridize(hybridised)
            with mx.autograd.record():
                loss = block(x)
            loss.backward()
            loss.wait_to_read()
        executor = lowering.simple_bind(sym.relu(sym.Variable("data"), name="act"), "cpu", data=(2,))
        executor.forward(is_train=False)
    for what in ("a recorded computation", "the training pass of dense_fwd", "forward of act"):
        assert f"Compiling {what} took" in caplog.text


def test_bars_are_told_of_compiling_and_of_it_alone(monkeypatch: pytest.MonkeyPatch):
    told: list[str] = []
    monkeypatch.setattr(xla_options, "tell", told.append)
    run, x = lowering.compile(sym.Variable("data") + 1), np.ones(3, "f")
    run({"data": x})
    assert not told
    with lowering.effort("full"):
        for _ in range(2):
            run({"data": x})
    assert told == ["compiling"]


def test_a_predictor_keeps_its_arrays_and_signatures_from_the_first_call_on():
    w = np.full(1 << 16, 2, "f")
    predict = lowering.Predictor(sym.Variable("data") * sym.Variable("w"), {"w": w})
    predict(data=np.ones(1 << 16, "f"))
    w[:] = 0
    assert np.asarray(predict(data=np.ones(1 << 16, "f"))[0]).max() == 2
    assert [inputs["data"].shape for inputs in predict.signatures] == [(1 << 16,)]


@pytest.mark.slow("compiles")
def test_what_is_saved_has_the_values_of_signatures_that_were_called(net: Symbol, arrays: Any, tmp_path: Path):
    args, aux = arrays
    parameters = {name: array for name, array in args.items() if name not in ("data", "softmax_label")}
    predict = lowering.Predictor(net, parameters, aux)
    (first,) = predict(data=args["data"])
    predict.save(tmp_path / "served")
    assert "compiled" in predict.ways()[-1]
    loaded = lowering.Predictor.load(tmp_path / "served")
    assert [inputs["data"].shape for inputs in loaded.signatures] == [(2, 3, 8, 8)]
    np.testing.assert_allclose(loaded(data=args["data"])[0], first, rtol=1e-5)
