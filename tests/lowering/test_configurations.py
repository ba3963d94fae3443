"""What other machines, platforms and settings change, in this process: the sides of conditions that no user of a plain
CPU enters. `tests/meta/test_configuration.py` shows that both sides of each condition are entered."""

import json
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

import lowering
from lowering import mx
from lowering.cli import run_budget as budget
from lowering.host.evaluator import evaluator_of
from lowering.host.primitives import NotEvaluated
from lowering.initializer.initializer_base import counts_elements
from lowering.mx import context as contexts
from lowering.mx import test_utils
from lowering.mx.gluon.utils import _get_repo_url
from lowering.mx.tape import programs
from lowering.training import processes
from lowering.training.checkpoints import Checkpoints
from lowering.training.processes import Preemption, Team
from lowering.xla import cpu_streams, host_memory
from symjax_nnvm import symbol as sym
from symjax_nnvm.cli import main
from symjax_nnvm.io.files import cache_folder


def test_free_memory_is_the_accelerators_or_the_machines(monkeypatch: pytest.MonkeyPatch):
    assert (budget.free_memory() or 0) > 10**6
    device = SimpleNamespace(memory_stats=lambda: {"bytes_limit": 100, "bytes_in_use": 30})
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "devices", lambda: [device])
    assert budget.free_memory() == 70


