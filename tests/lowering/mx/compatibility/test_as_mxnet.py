"""`import mxnet` as this namespace, in processes of their own."""

import os
import pickle
import signal
import subprocess
from pathlib import Path

import pytest

from lowering import mx
from tests.support import warm

ROOT = Path(__file__).parents[4]

SCRIPT = """
import logging
import sys

logging.basicConfig(level=logging.DEBUG)
import mxnet as mx
import mxnet.ndarray.contrib as contrib
from mxnet.ndarray.ndarray import NDArray
from mxnet.symbol import Symbol

net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2)
assert isinstance(net, Symbol) and isinstance(mx.nd.ones(1), NDArray)
module = mx.mod.Module(net, label_names=None)
module.bind([("data", (2, 3))], for_training=False)
module.init_params()
module.forward(mx.io.DataBatch([mx.nd.ones((2, 3))]))
print(module.get_outputs()[0].shape, contrib.box_nms.__name__, sys.argv[1:], __name__)
try:
    import mxnet.rtc
except ImportError as error:
    print(error)
import mxnet.io as io
import mxnet.kvstore.kvstore
from mxnet.optimizer.optimizer import SGD
from mxnet.contrib.ndarray import box_nms

assert io is mx.io and sys.modules["mxnet.io"] is mx.io
import multiprocessing
assert multiprocessing.pool, "Sockeye has it from MXNet's import"
assert [name for name, m in sys.modules.items() if name.startswith("lowering.mx.") and m.__spec__.name != name] == []
"""


def run(folder: Path, *arguments: str, input: str = "") -> subprocess.CompletedProcess[str]:
    return warm.run(arguments, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, input=input)


@pytest.mark.slow("starts processes")
def test_a_script_that_imports_mxnet_runs(tmp_path: Path):
    (tmp_path / "script.py").write_text(SCRIPT)
    ended = run(tmp_path, "-m", "lowering.mx", "script.py", "--epochs", "2")
    assert ended.returncode == 0, ended.stderr
    first, second = ended.stdout.splitlines()
    assert first == "(2, 2) box_nms ['--epochs', '2'] __main__"
    assert second.startswith("mx has no module 'rtc'. ")
    assert "jax" not in ended.stderr
    module = run(tmp_path, "-m", "lowering.mx", "-m", "script")
    assert module.returncode == 0, module.stderr
    assert run(tmp_path, "-m", "lowering.mx").returncode == 2
    missing = run(tmp_path, "-m", "lowering.mx", "skript.py")
    assert (missing.returncode, missing.stderr) == (2, "There is no script skript.py.\n")


NAMED = """
import pickle
import sys

from lowering import mx

before = pickle.dumps([mx.gluon.nn.Dense, mx.init.One, mx.nd.ones(2)])
mx.install()
import mxnet
from mxnet.gluon.model_zoo.vision.alexnet import AlexNet

assert mx.gluon.model_zoo.vision.alexnet is mxnet.gluon.model_zoo.vision.get_model.__globals__["_MODELS"]["alexnet"]
block = mx.gluon.nn.Dense(2)
print(mx.__name__, mx.nd.__name__, mx.sym.__name__, mx.kv.__name__, mx.gluon.nn.__name__)
values = [block, block.weight, block.params, mx.nd.ones(1), mx.sym.var("x"), mx.optimizer.SGD(), mx.metric.Accuracy()]
values += [mx.init.One(), mx.cpu(), mx.gluon.nn.BatchNorm(), mx.io.NDArrayIter(mx.nd.ones(1)), mx.name.Prefix("a")]
values += [mx.np.ones(1), mx.sym.var("x").as_np_ndarray()]
print(*(f"{type(value).__module__}.{type(value).__name__}" for value in values), AlexNet.__module__)
for module in [m for name, m in sys.modules.items() if name.startswith("lowering.mx")]:
    for cls in vars(module).values():
        if isinstance(cls, type) and cls.__module__.startswith("mxnet"):
            assert pickle.loads(pickle.dumps(cls)) is cls
assert pickle.loads(before)[:2] == [mx.gluon.nn.Dense, mx.init.One]
assert pickle.loads(pickle.dumps(mx.init.Constant(3))).value == 3
"""


