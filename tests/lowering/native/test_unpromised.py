"""Each name that JAX does not promise is taken away, in a process of its own: the numbers stay what they are."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jaxlib.xla_client
import numpy as np
import pytest

from lowering.native import unpromised

ROOT = Path(__file__).parents[3]

CHILD = "from lowering.native.trials import main\nmain()"

NETWORK = """
import jax, numpy as np
import lowering
from symjax_nnvm import symbol as sym

x = sym.Variable("data")
net = sym.relu(sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=64, name="c") + x)
rng = np.random.default_rng(0)
args = {"c_weight": rng.standard_normal((64, 64, 3, 3)).astype("f") / 24, "c_bias": np.ones(64, "f")}
data = rng.standard_normal((4, 64, 14, 14)).astype("f")
weights = jax.lax.conv_general_dilated(data, args["c_weight"], (1, 1), "SAME")
expected = np.maximum(weights + args["c_bias"][:, None, None] + data, 0)
close = lambda found: np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
close(lowering.Predictor(net, args)(data=data)[0])
close(jax.jit(lowering.to_jax(net))({**args, "data": data})[0][0])
close(lowering.compile(net)({**args, "data": data})[0][0])
executor = lowering.simple_bind(net, data=data.shape)
executor.copy_params_from(args)
close(executor.forward(is_train=True, data=data)[0])
executor.backward([np.ones_like(expected)])
grads = jax.jit(lowering.grad_fn(net, wrt=["c_bias"]))({**args, "data": data}, head_grads=[np.ones_like(expected)])[1]
np.testing.assert_allclose(grads["c_bias"], (expected > 0).sum((0, 2, 3)), rtol=1e-5)
np.testing.assert_allclose(np.asarray(executor.grad_dict["c_bias"]), grads["c_bias"], rtol=1e-5)
batched = jax.vmap(lambda a: jax.jit(lowering.to_jax(net))({**args, "data": a})[0][0])(data[None])
close(batched[0])
print("the same numbers")
"""

TAKEN: dict[str, str] = {
    "Primitive": "import jax.extend.core as m; del m.Primitive",
    "mlir.register_lowering": "from jax.interpreters import mlir as m; del m.register_lowering",
    "mlir.lower_fun": "from jax.interpreters import mlir as m; del m.lower_fun",
    "batching.primitive_batchers": "from jax.interpreters import batching as m; del m.primitive_batchers",
    "ad.primitive_jvps": "from jax.interpreters import ad as m; del m.primitive_jvps",
    "module_context": """
import lowering.native.unpromised as m
was = m._program_of
m._program_of = lambda ctx: was(object())""",
    "ffi_call": """
