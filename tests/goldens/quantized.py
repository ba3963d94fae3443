"""What MXNet 1.9.1 makes of networks when it quantises them, and its thresholds: `quantized.json`.

Run by hand, in the environment of `tests/goldens/make.py` with scipy, from the project's root:

    mxnet-env/bin/python -m tests.goldens.quantized
"""

import json
from pathlib import Path
from typing import Any

import mxnet as mx  # type: ignore[import-not-found]
import numpy as np
from mxnet.contrib.quantization import (  # type: ignore[import-not-found]
    _get_optimal_threshold,
    combine_histogram,
    quantize_model,
    quantize_model_mkldnn,
)

from tests.quantization.networks import NETWORKS, VALUES, batches, parameters, values

HERE = Path(__file__).parent


def quantized(name: str, function: Any, mode: str) -> Any:
    """Quantise a network by one of MXNet's functions."""
    build, shape = NETWORKS[name]
    net = build(mx.sym)
    args, aux = ({k: mx.nd.array(a) for k, a in arrays.items()} for arrays in parameters(net, shape))
    data = np.concatenate(batches(name))
    label = "softmax_label" in net.list_arguments()
    feed = mx.io.NDArrayIter(data, np.zeros(len(data)) if label else None, batch_size=shape[0])
    return function(
        net,
        args,
        aux,
        label_names=("softmax_label",) if label else None,
        calib_mode=mode,
        calib_data=None if mode == "none" else feed,
        quantized_dtype="auto",
        quantize_granularity="channel-wise" if name == "attention" else "tensor-wise",
    )


def threshold(kind: str, dtype: str) -> float:
    """The threshold of a histogram."""
    histogram = None
    for array in values(kind):
        low, high = np.min(array), np.max(array)
        reach = max(abs(low), abs(high))
        if histogram is None:
            histogram = (*np.histogram(array, bins=8001, range=(-reach, reach)), low, high, reach)
        else:
            histogram = combine_histogram(histogram, array, low, high, reach)
    return float(_get_optimal_threshold(histogram, dtype)[2])


def main() -> None:
    """Ask for everything."""
    found: dict[str, Any] = {"networks": {}, "thresholds": {}}
    for name, (build, _) in NETWORKS.items():
        of_network = found["networks"][name] = {"float": json.loads(build(mx.sym).tojson())}
        for mode in ("naive", "entropy"):
            symbol, args, _ = quantized(name, quantize_model, mode)
            of_network[mode] = json.loads(symbol.tojson())
        of_network["int8"] = {key: a.asnumpy().ravel().tolist()[:40] for key, a in args.items() if "quantize" in key}
        # Fusing a network with an embedding crashes MXNet when it runs, but not when it is made.
        symbol, _, _ = quantized(name, quantize_model_mkldnn, "none" if name == "text" else "naive")
        of_network["fused"] = json.loads(symbol.tojson())
    found["thresholds"] = {kind: {dtype: threshold(kind, dtype) for dtype in ("int8", "auto")} for kind in VALUES}
    (HERE / "quantized.json").write_text(json.dumps(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