@pytest.mark.slow("starts processes")
def test_modules_and_classes_say_mxnets_names_and_can_be_pickled(tmp_path: Path):
    """The names are MXNet 1.9.1's."""
    (tmp_path / "script.py").write_text(NAMED)
    ended = run(tmp_path, "script.py")
    assert ended.returncode == 0, ended.stderr
    modules, classes = ended.stdout.splitlines()
    assert modules == "mxnet mxnet.ndarray mxnet.symbol mxnet.kvstore mxnet.gluon.nn"
    assert classes.split() == [
        "mxnet.gluon.nn.basic_layers.Dense",
        "mxnet.gluon.parameter.Parameter",
        "mxnet.gluon.parameter.ParameterDict",
        "mxnet.ndarray.ndarray.NDArray",
        "mxnet.symbol.symbol.Symbol",
        "mxnet.optimizer.optimizer.SGD",
        "mxnet.metric.Accuracy",
        "mxnet.initializer.One",
        "mxnet.context.Context",
        "mxnet.gluon.nn.basic_layers.BatchNorm",
        "mxnet.io.io.NDArrayIter",
        "mxnet.name.Prefix",
        "mxnet.numpy.ndarray",
        "mxnet.symbol.numpy._Symbol",
        "mxnet.gluon.model_zoo.vision.alexnet",
    ]


FUNCTIONS = """
import pickle
from lowering import mx
mx.install()
from mxnet import test_utils
groups = [mx.nd.random, mx.nd.contrib, mx.nd.sparse, mx.nd.linalg, mx.nd.image, mx.sym.random, mx.sym.contrib,
          mx.sym.linalg, mx.sym.sparse, mx.sym.image, mx.nd._internal, mx.sym._internal]
print(*(group.__name__ for group in groups))
functions = [mx.nd.relu, mx.sym.relu, mx.nd.random.uniform, mx.nd.contrib.box_nms, mx.sym.linalg.gemm2,
             mx.nd.sparse.dot, mx.nd.zeros, mx.nd.save, mx.image.imread, mx.gluon.utils.split_and_load,
             mx.io.ImageRecordIter, mx.model.save_checkpoint, test_utils.assert_almost_equal, mx.nd.waitall,
             mx.recordio.pack, mx.recordio.IRHeader, mx.base.MXNetError]
print(*(f"{each.__module__}.{each.__name__}" for each in functions))
assert all(pickle.loads(pickle.dumps(each)) is each for each in functions)
assert pickle.loads(pickle.dumps(mx.recordio.IRHeader(0, 1.0, 2, 0))).id == 2
"""


@pytest.mark.slow("starts processes")
def test_functions_and_their_groups_say_mxnets_names_and_can_be_pickled(tmp_path: Path):
    """The names are MXNet 1.9.1's, which says "ndarray" and "symbol" of operators' functions."""
    (tmp_path / "script.py").write_text(FUNCTIONS)
    ended = run(tmp_path, "script.py")
    assert ended.returncode == 0, ended.stderr
    groups, functions = ended.stdout.splitlines()
    kinds = ["random", "contrib", "sparse", "linalg", "image"]
    expected = [f"mxnet.{home}.{kind}" for home in ("ndarray", "symbol") for kind in kinds]
    assert sorted(groups.split()) == sorted([*expected, "mxnet.ndarray._internal", "mxnet.symbol._internal"])
    assert functions.split() == [
        "mxnet.ndarray.relu",
        "mxnet.symbol.relu",
        "mxnet.ndarray.random.uniform",
        "mxnet.ndarray.contrib.box_nms",
        "mxnet.symbol.linalg.gemm2",
        "mxnet.ndarray.sparse.dot",
        "mxnet.ndarray.ndarray.zeros",
        "mxnet.ndarray.utils.save",
        "mxnet.image.image.imread",
        "mxnet.gluon.utils.split_and_load",
        "mxnet.io.io.ImageRecordIter",
        "mxnet.model.save_checkpoint",
        "mxnet.test_utils.assert_almost_equal",
        "mxnet.ndarray.waitall",
        "mxnet.recordio.pack",
        "mxnet.recordio.IRHeader",
        "mxnet.base.MXNetError",
    ]


def test_without_install_a_function_says_where_it_is():
    assert mx.nd.relu.__module__ == "lowering.mx.ndarray"
    assert mx.nd.random.uniform.__module__ == mx.nd.random.__name__ == "lowering.mx.ndarray.random"
    assert pickle.loads(pickle.dumps(mx.nd.relu)) is mx.nd.relu
    assert mx.MXNetError.__name__ == "NNVMError"


