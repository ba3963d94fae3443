"""Graphs over a mesh of devices: every check of `on_eight_devices.py`, and what two processes predict."""

import re
import socket
import subprocess
import sys

import jax
import numpy as np
import pytest

import lowering
from benchmarks.scaling import resnet
from lowering.training.placing import put_batch
from tests.lowering.sharding import on_eight_devices

DEAR = pytest.mark.nightly("compiles much; a small check asks the same, or as much as it can without a compiler")
OTHERS = (
    *("to_jax_lays_out_what_the_graph_says", "explicit_axes_work_everywhere", "no_loop_over_samples_gathers_the_batch"),
    *("a_predictor_splits_the_batch", "convolutions_send_no_more_than_by_hand"),
    "fsdp_gathers_parameters_and_sums_gradients",
)


@pytest.mark.eight_devices
@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=check.__name__, marks=[DEAR] * (check.__name__ in OTHERS))
        for check in on_eight_devices.CHECKS
    ],
)
def test_on_eight_devices(check):
    with jax.enable_x64(True):
        check()


@pytest.mark.nightly("compiles")
def test_a_mesh_of_one_device_compiles_to_the_same_program():
    model = resnet((1,), 2, 16, 4)
    rng = np.random.default_rng(0)
    batch = {"data": rng.standard_normal((2, 3, 16, 16)).astype("f"), "softmax_label": np.zeros(2, "f")}
    instructions = []
    for mesh in (None, jax.make_mesh((1,), ("data",))):
        trainer = lowering.Trainer(model.net, "sgd", {"momentum": 0.9}, mesh=mesh)
        state = trainer.init(0, data=batch["data"].shape)
        placed = {name: jax.device_put(array) for name, array in put_batch(trainer.placement, batch).items()}
        hlo = trainer.step_fn.lower(state, placed).compile().as_text()
        instructions.append(sorted(re.findall(r" ([a-z-]+)\(", hlo or "")))
    assert instructions[0] == instructions[1]
    assert len(instructions[0]) > 100


_PREDICTING = """
import sys, jax, numpy as np
jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
import lowering
from lowering import Batches
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import LoweringError

net = sym.FullyConnected(sym.Variable("data"), num_hidden=3, no_bias=True, name="fc")
params = {"fc_weight": np.arange(12.0, dtype=np.float32).reshape(3, 4)}
x = np.arange(52.0, dtype=np.float32).reshape(13, 4)
mesh = jax.make_mesh((2,), ("data",))
for sharding in ("replicate", [("fc_weight", jax.P(None, "data"))]):
    predict = lowering.Predictor(net, params, mesh=mesh, sharding=sharding)
    parts = [out for (out,) in predict.batches(Batches({"data": x}, 4, last="pad"))]
    np.testing.assert_allclose(np.concatenate(parts), x @ params["fc_weight"].T)
try:
    list(predict.batches(Batches({"data": x}, 4, last="pad", shard="process")))
except LoweringError as error:
    print(error)
"""


@pytest.mark.nightly("starts processes")
def test_two_processes_predict_a_data_set_in_order():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    own = [sys.executable, "-c", _PREDICTING, address]
    running = [
        subprocess.Popen([*own, str(i)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for i in range(2)
    ]
    for process in running:
        printed, wrong = process.communicate(timeout=300)
        assert process.returncode == 0, wrong
        assert "without shard" in printed
