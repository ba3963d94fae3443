"""The processes of these scripts that run in an environment of their own: one of `BACKENDS`, or a maker of model files.

    mxnet-env/bin/python benchmarks/worker.py mxnet

speaks the protocol of `contenders.py`. MXNet's and onnxruntime's interpreters run this file, too: each backend imports
what it needs.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import networks
from benchmarks.contenders import Loaded, cores, serve
from benchmarks.networks import MOMENTUM, RATE, Row, files, initial_values, inputs, row_of, with_head

# -- rows of `zoo.py` --------------------------------------------------------------------------------------------------


def ours(row: Row, folder: str) -> Loaded:
    """`Predictor` or `Trainer`, with the row's arrays on the device."""
    import jax

    import lowering
    import symjax_nnvm
    from symjax_nnvm import symbol as sym

    lowering.keep_memory()
    net, args, aux = symjax_nnvm.load_checkpoint(files(folder, row), 0)
    out_shape = net.infer_shape(data=row.shape)[1][0]
    data = {name: jax.device_put(array) for name, array in inputs(row, out_shape).items()}
    if not row.training:
        predict = lowering.Predictor(net, args, aux)
        with lowering.effort("full"):  # as calls run after the first
            outputs = [np.asarray(output) for output in predict(**data)]
        return Loaded(lambda: jax.block_until_ready(predict(**data)), outputs)
    parameters = {"learning_rate": RATE, "momentum": MOMENTUM, "wd": 0.0, "rescale_grad": 1 / row.batch}
    # As steps run after the first hundred.
    trainer = lowering.Trainer(with_head(sym, net, row), "sgd", parameters, effort="full")
    trainer.init(0, args, aux, data=row.shape)
    outputs = [np.asarray(output) for output in trainer.step(data)]
    momenta = trainer.require_state().opt_state["slots"]  # after one step they are the update
    update = np.concatenate([np.asarray(momenta[name][0]).ravel() for name in sorted(args)])
    return Loaded(lambda: jax.block_until_ready((trainer.step(data), trainer.state)), [*outputs, update])


def by_hand(row: Row, folder: str) -> Loaded:
    """JAX with its defaults, on weights that are (in, out) before the first call."""
    import jax
    import jax.numpy as jnp

    import symjax_nnvm
    from benchmarks.by_hand import network_by_hand

    _, args, aux = symjax_nnvm.load_checkpoint(files(folder, row), 0)
    data = jnp.asarray(inputs(row, ())["data"])
    plain, weights = network_by_hand(row.name, args, aux)
    function = jax.jit(plain)
    first = np.asarray(function(weights, data))
    return Loaded(lambda: jax.block_until_ready(function(weights, data)), [first])


def onnxruntime(row: Row, folder: str) -> Loaded:
    """A session with its own defaults, all optimisations; a thread for each core that the process may use."""
    session, feed = _session(row, folder, cores()), inputs(row, ())
    return Loaded(lambda: session.run(None, feed), session.run(None, feed))


def _session(row: Row, folder: str, threads: int) -> Any:
    import onnxruntime  # type: ignore[import-not-found]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    path = f"{files(folder, row)}-b{row.batch}.onnx"
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def mxnet(row: Row, folder: str) -> Loaded:
    """The symbolic executor with the row's arrays in place."""
    import mxnet as mx  # type: ignore[import-not-found]

    net, args, aux = mx.model.load_checkpoint(files(folder, row), 0)
    _, (out_shape, *_), _ = net.infer_shape(data=row.shape)
    data = inputs(row, out_shape)
    if row.training:
        net = with_head(mx.sym, net, row)
    requests = {name: "write" if row.training and name not in data else "null" for name in net.list_arguments()}
    executor = net.simple_bind(mx.cpu(), grad_req=requests, **{name: array.shape for name, array in data.items()})
    executor.copy_params_from({**args, **{name: mx.nd.array(array) for name, array in data.items()}}, aux)
    weights = [(executor.arg_dict[name], executor.grad_dict[name]) for name in sorted(args)]
    momenta = [mx.nd.zeros(weight.shape) for weight, _ in weights] if row.training else []

    def call() -> None:
        """Forward; in training backward, and MXNet's own update of each parameter, as Module's has it."""
        executor.forward(is_train=row.training)
        if row.training:
            executor.backward()
        for (weight, grad), momentum in zip(weights, momenta):  # noqa: B905  # no momenta in inference
            mx.nd.sgd_mom_update(
                weight, grad, momentum, lr=RATE, momentum=MOMENTUM, wd=0.0, rescale_grad=1 / row.batch, out=weight
            )
        mx.nd.waitall()

    call()
    outputs = [output.asnumpy() for output in executor.outputs]
    # After one step the momentum is the update.
    return Loaded(call, [*outputs, np.concatenate([m.asnumpy().ravel() for m in momenta])] if momenta else outputs)


