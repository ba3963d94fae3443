"""MXNet's side of `int8.py`, run by MXNet's environment: the float network, and what `quantize_model_mkldnn` makes."""

from __future__ import annotations

import os
import sys

import mxnet as mx  # type: ignore[import-not-found]
import numpy as np
from mxnet.contrib.quantization import quantize_model_mkldnn  # type: ignore[import-not-found]

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from benchmarks.contenders import Loaded, serve


def load(folder: str, integers: bool) -> Loaded:
    """Bind the files `net` for `images.npy`; fused for oneDNN, as its documentation advises. Fact: bytes."""
    net, args, aux = mx.model.load_checkpoint(os.path.join(folder, "net"), 0)
    images, batches = (np.load(os.path.join(folder, name)) for name in ("images.npy", "batches.npy"))
    if integers:
        net = net.get_backend_symbol("MKLDNN_QUANTIZE")
        data = mx.io.NDArrayIter(batches, batch_size=64)
        how = {"calib_mode": "naive", "calib_data": data, "quantized_dtype": "auto", "label_names": None}
        net, args, aux = quantize_model_mkldnn(net, args, aux, ctx=mx.cpu(), **how)
    else:
        net = net.get_backend_symbol("MKLDNN")
    labels = {name: images.shape[:1] for name in net.list_arguments() if name.endswith("label")}
    dtypes = {"data": np.float32, **{name: array.dtype for name, array in args.items()}}
    executor = net.simple_bind(mx.cpu(), grad_req="null", type_dict=dtypes, data=images.shape, **labels)
    executor.copy_params_from(args, aux)
    data = mx.nd.array(images)

    def call() -> np.ndarray:
        return executor.forward(is_train=False, data=data)[0].asnumpy()

    return Loaded(call, [call()])


if __name__ == "__main__":
    serve(load)
