"""LeNet with batch normalisation, trained step by step; a checkpoint in between, from which training goes on."""

import os
import tempfile

import mxnet as mx
import numpy as np


def images(count, seed):
    """Pictures (count, 1, 16, 16) of a bright square in one of four corners, and which corner."""
    rng = np.random.RandomState(seed)
    labels = rng.randint(4, size=count)
    pictures = 0.3 * rng.uniform(size=(count, 1, 16, 16))
    for picture, label in zip(pictures, labels, strict=True):
        row, column = 8 * (label // 2), 8 * (label % 2)
        picture[0, row : row + 8, column : column + 8] += 0.5
    return pictures.astype(np.float32), labels.astype(np.float32)


def network():
    net = mx.sym.Variable("data")
    for i, filters in enumerate((4, 8)):
        net = mx.sym.Convolution(net, kernel=(3, 3), num_filter=filters, no_bias=True, name=f"conv{i}")
        net = mx.sym.BatchNorm(net, fix_gamma=False, name=f"bn{i}")
        net = mx.sym.Activation(net, act_type="tanh", name=f"tanh{i}")
        net = mx.sym.Pooling(net, pool_type="max", kernel=(2, 2), stride=(2, 2), name=f"pool{i}")
    net = mx.sym.FullyConnected(mx.sym.Flatten(net), num_hidden=4, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def first_values(net, shape):
    """Parameters from a seed of NumPy's."""
    rng = np.random.RandomState(3)
    shapes, _, _ = net.infer_shape(data=shape)
    named = [(n, s) for n, s in zip(net.list_arguments(), shapes, strict=True) if n not in ("data", "softmax_label")]
    return {n: mx.nd.array(np.ones(s) if n.endswith("gamma") else rng.normal(scale=0.2, size=s)) for n, s in named}


def bound(net, shape, **kwargs):
    """A module for batches of a shape, which learns by Adam."""
    model = mx.mod.Module(net, context=mx.cpu(), **kwargs)
    model.bind(data_shapes=[("data", shape)], label_shapes=[("softmax_label", shape[:1])])
    return model


def main():
    train = mx.io.NDArrayIter(*images(160, 1), batch_size=16)
    shape = (16, 1, 16, 16)
    model = bound(network(), shape)
    model.init_params(mx.init.Zero(), arg_params=first_values(network(), shape), aux_params=None, allow_missing=True)
    model.init_optimizer(optimizer="adam", optimizer_params={"learning_rate": 0.01, "wd": 1e-3, "epsilon": 1e-3})
    metric = mx.metric.create(["acc", "ce"])
    history = []
    for epoch in range(2):
        train.reset()
        metric.reset()
        for batch in train:
            model.forward(batch, is_train=True)
            model.update_metric(metric, batch.label)
            model.backward()
            model.update()
            history.append(float(model.get_outputs()[0].asnumpy()[0].max()))
        if epoch == 0:
            with tempfile.TemporaryDirectory() as folder:
                prefix = os.path.join(folder, "lenet")
                model.save_checkpoint(prefix, 1, save_optimizer_states=True)
                restored = mx.mod.Module.load(prefix, 1, load_optimizer_states=True, context=mx.cpu())
                restored.bind(data_shapes=[("data", shape)], label_shapes=[("softmax_label", shape[:1])])
                restored.init_optimizer(
                    optimizer="adam", optimizer_params={"learning_rate": 0.01, "wd": 1e-3, "epsilon": 1e-3}
                )
                model = restored
    args, aux = model.get_params()
    features = mx.mod.Module(model.symbol.get_internals()["fc_output"], label_names=None, context=mx.cpu())
    features.bind(data_shapes=[("data", (5, 1, 16, 16))], for_training=False)
    features.set_params(args, aux)
    features.forward(mx.io.DataBatch([mx.nd.array(images(5, 2)[0])]))
    return {
        "largest probabilities": history,
        "metrics": dict(metric.get_name_value()),
        "states": {name: value.asnumpy().ravel()[:4].tolist() for name, value in sorted(aux.items())},
        "weights": {name: float(np.abs(value.asnumpy()).sum()) for name, value in sorted(args.items())},
        "features": features.get_outputs()[0].asnumpy().tolist(),
    }


if __name__ == "__main__":
    print(main())