# -- model files -------------------------------------------------------------------------------------------------------


def make(name: str, folder: str) -> None:
    """Write a network with values of a fixed seed: one of MXNet's model zoo by MXNet, a symbolic one by us."""
    row = Row(name, 32 if name == "lstm" else 1)  # a file holds for every batch but that of the LSTM
    if callable(row.network.source):
        import symjax_nnvm
        from symjax_nnvm import symbol as sym

        symbol = row.network.source(sym)
        shapes = dict(zip(symbol.list_arguments(), symbol.infer_shape(data=row.shape)[0], strict=True))
        del shapes["data"]
        symjax_nnvm.save_checkpoint(files(folder, row), 0, symbol, initial_values(shapes), {})
        return
    import mxnet as mx  # type: ignore[import-not-found]

    net = mx.gluon.model_zoo.vision.get_model(row.network.source, prefix=f"{name}_")
    net.initialize()
    net.hybridize()
    net(mx.nd.zeros(row.shape))
    parameters = net.collect_params()
    values = initial_values({key: parameter.shape for key, parameter in parameters.items()})
    for key, parameter in parameters.items():
        parameter.set_data(mx.nd.array(values[key]))
    net.export(files(folder, row))


def to_onnx(name: str, batch: str, source: str, folder: str) -> None:
    """MXNet's export, into a folder, of a network whose files are in another.

    It lists weights as inputs, too, which onnxruntime takes for values that may change: it would fold and lay nothing,
    and warns so. They are taken out of the inputs, as it advises: ResNet-50 runs three times as fast.
    """
    import mxnet as mx  # type: ignore[import-not-found]
    import onnx  # type: ignore[import-not-found]

    row = Row(name, int(batch))
    prefix = files(source, row)
    path = f"{files(folder, row)}-b{batch}.onnx"
    mx.onnx.export_model(f"{prefix}-symbol.json", f"{prefix}-0000.params", [row.shape], np.float32, path)
    model = onnx.load(path)
    weights = {tensor.name for tensor in model.graph.initializer}
    for entry in [entry for entry in model.graph.input if entry.name in weights]:
        model.graph.input.remove(entry)
    onnx.save(model, path)


# -- what other scripts run --------------------------------------------------------------------------------------------


def case(cells: Sequence[str]) -> Loaded:
    """A case of `networks.py` in MXNet's executor: its name, and "forward" or "gradient"."""
    import mxnet as mx  # type: ignore[import-not-found]

    name, part = cells
    chosen = networks.SMALL if name == "small" else networks.CASES[name]
    net = chosen.build(mx.sym)
    args, aux = ({key: mx.nd.array(value) for key, value in arrays.items()} for arrays in chosen.values(net))
    grads = {key: mx.nd.zeros(args[key].shape) for key in chosen.wrt(args)}
    requests = {key: "write" if key in grads else "null" for key in args}
    executor = net.bind(mx.cpu(), args, args_grad=grads, grad_req=requests, aux_states=aux)
    outputs = executor.forward(is_train=False)
    heads = [mx.nd.array(head) for head in chosen.heads(output.shape for output in outputs)]

    def call() -> None:
        executor.forward(is_train=part == "gradient")
        if part == "gradient":
            executor.backward(heads)
        mx.nd.waitall()

    return Loaded(call)


def gluon(cells: Sequence[str]) -> Loaded:
    """A row of `gluon.py` in MXNet."""
    import mxnet as mx  # type: ignore[import-not-found]

    from benchmarks.gluon import call_of

    return Loaded(call_of(mx, *cells))


