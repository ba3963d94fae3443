"""Make the goldens of networks on sparse storage: symbol files, and one step of training in MXNet 1.9.1.

Run by hand, in the environment of `tests/goldens/make.py`, from the project's root:

    mxnet-env/bin/python -m tests.goldens.sparse.make

For each network: its symbol file, and arrays `{network}|{arg, out, grad, new}|{name}` in `values.npz`: arguments, the
output in training, gradients, and parameters after one step of SGD. The arrays are stored dense; MXNet held data as
csr, tables as row_sparse.
"""

from collections.abc import Callable
from pathlib import Path

import mxnet as mx  # type: ignore[import-not-found]
import numpy as np

from tests.goldens.make import save

HERE = Path(__file__).parent
SAMPLES, FEATURES, WORDS = 6, 8, 5
RATE = 0.1


def wide_and_deep() -> mx.sym.Symbol:
    """A linear model of sparse features, added to a network of embedded words and numbers (Cheng et al., 2016)."""
    features = mx.sym.Variable("features", stype="csr")
    wide = mx.sym.sparse.dot(features, mx.sym.Variable("wide_weight", shape=(FEATURES, 2), stype="row_sparse"))
    wide = mx.sym.broadcast_add(wide, mx.sym.Variable("wide_bias", shape=(2,)))
    words, numbers = mx.sym.Variable("words"), mx.sym.Variable("numbers")
    parts = [
        mx.sym.sparse.Embedding(
            column,
            mx.sym.Variable(f"table{i}", stype="row_sparse"),
            input_dim=WORDS,
            output_dim=3,
            sparse_grad=True,
            name=f"embedding{i}",
        )
        for i, column in enumerate(mx.sym.split(words, num_outputs=2, squeeze_axis=True, name="columns"))
    ]
    deep = mx.sym.concat(*parts, numbers, dim=1, name="joined")
    deep = mx.sym.Activation(mx.sym.FullyConnected(deep, num_hidden=4, name="fc0"), act_type="relu", name="act0")
    deep = mx.sym.FullyConnected(deep, num_hidden=2, name="fc1")
    return mx.sym.SoftmaxOutput(wide + deep, mx.sym.Variable("label"), name="softmax")


def factorisation_machine() -> mx.sym.Symbol:
    """Features, and the products of all pairs of them, weighted by products of vectors (Rendle, 2010)."""
    data = mx.sym.Variable("data", stype="csr")
    factors = mx.sym.Variable("factors", shape=(FEATURES, 3), stype="row_sparse")
    weight = mx.sym.Variable("weight", shape=(FEATURES, 1), stype="row_sparse")
    linear = mx.sym.broadcast_add(mx.sym.sparse.dot(data, weight), mx.sym.Variable("bias", shape=(1,)))
    pairs = mx.sym.square(mx.sym.sparse.dot(data, factors)).sum(axis=1, keepdims=True)
    lengths = mx.sym._internal._square_sum(factors, axis=1, keepdims=True, name="lengths")
    itself = mx.sym.sparse.dot(mx.sym.sparse.square(data), lengths)
    score = linear + 0.5 * pairs - 0.5 * itself
    return mx.sym.LogisticRegressionOutput(score, mx.sym.Variable("label"), name="out")


NETWORKS: dict[str, tuple[Callable[[], mx.sym.Symbol], dict[str, tuple[int, ...]]]] = {
    "wide_and_deep": (wide_and_deep, {"features": (SAMPLES, FEATURES), "words": (SAMPLES, 2), "numbers": (SAMPLES, 2)}),
    "factorisation_machine": (factorisation_machine, {"data": (SAMPLES, FEATURES)}),
}
"""Name → (network, shapes of its inputs)."""


def values_of(symbol: mx.sym.Symbol, shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Arguments: sparse data with few numbers, words, labels of two classes, uniform parameters."""
    rng = np.random.RandomState(0)
    drawn: dict[str, np.ndarray] = {}
    for name, shape in zip(symbol.list_arguments(), symbol.infer_shape(**shapes)[0], strict=True):
        values = rng.uniform(-1, 1, shape)
        if name in ("features", "data"):
            values *= rng.uniform(size=shape) < 0.4
        elif name == "words":
            values = rng.randint(0, WORDS, shape)
        elif name == "label":
            values = rng.randint(0, 2, shape)
        drawn[name] = values.astype(np.float32)
    return drawn


def main() -> None:
    """Write the networks' files."""
    stored: dict[str, np.ndarray] = {}
    for name, (network, shapes) in NETWORKS.items():
        symbol = network()
        (HERE / f"{name}-symbol.json").write_text(symbol.tojson())
        args = values_of(symbol, shapes)
        inputs = {*shapes, "label"}
        hints = {"1": "row_sparse", "2": "csr", None: "default"}
        stypes = {key: hints[symbol.attr_dict().get(key, {}).get("__storage_type__")] for key in args}
        arrays = {key: mx.nd.array(value).tostype(stypes[key]) for key, value in args.items()}
        grads = {key: mx.nd.zeros(args[key].shape, stype=stypes[key]) for key in args if key not in inputs}
        required = {key: "write" if key in grads else "null" for key in args}
        executor = symbol.bind(mx.cpu(), arrays, args_grad=grads, grad_req=required)
        output = executor.forward(is_train=True)[0].asnumpy()
        executor.backward()
        found = {key: grad.asnumpy() for key, grad in executor.grad_dict.items() if grad is not None}
        for key in found:
            mx.nd.sgd_update(arrays[key], executor.grad_dict[key], lr=RATE, rescale_grad=1 / SAMPLES, out=arrays[key])
        stored |= {f"{name}|arg|{key}": value for key, value in args.items()}
        stored |= {f"{name}|out|0": output} | {f"{name}|grad|{key}": value for key, value in found.items()}
        stored |= {f"{name}|new|{key}": arrays[key].asnumpy() for key in found}
    save(HERE / "values.npz", stored)


if __name__ == "__main__":
    main()