@pytest.mark.slow("starts processes")
def test_jax_tells_of_no_compilation_where_a_script_logs_everything(tmp_path: Path):
    computes = "from lowering import mx\n(mx.nd.ones((2, 3)) + 1).asnumpy()"
    everything = "import logging\nlogging.basicConfig(level=logging.DEBUG)"
    quiet = run(tmp_path, "-c", f"{everything}\n{computes}")
    assert quiet.returncode == 0, quiet.stderr
    assert "compil" not in quiet.stderr.lower()
    asked = f"{everything}\nlogging.getLogger('jax').setLevel(logging.DEBUG)\n{computes}"
    assert "compil" in run(tmp_path, "-c", asked).stderr.lower()


@pytest.mark.slow("starts processes")
def test_the_scripts_own_error_ends_it(tmp_path: Path):
    (tmp_path / "script.py").write_text("import mxnet as mx\nmx.nd.ones((2, 3)).reshape((4, 4))\n")
    ended = run(tmp_path, "-m", "lowering.mx", "script.py")
    assert ended.returncode == 1
    assert "Cannot reshape array of size 6" in ended.stderr
    first, frame = ended.stderr.splitlines()[:2]
    assert (first, frame) == (
        "Traceback (most recent call last):",
        f'  File "{tmp_path / "script.py"}", line 2, in <module>',
    )
    (tmp_path / "script.py").write_text("import numpy\nnumpy.array([[1, 2], [3]])\n")
    assert run(tmp_path, "-m", "lowering.mx", "script.py").stderr.endswith("need np.array(lists, dtype=object).\n")


FAILING = """
import sys

sys.excepthook = lambda kind, error, trace: print(kind.__name__, trace.tb_frame.f_code.co_name, trace.tb_lineno)
raise KeyboardInterrupt
"""


@pytest.mark.slow("starts processes")
def test_a_scripts_traceback_begins_in_it_and_ends_as_pythons_does(tmp_path: Path):
    (tmp_path / "script.py").write_text(FAILING)
    for arguments in (["script.py"], ["-m", "script"]):
        ended = run(tmp_path, "-m", "lowering.mx", *arguments)
        assert ended.stdout == "KeyboardInterrupt <module> 5\n", ended.stderr
        assert ended.returncode == -signal.SIGINT


@pytest.mark.slow("starts processes")
@pytest.mark.parametrize("imported", [True, False])
def test_a_real_mxnet_is_not_hidden(tmp_path: Path, imported: bool):
    (tmp_path / "mxnet.py").write_text("__version__ = '1.9.1'\n")
    first = "import mxnet\n" if imported else ""
    (tmp_path / "script.py").write_text(f"{first}from lowering import mx\nmx.install()\n")
    ended = run(tmp_path, "script.py")
    assert ended.returncode == 1
    assert f"would hide the MXNet that is {'imported' if imported else 'installed'}" in ended.stderr


@pytest.mark.slow("starts processes")
def test_installing_twice_is_installing_once(tmp_path: Path):
    (tmp_path / "script.py").write_text(
        "import sys\nfrom lowering import mx\nbefore = len(sys.meta_path)\nmx.install()\nmx.install()\n"
        "assert len(sys.meta_path) == before + 1\nimport mxnet\nassert mxnet is mx\n"
    )
    ended = run(tmp_path, "script.py")
    assert ended.returncode == 0, ended.stderr


SPAWNING = """
import multiprocessing
import sys

import mxnet as mx


class Job:
    def __init__(self, size):
        self.size = size


def work(queue, job):
    queue.put((int(mx.nd.ones((job.size,)).sum().asscalar()), __name__))


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=work, args=(queue, Job(3)))
    process.start()
    print(*queue.get(timeout=100), sys.argv, __file__)
    process.join()
"""


@pytest.mark.nightly("starts processes")
def test_a_script_spawns_processes(tmp_path: Path):
    (tmp_path / "script.py").write_text(SPAWNING)
    ended = run(tmp_path, "-m", "lowering.mx", "script.py", "a")
    assert ended.stdout == f"3 __mp_main__ ['script.py', 'a'] {tmp_path / 'script.py'}\n", ended.stderr


@pytest.mark.slow("starts processes")
def test_code_is_run_as_python_runs_it(tmp_path: Path):
    code = "import mxnet, sys; print(mxnet.nd.ones(2).shape, sys.argv, __name__)"
    ended = run(tmp_path, "-m", "lowering.mx", "-c", code, "x")
    assert ended.stdout == "(2,) ['-c', 'x'] __main__\n", ended.stderr
    told = run(tmp_path, "-m", "lowering.mx", "-", "y", input=code)
    assert told.stdout == "(2,) ['-', 'y'] __main__\n", told.stderr
