"""A factorisation machine: pairwise products of features in linear time, trained by an executor and an updater."""

import mxnet as mx
import numpy as np

FEATURES, FACTORS, BATCH = 30, 4, 20


def data(count):
    """Rows with three features each, and whether their hidden factors go together."""
    rng = np.random.RandomState(11)
    hidden = rng.normal(size=(FEATURES, 3))
    rows, labels = np.zeros((count, FEATURES), np.float32), np.zeros((count, 1), np.float32)
    for i in range(count):
        chosen = rng.choice(FEATURES, 3, replace=False)
        rows[i, chosen] = 1
        total = hidden[chosen].sum(0)
        labels[i] = (total @ total - (hidden[chosen] ** 2).sum()) > 0
    return rows, labels


def network():
    """σ(b + w·x + ½ Σ ((V x)² - V² x²))."""
    x, label = mx.sym.Variable("data"), mx.sym.Variable("label")
    linear = mx.sym.FullyConnected(x, num_hidden=1, name="linear")
    factors = mx.sym.Variable("factors", shape=(FEATURES, FACTORS), lr_mult=2.0, wd_mult=1.0)
    square_of_sums = mx.sym.square(mx.sym.dot(x, factors))
    sum_of_squares = mx.sym.dot(mx.sym.square(x), mx.sym.square(factors))
    pairs = 0.5 * mx.sym.sum(square_of_sums - sum_of_squares, axis=1, keepdims=True)
    return mx.sym.LogisticRegressionOutput(linear + pairs, label, name="out")


def main():
    rows, labels = data(200)
    net = network()
    executor = net.simple_bind(ctx=mx.cpu(), data=(BATCH, FEATURES), label=(BATCH, 1), grad_req="write")
    rng = np.random.RandomState(0)
    names = [name for name in net.list_arguments() if name not in ("data", "label")]
    for name in names:
        executor.arg_dict[name][:] = 0.1 * rng.normal(size=executor.arg_dict[name].shape)
    optimizer = mx.optimizer.create(
        "adagrad", learning_rate=0.1, wd=1e-4, rescale_grad=1.0 / BATCH, sym=net, param_idx2name=dict(enumerate(names))
    )
    updater = mx.optimizer.get_updater(optimizer)
    losses = []
    for step in range(20):
        part = slice(step * BATCH % 200, step * BATCH % 200 + BATCH)
        executor.forward(is_train=True, data=mx.nd.array(rows[part]), label=mx.nd.array(labels[part]))
        executor.backward()
        for i, name in enumerate(names):
            updater(i, executor.grad_dict[name], executor.arg_dict[name])
        p, y = executor.outputs[0], executor.arg_dict["label"]
        losses.append(float((-(y * mx.nd.log(p) + (1 - y) * mx.nd.log(1 - p))).mean().asscalar()))
    return {
        "losses": losses,
        "factors": executor.arg_dict["factors"][0:2].asnumpy().tolist(),
        "linear": float(mx.nd.norm(executor.arg_dict["linear_weight"]).asscalar()),
    }


if __name__ == "__main__":
    print(main())
