"""Make the 8-bit networks that MXNet 1.9.1 made of small float32 ones, and what each of their nodes gives.

Run by hand, in the environment of tests/goldens/make.py, from the project's root:

    mxnet-env/bin/python -m tests.goldens.int8_networks.make

Each network's file has `symbol`, the JSON text as bytes; `arg:…` and `aux:…`; `node:…`, the outputs of its nodes for
the first images; and `top1` of all of them.
"""

from pathlib import Path
from typing import Any

import mxnet as mx  # type: ignore[import-not-found]
import numpy as np

from tests.goldens.int8_networks import images
from tests.goldens.make import save

HERE = Path(__file__).parent
SHOWN = 2


def conv(data: Any, name: str, filters: int, act: bool = True, **params: Any) -> Any:
    """A convolution with batch normalisation."""
    params = {"kernel": (3, 3), "pad": (1, 1), **params}
    out = mx.sym.Convolution(data, num_filter=filters, name=name, **params)
    out = mx.sym.BatchNorm(out, fix_gamma=False, eps=1e-5, name=f"{name}_bn")
    return mx.sym.Activation(out, act_type="relu", name=f"{name}_relu") if act else out


def plain() -> Any:
    """Convolutions, pooling, dense layers."""
    x = conv(mx.sym.var("data"), "c1", 8)
    x = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max", name="p1")
    x = mx.sym.Flatten(conv(x, "c2", 8), name="flat")
    x = mx.sym.Activation(mx.sym.FullyConnected(x, num_hidden=12, name="f1"), act_type="relu", name="f1_relu")
    return mx.sym.FullyConnected(x, num_hidden=7, name="f2")


def residual() -> Any:
    """Sums of what was rectified and of what was not, a mean of all."""
    x = conv(mx.sym.var("data"), "c1", 8)
    x = mx.sym.Activation(conv(x, "c2", 8, act=False) + x, act_type="relu", name="r1")
    short = conv(x, "short", 8, act=False, kernel=(1, 1), pad=(0, 0))
    x = mx.sym.Activation(conv(x, "c3", 8, act=False) + short, act_type="relu", name="r2")
    x = mx.sym.Pooling(x, kernel=(1, 1), global_pool=True, pool_type="avg", name="mean")
    return mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=7, name="f1")


def branches() -> Any:
    """Depth-wise convolutions, arrays that are joined, a mean of windows."""
    x = conv(mx.sym.var("data"), "c1", 6)
    deep = conv(x, "deep", 6, num_group=6, no_bias=True)
    x = mx.sym.Concat(conv(deep, "c2", 4, kernel=(1, 1), pad=(0, 0)), conv(x, "c3", 4, act=False), dim=1, name="join")
    x = mx.sym.Pooling(x, kernel=(3, 3), stride=(2, 2), pool_type="avg", name="p1")
    return mx.sym.FullyConnected(x, num_hidden=7, name="f1")


def make(name: str, symbol: Any) -> None:
    """Quantise one network, and write its file."""
    rng = np.random.RandomState(1 + len(name))
    data = images(name)
    shapes, _, states = symbol.infer_shape(data=(1, 3, 8, 8))
    arrays = zip(symbol.list_arguments(), shapes, strict=True)
    wide = {"gamma": 3.0, "beta": 0.1, "bias": 0.1}  # so that images of all colours are not one class
    args = {
        n: mx.nd.array(rng.uniform(-0.4, 0.4, s) * wide.get(n.rsplit("_")[-1], 1)) for n, s in arrays if n != "data"
    }
    aux = {
        n: mx.nd.array(rng.uniform(0.5, 1, s) * n.endswith("var"))
        for n, s in zip(symbol.list_auxiliary_states(), states, strict=True)
    }
    quantized, args, aux = mx.contrib.quantization.quantize_model_mkldnn(
        symbol, args, aux, calib_mode="naive", calib_data=mx.io.NDArrayIter(data, batch_size=32),
        num_calib_examples=len(data), quantized_dtype="auto", quantize_mode="smart", logger=None, label_names=None,
    )  # fmt: skip
    stored: dict[str, np.ndarray] = {
        "symbol": np.frombuffer(quantized.tojson().encode(), np.uint8),
        **{f"arg:{n}": a.asnumpy() for n, a in args.items()},
        **{f"aux:{n}": a.asnumpy() for n, a in aux.items()},
    }

    def outputs(of: Any, images: np.ndarray) -> list[np.ndarray]:
        args_of, aux_of = set(of.list_arguments()), set(of.list_auxiliary_states())
        given = {"data": mx.nd.array(images), **{n: a for n, a in args.items() if n in args_of}}
        states = {n: a for n, a in aux.items() if n in aux_of}
        return [out.asnumpy() for out in of.bind(mx.cpu(), given, aux_states=states, grad_req="null").forward()]

    inner = quantized.get_internals()
    variables = {*quantized.list_inputs()}
    for output in inner.list_outputs():
        if output not in variables:
            stored[f"node:{output}"] = outputs(inner[output], data[:SHOWN])[0]
    stored["top1"] = outputs(quantized, data)[0].argmax(1)
    save(HERE / f"{name}.npz", stored)
    print(name, (HERE / f"{name}.npz").stat().st_size, {n.split("_")[0] for n in variables})


if __name__ == "__main__":
    for network in (plain, residual, branches):
        make(network.__name__, network())
