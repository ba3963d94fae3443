"""A network whose layers are split over devices, as the graph itself says: `__sharding__`.

    python examples/tensor_parallel.py [--steps N]

Two dense layers, as large transformers split them (Shoeybi et al. 2019): the first by its outputs, the second by its
inputs, so that all that is sent is one sum after the second. The batch is split over the other axis of the mesh. The
same graph runs on one device, where the attribute means nothing, and it is saved in the JSON.
"""

from __future__ import annotations

import argparse

import jax
import numpy as np

import lowering
from symjax_nnvm import symbol as sym

WIDTH, HIDDEN, BATCH = 64, 256, 32


def network() -> sym.Symbol:
    """data (n, 64) → (n, 64), through 256 units of which each device has a part."""
    up = sym.Variable("up_weight", attr={"__sharding__": "model, None"})
    bias = sym.Variable("up_bias", attr={"__sharding__": "model"})
    down = sym.Variable("down_weight", attr={"__sharding__": "None, model"})
    h = sym.FullyConnected(sym.Variable("data"), weight=up, bias=bias, num_hidden=HIDDEN, name="up")
    h = sym.relu(h, attr={"__sharding__": "data, model"}, name="hidden")
    out = sym.FullyConnected(h, weight=down, num_hidden=WIDTH, name="down", attr={"__sharding__": "data, None"})
    return sym.LinearRegressionOutput(out, name="out")


def main(steps: int) -> float:
    """How far the outputs on the mesh are from those on one device."""
    net = sym.load_json(network().tojson())  # the attributes are in the file
    mesh = jax.make_mesh((2, 4), ("data", "model"))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((BATCH, WIDTH)).astype(np.float32)
    batch = {"data": x, "out_label": np.sin(x)}

    found: dict[str, np.ndarray] = {}
    for what, where in {"one device": None, "2 x 4 devices": mesh}.items():
        trainer = lowering.Trainer(net, "adam", {"learning_rate": 0.01}, mesh=where)
        trainer.init(0, data=x.shape)
        losses = [float(np.square(trainer.step(batch)[0] - batch["out_label"]).mean()) for _ in range(steps)]
        assert trainer.state is not None
        params = trainer.state.params
        found[what] = np.asarray(lowering.Predictor(net, params, mesh=where)(data=x)[0])
        held = params["up_weight"].addressable_shards[0].data.shape
        print(f"{what}: loss {losses[0]:.4f} → {losses[-1]:.4f}; a device holds {held} of up_weight")
    return float(np.abs(found["one device"] - found["2 x 4 devices"]).max())


if __name__ == "__main__":
    lowering.keep_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", 8)  # a laptop stands in for eight devices
    print(f"largest difference of outputs: {main(options.steps):.1e}")
