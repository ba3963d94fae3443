"""Each name that JAX does not promise is taken away, in a process of its own: the numbers stay what they are."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lowering.native.unpromised import distributed_state

ROOT = Path(__file__).parents[3]

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

RAISES = "def raises(*args, **kwargs): raise {error}('gone')\n"

TAKEN: dict[str, str] = {
    "Primitive": "import jax.extend.core as m; del m.Primitive",
    "mlir.register_lowering": "from jax.interpreters import mlir as m; del m.register_lowering",
    "mlir.lower_fun": "from jax.interpreters import mlir as m; del m.lower_fun",
    "batching.primitive_batchers": "from jax.interpreters import batching as m; del m.primitive_batchers",
    "ad.primitive_jvps": "from jax.interpreters import ad as m; del m.primitive_jvps",
    "module_context": (
        "import lowering.native.unpromised as u\nwas = u._program_of\nu._program_of = lambda ctx: was(object())"
    ),
    "ffi_call, its arguments": RAISES.format(error="TypeError") + "import jax; jax.ffi.ffi_call = raises",
    "ffi_call, its version": RAISES.format(error="ValueError") + "import jax; jax.ffi.ffi_call = raises",
    "jaxlib.xla_client": "import sys; sys.modules['jaxlib.xla_client'] = None",
    "make_cpu_client": "import jaxlib.xla_client as m; del m.make_cpu_client",
    "make_cpu_client, its devices": "import jaxlib.xla_client as m; m.make_cpu_client = lambda **_: None",
    **{
        f"make_cpu_client, {error}": RAISES.format(error=error)
        + "import jaxlib.xla_client as m; m.make_cpu_client = raises"
        for error in ("RuntimeError", "NotImplementedError", "AttributeError", "TypeError")
    },
    "XLAEigen": "import lowering.native.unpromised as u; u._WORKER = 'of another name'",
    "/proc": (
        "import pathlib\n"
        "real_iter, real_read = pathlib.Path.iterdir, pathlib.Path.read_text\n"
        "def hidden(real):\n"
        "    def call(self, *a, **k):\n"
        "        if str(self).startswith('/proc'): raise FileNotFoundError(2, 'No such file', str(self))\n"
        "        return real(self, *a, **k)\n"
        "    return call\n"
        "pathlib.Path.iterdir, pathlib.Path.read_text = hidden(real_iter), hidden(real_read)"
    ),
    "sys.executable": "import sys; sys.executable = ''",
    "sched_setaffinity": "import os; del os.sched_setaffinity",
    "compile options": "import lowering.native.unpromised as u; u.knows_option = lambda name, value: False",
}
"""What is taken → how, before the library is imported."""


@pytest.mark.slow
@pytest.mark.parametrize("name", TAKEN)
def test_without_a_name_the_numbers_are_the_same(name: str):
    program = f"{TAKEN[name]}\n{NETWORK}"
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr[-2000:]
    assert found.stdout == "the same numbers\n"


def test_a_state_of_processes_that_is_elsewhere_is_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "jax._src.distributed", None)
    assert distributed_state() is None


UNPROMISED = re.compile(
    r"jax\._src|jaxlib\.(?!version)|jax\.interpreters|jax\.extend|module_context|XLAEigen|legacy_backend"
)


def test_one_module_names_them():
    """Docstrings and comments aside, which may speak of them."""
    files = [path for path in (ROOT / "lowering").rglob("*.py") if path.name != "unpromised.py"]
    naming = [path.name for path in files if any(map(UNPROMISED.search, _code(path)))]
    assert naming == []


def _code(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return names + [str(a.value) for call in calls for a in call.args if isinstance(a, ast.Constant)]


def test_an_older_jax_is_told_at_once():
    program = "import jax; jax.__version__, jax.__version_info__ = '0.9.2', (0, 9, 2)\nimport lowering"
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 1
    assert found.stderr.splitlines()[-1] == (
        "ImportError: lowering needs jax 0.10.0 or newer and found 0.9.2: "
        "pip install --upgrade 'jax>=0.10.0' 'jaxlib>=0.10.0' (on Python 3.11 or newer)."
    )
