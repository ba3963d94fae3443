"""An LSTM whose layers belong to two contexts (`ctx_group`, `group2ctx`), which learns to repeat what it was shown."""

import mxnet as mx
import numpy as np

LENGTH, BATCH, CLASSES, HIDDEN = 6, 10, 5, 8


def lstm(name, x, state, cell, params):
    """One step of an LSTM layer: (output, cell)."""
    gates = mx.sym.FullyConnected(x, weight=params["w"], bias=params["b"], num_hidden=4 * HIDDEN, name=f"{name}_x")
    gates = gates + mx.sym.FullyConnected(
        state, weight=params["u"], no_bias=True, num_hidden=4 * HIDDEN, name=f"{name}_h"
    )
    i, f, o, g = mx.sym.SliceChannel(gates, num_outputs=4, name=f"{name}_slice")
    cell = mx.sym.sigmoid(f) * cell + mx.sym.sigmoid(i) * mx.sym.tanh(g)
    return mx.sym.sigmoid(o) * mx.sym.tanh(cell), cell


def network():
    layers = []
    for i in range(2):
        with mx.AttrScope(ctx_group=f"layer{i}"):
            layers.append({key: mx.sym.Variable(f"l{i}_{key}") for key in ("w", "b", "u", "state", "cell")})
    with mx.AttrScope(ctx_group="layer0"):
        embedded = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=CLASSES, output_dim=HIDDEN, name="embed")
        steps = list(mx.sym.SliceChannel(embedded, num_outputs=LENGTH, axis=1, squeeze_axis=True))
    outputs = []
    for t, x in enumerate(steps):
        for i, layer in enumerate(layers):
            with mx.AttrScope(ctx_group=f"layer{i}"):
                x, layer["cell"] = lstm(f"l{i}_t{t}", x, layer["state"], layer["cell"], layer)
                layer["state"] = x
        outputs.append(x)
    with mx.AttrScope(ctx_group="layer1"):
        scores = mx.sym.FullyConnected(mx.sym.Concat(*outputs, dim=0), num_hidden=CLASSES, name="scores")
        label = mx.sym.Reshape(mx.sym.transpose(mx.sym.Variable("label")), shape=(-1,))
        return mx.sym.SoftmaxOutput(scores, label, normalization="batch", name="softmax")


def main():
    net = network()
    zeros = {f"l{i}_{kind}": (BATCH, HIDDEN) for i in range(2) for kind in ("state", "cell")}
    executor = net.simple_bind(
        mx.cpu(0),
        group2ctx={"layer0": mx.cpu(0), "layer1": mx.cpu(1)},
        grad_req={n: "null" if n in (*zeros, "data", "label") else "write" for n in net.list_arguments()},
        data=(BATCH, LENGTH),
        label=(BATCH, LENGTH),
        **zeros,
    )
    rng = np.random.RandomState(0)
    trained = [name for name, grad in zip(net.list_arguments(), executor.grad_arrays, strict=True) if grad is not None]
    for name in sorted(trained):
        executor.arg_dict[name][:] = rng.uniform(-0.3, 0.3, size=executor.arg_dict[name].shape)
    updater = mx.optimizer.get_updater(mx.optimizer.RMSProp(learning_rate=0.02))
    losses = []
    for _ in range(20):
        shown = rng.randint(CLASSES, size=(BATCH, LENGTH))
        executor.arg_dict["data"][:] = shown
        executor.arg_dict["label"][:] = np.roll(shown, 1, axis=1)
        executor.forward(is_train=True)
        executor.backward()
        for i, name in enumerate(trained):
            updater(i, executor.grad_dict[name], executor.arg_dict[name])
        targets = executor.arg_dict["label"].asnumpy().T.ravel().astype(int)
        losses.append(float(-np.log(executor.outputs[0].asnumpy()[np.arange(targets.size), targets]).mean()))
    return {
        "losses": losses,
        "weights": {name: float(np.abs(executor.arg_dict[name].asnumpy()).sum()) for name in sorted(trained)},
    }


if __name__ == "__main__":
    print(main())