def test_a_platform_without_options_has_none_to_print(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    options = []
    for name in (jax.default_backend(), "metal"):
        monkeypatch.setattr(jax, "default_backend", lambda name=name: name)
        assert main(["env", "--json"]) == 0
        options.append(json.loads(capsys.readouterr().out)["compile options"])
    assert options[0] != options[1] == "-"


@pytest.mark.parametrize("keeps", [False, True])
def test_a_run_is_compiled_by_jax_alone_where_jax_keeps_it(
    keeps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(lowering, "Predictor" if keeps else "compile", None)
    sym.relu(sym.Variable("data")).save(tmp_path / "relu-symbol.json")
    jax.config.update("jax_compilation_cache_dir", str(tmp_path) if keeps else None)
    try:
        assert main(["run", str(tmp_path / "relu"), "random", "--shape", "data=2,3"]) == 0
    finally:
        jax.config.update("jax_compilation_cache_dir", None)


def test_numbers_are_drawn_ahead_only_where_the_first_of_many_are_those_of_few():
    assert counts_elements(jax.random.key(0))
    with jax.threefry_partitionable(False):
        assert not counts_elements(jax.random.key(0))


@pytest.mark.parametrize("partitionable", [True, False])
def test_draws_are_evaluated_only_where_numbers_are_counted(partitionable: bool):
    with jax.threefry_partitionable(partitionable):
        closed = jax.make_jaxpr(lambda key: jax.random.bits(key, (2,)))(jax.random.key(0))
        if partitionable:
            assert evaluator_of(closed)
        else:
            with pytest.raises(NotEvaluated, match="random_bits"):
                evaluator_of(closed)


def test_a_context_is_none_where_jax_puts_arrays_by_itself(monkeypatch: pytest.MonkeyPatch):
    first, second = jax.devices()[0], object()
    assert mx.cpu().device is None
    monkeypatch.setattr(contexts, "_devices", lambda platform: [first, second])
    assert mx.gpu(0).device is None
    assert mx.gpu(1).device is second
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert mx.cpu().device is first


def test_the_context_of_an_array_is_the_current_one_or_its_devices(monkeypatch: pytest.MonkeyPatch):
    class Accelerator:
        platform = "gpu"

    accelerator = Accelerator()
    monkeypatch.setattr(contexts, "_devices", lambda platform: [accelerator])
    elsewhere: Any = SimpleNamespace(devices=lambda: {accelerator})
    assert contexts.context_of(elsewhere) == mx.gpu(0)
    assert contexts.context_of(mx.nd.ones(2).value) == mx.cpu(0)


@pytest.mark.parametrize("url", [None, "https://somewhere/else"])
def test_the_place_of_models_may_be_another(url: str | None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("MXNET_GLUON_REPO", raising=False)
    if url:
        monkeypatch.setenv("MXNET_GLUON_REPO", url)
    assert _get_repo_url().startswith(url or "https://apache-mxnet")


def test_64_bits_are_a_feature():
    features = [{feature.name: feature.enabled for feature in mx.runtime.feature_list()}]
    with jax.enable_x64(True):
        features.append({feature.name: feature.enabled for feature in mx.runtime.feature_list()})
    assert [row["INT64_TENSOR_SIZE"] for row in features] == [False, True]


def test_a_gpu_that_says_no_capability_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(contexts, "_devices", lambda platform: [SimpleNamespace()])
    with pytest.raises(mx.MXNetError, match="JAX does not report the compute capability"):
        mx.util.get_cuda_compute_capability(mx.gpu())


def test_a_processor_of_arm_is_told(monkeypatch: pytest.MonkeyPatch):
    seen = []
    for machine in ("x86_64", "aarch64"):
        monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)
        seen.append(test_utils.is_aarch64_run())
    assert seen == [False, True]


# -- tapes -------------------------------------------------------------------------------------------------------------


def programs_of_tapes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The programs of tapes that run from here on."""
    ran: list[Any] = []
    run = programs._TapeProgram._run
    monkeypatch.setattr(programs._TapeProgram, "_run", lambda self, *args: (ran.append(self), run(self, *args))[1])
    return ran


def slopes_of_steps(size: int, wide_backward: bool = False) -> list[list[float]]:
    """Gradients of x · w + x · x at x = w = 1, by six equal steps; backward may be in another width of numbers."""
    x, w = mx.nd.ones((2, size)), mx.nd.ones((size,))
    x.attach_grad()
    rows = []
    for _ in range(6):
        with mx.autograd.record():
            y = (x * w + x * x).sum()
        with jax.enable_x64(wide_backward):
            y.backward()
        assert x.grad is not None
        rows.append(x.grad.asnumpy()[0].tolist())
    return rows


def test_tapes_of_one_cpu_are_differentiated_by_one_program(monkeypatch: pytest.MonkeyPatch):
    ran = programs_of_tapes(monkeypatch)
    assert slopes_of_steps(3) == [[3, 3, 3]] * 6
    assert ran


@pytest.mark.parametrize(("name", "answer"), [("device_count", 2), ("default_backend", "gpu")])
def test_tapes_of_several_devices_and_of_others_are_differentiated_call_by_call(
    name: str, answer: object, monkeypatch: pytest.MonkeyPatch
):
    ran = programs_of_tapes(monkeypatch)
    monkeypatch.setattr(programs.jax, name, lambda: answer)
    assert slopes_of_steps(4) == [[3, 3, 3, 3]] * 6
    assert not ran


@pytest.mark.parametrize("wide", [False, True])
def test_calls_that_wait_are_computed_in_the_width_that_they_were_called_in(wide: bool):
    net = mx.gluon.nn.Dense(2, in_units=3, use_bias=False)
    net.initialize(mx.init.One())
    net.hybridize()
    x = mx.nd.ones((2, 3))
    for _ in range(5):
        with mx.autograd.record():
            y = net(x)
        with jax.enable_x64(wide):
            y.backward()
        assert net.weight.grad().asnumpy().tolist() == [[2, 2, 2]] * 2


# -- native help and processes -----------------------------------------------------------------------------------------


def test_a_wide_predictor_computes_its_constants_in_64_bits():
    net = sym.FullyConnected(sym.Variable("data"), sym.Variable("w") * 3, num_hidden=2, no_bias=True, name="fc")
    values = []
    for wide in (False, True):
        with jax.enable_x64(wide):
            predict = lowering.Predictor(net, {"w": np.full((2, 3), 1 / 7)})
            values.append(np.asarray(predict(data=np.ones((1, 3)))[0])[0, 0])
    assert abs(values[1] - 9 / 7) < 1e-15 < abs(float(values[0]) - 9 / 7)


@pytest.mark.parametrize(("machines", "cores"), [(None, 1), (3, 3)])
def test_cores_are_counted_where_the_system_does_not_say_which_may_be_used(
    machines: int | None, cores: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: machines)
    assert cpu_streams.count() == cores
    if cores == 1:
        assert cpu_streams.one_core() is None
        assert cpu_streams.why_not() == "the process may use one core"


def test_the_allocator_is_left_alone_where_the_environment_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(host_memory.KEEP, "0")
    assert host_memory._libc() is None
    monkeypatch.delenv(host_memory.KEEP)
    assert host_memory._libc() is host_memory._glibc()


@pytest.mark.parametrize(
    ("platform", "environment", "folder"),
    [
        ("linux", {}, "home/.cache"),
        ("linux", {"XDG_CACHE_HOME": "somewhere"}, "home/.cache"),
        ("linux", {"XDG_CACHE_HOME": os.path.abspath("/somewhere")}, os.path.abspath("/somewhere")),
        ("darwin", {}, "home/Library/Caches"),
        ("darwin", {"XDG_CACHE_HOME": os.path.abspath("/somewhere")}, os.path.abspath("/somewhere")),
        ("win32", {}, "home/AppData/Local"),
        ("win32", {"LOCALAPPDATA": "local"}, "local"),
    ],
)
def test_the_users_folder_is_where_the_platform_has_it(
    platform: str, environment: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch
):
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, "home")
    assert cache_folder() == Path(folder) / "symjax-nnvm"


def fails() -> None:
    raise OSError("disk full")


@pytest.mark.parametrize("count", [1, 2])
def test_checkpoints_are_opened_again_after_a_save_that_failed_by_a_process_that_is_alone(
    count: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(jax, "process_count", lambda: count)
    opened: list[bool] = []
    folder = Checkpoints.__new__(Checkpoints)
    folder.directory, folder._saving = Path("/there"), 3
    monkeypatch.setattr(folder, "_manager", SimpleNamespace(all_steps=lambda: [2, 1]), raising=False)
    monkeypatch.setattr(folder, "_open_again", lambda: opened.append(True))
    assert "Those of steps 1, 2 are intact" in str(folder._failed(OSError("disk full")))
    assert opened == [True] * (count == 1)


@pytest.mark.parametrize("action", [lambda: None, fails], ids=["works", "fails"])
@pytest.mark.parametrize("count", [1, 2])
def test_one_process_acts_for_all(action: Callable[[], None], count: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jax, "process_count", lambda: count)
    sent: list[int] = []
    monkeypatch.setattr(processes.multihost_utils, "broadcast_one_to_all", lambda x: (sent.append(int(x)), x)[1])
    if action is fails:
        with pytest.raises(OSError, match="disk full"):
            processes.on_first(action, "write a file")
    else:
        processes.on_first(action, "write a file")
    assert sent == [int(action is fails)] * (count > 1)


@pytest.mark.parametrize("enabled", [False, True])
def test_processes_ask_each_other_when_to_stop_if_jax_may(enabled: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(processes.multihost_utils, "reached_preemption_sync_point", lambda step: step == 7)
    monkeypatch.setattr(processes.jax, "config", SimpleNamespace(jax_enable_preemption_service=enabled))
    team = Team.__new__(Team)
    team.size = 2
    assert [Preemption(team, False).reached(step) for step in (6, 7)] == [False, enabled]


@pytest.mark.parametrize("wide", [False, True])
def test_a_predictor_computes_constants_in_the_width_of_its_thread(wide: bool):
    net = sym.Variable("data") + sym.Variable("w") * 2
    with jax.enable_x64(wide):
        (output,) = lowering.Predictor(net, {"w": np.ones(2, np.float32)}, effort="full")(data=np.ones(2, np.float32))
    np.testing.assert_array_equal(output, [3, 3])
