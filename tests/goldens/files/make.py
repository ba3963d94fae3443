"""Make the array files that MXNet 1.9.1 writes, and what it reads from them. Run by hand in MXNet's environment.

mxnet-env/bin/python -m tests.goldens.files.make
"""

import json
from pathlib import Path

import mxnet as mx  # type: ignore[import-not-found]
import numpy as np

from tests.goldens.files.generations import GENERATIONS, RULES

HERE = Path(__file__).parent


def arrays() -> dict[str, mx.nd.NDArray]:
    """One array of each dtype that MXNet 1.x saves, an empty one, and both kinds of sparse ones."""
    named = {
        f"arg:{dtype}": mx.nd.array(np.arange(6).reshape(2, 3) % 5, dtype=dtype)
        for dtype in ("float32", "float64", "float16", "uint8", "int32", "int8", "int64")
    }
    named["aux:bool"] = mx.nd.array([True, False, True], dtype=bool)
    named["arg:ümlaut"] = mx.nd.array([1.5])
    rows = mx.nd.sparse.row_sparse_array(([[1.0, 2], [3, 4]], [1, 3]), shape=(5, 2))
    csr = mx.nd.sparse.csr_matrix(([1.0, 2, 3], [1, 0, 2], [0, 1, 1, 3]), shape=(3, 4))
    return named | {"rows": rows, "csr": csr}


LEGACY = {
    "legacy_08": {
        "nodes": [
            {"op": "null", "name": "data", "inputs": [], "param": {}, "backward_source_id": -1},
            {"op": "null", "name": "fc1_weight", "inputs": [], "param": {}, "backward_source_id": -1},
            {"op": "null", "name": "fc1_bias", "inputs": [], "param": {}, "backward_source_id": -1},
            {
                "op": "FullyConnected",
                "name": "fc1",
                "inputs": [[0, 0], [1, 0], [2, 0]],
                "param": {"no_bias": "False", "num_hidden": "4"},
                "attr": {"ctx_group": "stage1", "wd_mult": "0.3", "weight_lr_mult": "1.2"},
                "backward_source_id": -1,
            },
            {"op": "null", "name": "bn_gamma", "inputs": [], "param": {}, "backward_source_id": -1},
            {"op": "null", "name": "bn_beta", "inputs": [], "param": {}, "backward_source_id": -1},
            {
                "op": "BatchNorm",
                "name": "bn",
                "inputs": [[3, 0], [4, 0], [5, 0]],
                "param": {"eps": "0.001", "fix_gamma": "True"},
                "backward_source_id": -1,
            },
            {"op": "argmax", "name": "best", "inputs": [[6, 0]], "param": {"axis": "-1"}, "backward_source_id": -1},
        ],
        "arg_nodes": [0, 1, 2, 4, 5],
        "heads": [[7, 0]],
    },
    "legacy_10": {
        "nodes": [
            {"op": "null", "name": "data", "attr": {"lr_mult": "0.5"}, "inputs": []},
            {"op": "null", "name": "act_gamma", "inputs": []},
            {
                "op": "LeakyReLU",
                "name": "act",
                "attr": {"act_type": "prelu", "force_mirroring": "True"},
                "inputs": [[0, 0, 0], [1, 0, 0]],
            },
        ],
        "arg_nodes": [0, 1],
        "heads": [[2, 0, 0]],
        "attrs": {"mxnet_version": ["int", 903]},
    },
}
"""Symbols as older versions wrote them, made by hand after the rules of MXNet's legacy_json_util.cc."""


def network() -> mx.sym.Symbol:
    """A small network with states."""
    net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=4, name="conv")
    net = mx.sym.Activation(mx.sym.BatchNorm(net, fix_gamma=False, name="bn"), act_type="relu", name="relu")
    net = mx.sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=3, name="fc"), name="softmax")


def checkpoint() -> None:
    """A checkpoint, an input, and what MXNet computes from it."""
    rng = np.random.RandomState(0)
    symbol = network()
    shapes, _, states = symbol.infer_shape(data=(2, 1, 8, 8))
    args = {n: mx.nd.array(rng.normal(size=s)) for n, s in zip(symbol.list_arguments(), shapes, strict=True)}
    aux = {
        n: mx.nd.array(rng.uniform(0.5, 1, size=s)) for n, s in zip(symbol.list_auxiliary_states(), states, strict=True)
    }
    data, label = args.pop("data"), args.pop("softmax_label")
    executor = symbol.bind(mx.cpu(), {**args, "data": data, "softmax_label": label}, aux_states=aux)
    output = executor.forward(is_train=False)[0]
    mx.model.save_checkpoint(str(HERE / "net"), 3, symbol, args, aux)
    np.savez_compressed(HERE / "net_expected.npz", data=data.asnumpy(), output=output.asnumpy())


def upgraded() -> dict[str, dict[str, str]]:
    """What MXNet saves after it loaded each file of `generations`, or what it says when it does not."""
    found: dict[str, dict[str, str]] = {}
    for name, document in (GENERATIONS | RULES).items():
        try:
            found[name] = {"saved": mx.sym.load_json(json.dumps(document, ensure_ascii=False)).tojson()}
        except mx.MXNetError as error:
            found[name] = {"error": str(error).strip().splitlines()[-1]}
    return found


def main() -> None:
    """Write array files, a checkpoint, and old symbols with what MXNet makes of them."""
    checkpoint()
    (HERE / "generations.json").write_text(json.dumps(upgraded(), indent=1, ensure_ascii=False) + "\n")
    for name, document in LEGACY.items():
        text = json.dumps(document)
        (HERE / f"{name}.json").write_text(text)
        (HERE / f"{name}_loaded.json").write_text(mx.sym.load_json(text).tojson())
    mx.nd.save(str(HERE / "dict.params"), arrays())
    mx.nd.save(str(HERE / "list.params"), [mx.nd.array([[1, 2, 3]]), mx.nd.array([4.0])])
    mx.nd.save(str(HERE / "empty.params"), {})
    bfloat16 = np.dtype([("bfloat16", np.uint16)])  # how MXNet spells it
    mx.nd.save(str(HERE / "bfloat16.params"), {"w": mx.nd.array([1, -2.5, 3e38]).astype(bfloat16)})
    with mx.util.np_shape(True):
        mx.nd.save(str(HERE / "scalar.params"), [mx.np.array(3.5).as_nd_ndarray(), mx.np.zeros((2, 0)).as_nd_ndarray()])


if __name__ == "__main__":
    main()
