"""Our side of `zoo.py`: a contender, and the maker of the symbolic networks' files.

python benchmarks/zoo_ours.py make NAME FOLDER
python benchmarks/zoo_ours.py serve
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import numpy as np

import lowering
import symjax_nnvm
from benchmarks.contenders import Loaded, serve
from benchmarks.zoo_models import MOMENTUM, RATE, Row, files, initial_values, inputs, row_of, with_head
from symjax_nnvm import symbol as sym


def make(name: str, folder: str) -> None:
    """Write a symbolic network with values of a fixed seed. Its file holds for every batch but that of the LSTM."""
    row = Row(name, 32 if name == "lstm" else 1)
    build = row.network.source
    assert callable(build), f"{name} is Gluon's: only MXNet can make its file"
    net = build(sym)
    shapes = dict(zip(net.list_arguments(), net.infer_shape(data=row.shape)[0], strict=True))
    del shapes["data"]
    symjax_nnvm.save_checkpoint(files(folder, row), 0, net, initial_values(shapes), {})


def load(row: Row, folder: str) -> Loaded:
    """`Predictor` or `Trainer`, with the row's arrays on the device."""
    net, args, aux = symjax_nnvm.load_checkpoint(files(folder, row), 0)
    out_shape = net.infer_shape(data=row.shape)[1][0]
    given = {name: jax.device_put(array) for name, array in inputs(row, out_shape).items()}
    if row.training:
        return _training(with_head(sym, net, row), row, args, aux, given)
    predict = _predict(net, args, aux)
    outputs = predict(**given)
    return Loaded(lambda: jax.block_until_ready(predict(**given)), [np.asarray(output) for output in outputs])


def _predict(net: Any, args: Any, aux: Any) -> Any:
    """A `Predictor`; before there is one, the compiled symbol with its parameters on the device."""
    made = getattr(lowering, "Predictor", None)
    if made is not None:
        predictor = made(net, args, aux)
        return getattr(predictor, "predict", predictor)
    compiled = lowering.compile(net)
    placed, states = jax.device_put((dict(args), dict(aux)))
    return lambda **data: compiled({**placed, **data}, states)[0]


def _training(net: Any, row: Row, args: Any, aux: Any, batch: dict[str, jax.Array]) -> Loaded:
    parameters = {"learning_rate": RATE, "momentum": MOMENTUM, "wd": 0.0, "rescale_grad": 1 / row.batch}
    trainer = lowering.Trainer(net, "sgd", parameters, effort="full")  # as steps run after the first hundred
    trainer.init(0, args, aux, data=row.shape)
    outputs = [np.asarray(output) for output in trainer.step(batch)]
    momenta = trainer.require_state().opt_state["slots"]  # after one step they are the update
    update = np.concatenate([np.asarray(momenta[name][0]).ravel() for name in sorted(args)])
    return Loaded(lambda: jax.block_until_ready((trainer.step(batch), trainer.state)), [*outputs, update])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["make", name, folder]:
            make(name, folder)
        case ["serve"]:
            lowering.keep_memory()
            serve(row_of(load))
        case other:
            sys.exit(f"make or serve, not {other}")