def int8(folder: str, kind: str) -> Loaded:
    """The files `net` for `images.npy` in MXNet: "floats", fused for oneDNN as its documentation advises, or "made",
    what `quantize_model_mkldnn` makes of them; or the files "fused" as they are."""
    import mxnet as mx  # type: ignore[import-not-found]
    from mxnet.contrib.quantization import quantize_model_mkldnn  # type: ignore[import-not-found]

    net, args, aux = mx.model.load_checkpoint(os.path.join(folder, "fused" if kind == "fused" else "net"), 0)
    images, batches = (np.load(os.path.join(folder, name)) for name in ("images.npy", "batches.npy"))
    if kind == "floats":
        net = net.get_backend_symbol("MKLDNN")
    elif kind == "made":
        data = mx.io.NDArrayIter(batches, batch_size=64)
        how = {"calib_mode": "naive", "calib_data": data, "quantized_dtype": "auto", "label_names": None}
        net, args, aux = quantize_model_mkldnn(net, args, aux, ctx=mx.cpu(), **how)
    labels = {name: images.shape[:1] for name in net.list_arguments() if name.endswith("label")}
    dtypes = {"data": np.float32, **{name: array.dtype for name, array in args.items()}}
    executor = net.simple_bind(mx.cpu(), grad_req="null", type_dict=dtypes, data=images.shape, **labels)
    executor.copy_params_from(args, aux)
    data = mx.nd.array(images)

    def call() -> np.ndarray:
        return executor.forward(is_train=False, data=data)[0].asnumpy()

    return Loaded(call, [call()])


REQUESTS = 8
"""Requests of a thread in a call of `requests`."""


def requests(way: str, name: str, folder: str) -> Loaded:
    """As many threads as cores, each of which sends requests of one sample to one predictor."""
    row = Row(name, 1)
    sample = inputs(row, ())
    predict: Callable[[], Any]
    if way == "onnxruntime":
        session = _session(row, folder, 1)
        predict = lambda: session.run(None, sample)  # noqa: E731
    else:
        import jax

        import lowering

        lowering.keep_memory()
        predictor = lowering.Predictor.load(files(folder, row), 0, one_core=way == "one core")
        predict = lambda: jax.block_until_ready(predictor(**sample))  # noqa: E731
        with lowering.effort("full"):
            predict()

    def call() -> None:
        threads = [Thread(target=lambda: [predict() for _ in range(REQUESTS)]) for _ in range(cores())]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    predict()
    return Loaded(call)


def deep(variant: str, layers: int) -> Loaded:
    """Gradients of a stack of blocks, one of `zoo.DEEP`: traced, compiled and run once."""
    import jax

    import lowering
    from benchmarks.zoo import deep_gradient, fusions

    lowering.keep_memory()
    jitted, arguments = deep_gradient(variant, layers)
    start = time.perf_counter()
    compiled = jitted.lower(*arguments).compile()
    seconds = time.perf_counter() - start
    sizes, analysis = list(map(len, fusions(compiled.as_text() or ""))), compiled.memory_analysis()
    outputs, grads = compiled(*arguments)
    # Weights are ordered otherwise by hand; gradients in one array: those of the keys' biases are 0 but for rounding.
    vectors = [np.asarray(grads[name]) for name in sorted(grads) if not name.endswith("_weight")]
    found = [*map(np.asarray, jax.tree.leaves(outputs)), np.concatenate(vectors)]
    megabytes = 0 if analysis is None else analysis.temp_size_in_bytes / 1e6
    facts = {"compile": seconds, "megabytes": megabytes, "largest": max(sizes, default=0), "instructions": sum(sizes)}
    return Loaded(lambda: jax.block_until_ready(compiled(*arguments)), found, facts)


def accelerator(**asked: Any) -> Loaded:
    """A side of a row of `accelerator.py`."""
    from benchmarks.accelerator import loaded

    return loaded(**asked)


def pytorch(**asked: Any) -> Loaded:
    """PyTorch's side of a row of `accelerator.py`."""
    from benchmarks.pytorch import loaded

    return loaded(**asked)


BACKENDS: dict[str, Callable[..., Loaded]] = {
    **{backend.__name__: row_of(backend) for backend in (ours, by_hand, onnxruntime, mxnet)},
    **{backend.__name__: backend for backend in (case, gluon, int8, requests, deep, accelerator, pytorch)},
}

if __name__ == "__main__":
    match sys.argv[1:]:
        case ["make", name, folder]:
            make(name, folder)
        case ["onnx", name, batch, source, folder]:
            to_onnx(name, batch, source, folder)
        case [backend] if backend in BACKENDS:
            serve(BACKENDS[backend])
        case other:
            sys.exit(f"make, onnx or one of {', '.join(BACKENDS)}, not {other}")