import jax
def raises(*args, **kwargs): raise TypeError("ffi_call() got an unexpected keyword argument")
jax.ffi.ffi_call = raises""",
    "batched_device_put": "import lowering.native.unpromised as m; m._put_one = object",
    "jaxlib.xla_client": "import jax; sys.modules['jaxlib.xla_client'] = None",
    "/proc": "import lowering.native.unpromised as m; m._TASKS = m.Path('/no/proc')",
    "sys.executable": "sys.executable = ''",
    "compile options": "import lowering.native.unpromised as m; m.knows_options = lambda options: False",
}
"""What is taken → how, here and in child processes, before the library is imported."""


@pytest.mark.slow("starts processes")
@pytest.mark.nightly("a process for each name", but_one_in=10)
@pytest.mark.parametrize("name", TAKEN)
def test_without_a_name_the_numbers_are_the_same(name: str, tmp_path: Path):
    child = f"import json, sys\nsys.path[:], _ = json.loads(sys.argv[1])\n{TAKEN[name]}\n{CHILD}"
    program = f"import sys\n{TAKEN[name]}\nimport lowering.native.ask as ask\nask._PROGRAM = {child!r}\n{NETWORK}"
    env = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=env, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr[-2000:]
    assert found.stdout == "the same numbers\n"


@pytest.mark.slow("waits for processes or threads")
@pytest.mark.parametrize("error", [RuntimeError, NotImplementedError, AttributeError, TypeError, ValueError])
def test_a_client_that_cannot_be_made_is_none(error: type[Exception], monkeypatch: pytest.MonkeyPatch):
    def raises(**_: object) -> None:
        raise error("gone")

    monkeypatch.setattr(jaxlib.xla_client, "make_cpu_client", raises)
    assert unpromised.one_worker_device() is None


@pytest.mark.slow("waits for processes or threads")
@pytest.mark.parametrize("client", [None, object()], ids=["no client", "no devices"])
def test_a_client_of_another_kind_is_none(client: object, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jaxlib.xla_client, "make_cpu_client", lambda **_: client)
    assert unpromised.one_worker_device() is None


@pytest.mark.slow("waits for processes or threads")
def test_threads_of_other_names_are_no_workers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(unpromised, "_WORKER", "of another name")
    assert unpromised.one_worker_device() is None
    assert unpromised.workers() == 0


@pytest.mark.slow("waits for processes or threads")
@pytest.mark.parametrize("name", ["sched_getaffinity", "sched_setaffinity"])
def test_where_a_thread_cannot_be_kept_to_a_core_there_is_no_second_client(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, name)
    assert unpromised.one_worker_device() is None


@pytest.mark.parametrize("name", ["emit_python_callback", "register_lowering"])
def test_without_calls_of_python_there_are_no_lanes(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(unpromised.mlir, name)
    assert unpromised.host_call.__wrapped__("sum") is None


def test_a_state_of_processes_that_is_elsewhere_is_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "jax._src.distributed", None)
    assert unpromised.distributed_state() is None


UNPROMISED = re.compile(
    r"jax\._src|jaxlib\.(?!version)|jax\.interpreters|jax\.extend|module_context|XLAEigen|legacy_backend"
)


@pytest.mark.slow("computes much")
def test_one_module_names_them():
    """Docstrings and comments aside, which may speak of them."""
    files = [path for path in (ROOT / "lowering").rglob("*.py") if path.name != "unpromised.py"]
    texts = {path.name: path.read_text(encoding="utf-8") for path in files}
    speaking = {name: text for name, text in texts.items() if UNPROMISED.search(text)}
    assert [name for name, text in speaking.items() if any(map(UNPROMISED.search, _code(text)))] == []


def _code(text: str) -> list[str]:
    tree = ast.parse(text)
    names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return names + [str(a.value) for call in calls for a in call.args if isinstance(a, ast.Constant)]


@pytest.mark.slow("starts processes")
def test_an_older_jax_is_told_at_once():
    program = "import jax; jax.__version__, jax.__version_info__ = '0.9.2', (0, 9, 2)\nimport lowering"
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 1
    assert found.stderr.splitlines()[-1] == (
        "ImportError: lowering needs jax 0.10.0 or newer and found 0.9.2: "
        "pip install --upgrade 'jax>=0.10.0' 'jaxlib>=0.10.0' (on Python 3.11 or newer)."
    )


def test_arrays_are_put_as_jax_puts_them(monkeypatch: pytest.MonkeyPatch):
    """Also where the quick way is not there."""
    arrays = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(True), np.arange(6, dtype=np.int8)[::2]]
    expected = jax.device_put(arrays)
    kinds = [*map(jax.typeof, expected)]
    for committed in (False, True):
        placed = unpromised.put(kinds, arrays, expected[0].sharding, committed)
        assert placed is not None
        assert [array.committed for array in placed] == [committed] * 3
        assert [*map(jax.typeof, placed)] == kinds
        for array, other in zip(placed, expected, strict=True):
            np.testing.assert_array_equal(array, other)
    unpromised._put_one.cache_clear()
    monkeypatch.setattr(unpromised, "import_module", lambda name: object())
    assert unpromised.put(kinds, arrays, expected[0].sharding, False) is None
    unpromised._put_one.cache_clear()
