"""MXNet's side of `zoo.py`, run by MXNet's environment: a contender, and the maker of the model files.

mxnet-env/bin/python benchmarks/zoo_mxnet.py make NAME FOLDER               # a network of Gluon's model zoo
mxnet-env/bin/python benchmarks/zoo_mxnet.py onnx NAME BATCH SOURCE FOLDER  # its file for onnxruntime
mxnet-env/bin/python benchmarks/zoo_mxnet.py serve
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mxnet as mx  # type: ignore[import-not-found]
import numpy as np
import onnx  # type: ignore[import-not-found]

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.contenders import Loaded, serve
from benchmarks.zoo_models import MOMENTUM, NETWORKS, RATE, Row, files, initial_values, inputs, row_of, with_head


def make(name: str, folder: str) -> None:
    """Export a model of gluon.model_zoo.vision with values of a fixed seed."""
    row = Row(name, 1)
    net = mx.gluon.model_zoo.vision.get_model(NETWORKS[name].source, prefix=f"{name}_")
    net.initialize()
    net.hybridize()
    net(mx.nd.zeros(row.shape))
    parameters = net.collect_params()
    values = initial_values({key: parameter.shape for key, parameter in parameters.items()})
    for key, parameter in parameters.items():
        parameter.set_data(mx.nd.array(values[key]))
    net.export(files(folder, row))


def to_onnx(name: str, batch: int, source: str, folder: str) -> None:
    """MXNet's export, into a folder, of a network whose files are in another.

    It lists weights as inputs, too, which onnxruntime takes for values that may change: it would fold and lay nothing,
    and warns so. They are taken out of the inputs, as it advises: ResNet-50 runs three times as fast.
    """
    row = Row(name, batch)
    prefix = files(source, row)
    path = f"{files(folder, row)}-b{batch}.onnx"
    mx.onnx.export_model(f"{prefix}-symbol.json", f"{prefix}-0000.params", [row.shape], np.float32, path)
    model = onnx.load(path)
    weights = {tensor.name for tensor in model.graph.initializer}
    for entry in [entry for entry in model.graph.input if entry.name in weights]:
        model.graph.input.remove(entry)
    onnx.save(model, path)


def load(row: Row, folder: str) -> Loaded:
    """The symbolic executor with the row's arrays in place."""
    net, args, aux = mx.model.load_checkpoint(files(folder, row), 0)
    _, (out_shape, *_), _ = net.infer_shape(data=row.shape)
    given = inputs(row, out_shape)
    if row.training:
        net = with_head(mx.sym, net, row)
    data = {name: array.shape for name, array in given.items()}
    requests = {name: "write" if row.training and name not in data else "null" for name in net.list_arguments()}
    executor = net.simple_bind(mx.cpu(), grad_req=requests, **data)
    executor.copy_params_from({**args, **{name: mx.nd.array(array) for name, array in given.items()}}, aux)
    return _training(executor, row, list(args)) if row.training else _inference(executor)


def _inference(executor: Any) -> Loaded:
    def call() -> None:
        executor.forward(is_train=False)
        for output in executor.outputs:
            output.wait_to_read()

    call()
    return Loaded(call, [output.asnumpy() for output in executor.outputs])


def _training(executor: Any, row: Row, names: list[str]) -> Loaded:
    """Forward, backward, and MXNet's own update of each parameter, as Module's has it."""
    weights = [(executor.arg_dict[name], executor.grad_dict[name]) for name in sorted(names)]
    momenta = [mx.nd.zeros(weight.shape) for weight, _ in weights]

    def call() -> None:
        executor.forward(is_train=True)
        executor.backward()
        for (weight, grad), momentum in zip(weights, momenta, strict=True):
            mx.nd.sgd_mom_update(
                weight, grad, momentum, lr=RATE, momentum=MOMENTUM, wd=0.0, rescale_grad=1 / row.batch, out=weight
            )
        mx.nd.waitall()

    call()
    outputs = [output.asnumpy() for output in executor.outputs]
    # After one step the momentum is the update.
    return Loaded(call, [*outputs, np.concatenate([m.asnumpy().ravel() for m in momenta])])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["make", name, folder]:
            make(name, folder)
        case ["onnx", name, batch, source, folder]:
            to_onnx(name, int(batch), source, folder)
        case ["serve"]:
            serve(row_of(load))
        case other:
            sys.exit(f"make, onnx or serve, not {other}")
