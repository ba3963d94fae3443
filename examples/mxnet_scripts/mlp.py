"""A multilayer perceptron that learns to tell classes apart, with Module.fit and all that belongs to it."""

import logging

import mxnet as mx
import numpy as np

logging.basicConfig(level=logging.INFO, format="%(message)s")


def images(count, seed):
    """Noisy pictures (count, 1, 12, 12) of ten shapes, and which shape each is."""
    rng = np.random.RandomState(7)
    shapes = rng.uniform(size=(10, 1, 12, 12))
    rng = np.random.RandomState(seed)
    labels = rng.randint(10, size=count)
    return (shapes[labels] + 0.3 * rng.normal(size=(count, 1, 12, 12))).astype(np.float32), labels.astype(np.float32)


def network():
    net = mx.sym.Flatten(mx.sym.Variable("data"))
    net = mx.sym.FullyConnected(net, num_hidden=32, name="fc1")
    net = mx.sym.Activation(net, act_type="relu", name="relu1")
    net = mx.sym.FullyConnected(net, num_hidden=16, name="fc2")
    net = mx.sym.Activation(net, act_type="relu", name="relu2")
    net = mx.sym.FullyConnected(net, num_hidden=10, name="fc3")
    return mx.sym.SoftmaxOutput(net, name="softmax")


@mx.init.register
class Seeded(mx.init.Initializer):
    """Normal numbers from a seed of NumPy's."""

    def __init__(self, scale):
        super().__init__(scale=scale)
        self.scale = scale

    def _init_weight(self, name, arr):
        rng = np.random.RandomState(len(name) + arr.size)
        arr[:] = rng.normal(scale=self.scale, size=arr.shape)


def main():
    np.random.seed(0)  # the iterator shuffles by NumPy's generator
    train = mx.io.NDArrayIter(*images(320, 1), batch_size=32, shuffle=True)
    valid = mx.io.NDArrayIter(*images(100, 2), batch_size=32)
    model = mx.mod.Module(network(), context=mx.cpu())
    seen = []
    model.fit(
        train,
        eval_data=valid,
        eval_metric=["acc", "ce", mx.metric.TopKAccuracy(top_k=3)],
        num_epoch=2,
        optimizer="sgd",
        optimizer_params={
            "learning_rate": 0.2,
            "momentum": 0.9,
            "wd": 1e-4,
            "lr_scheduler": mx.lr_scheduler.FactorScheduler(step=8, factor=0.5),
        },
        initializer=Seeded(0.1),
        batch_end_callback=[
            mx.callback.Speedometer(32, frequent=5, auto_reset=False),
            lambda param: seen.append(dict(param.eval_metric.get_name_value())),
        ],
    )
    args, _ = model.get_params()
    scores = model.score(valid, ["acc", "nll_loss"])
    predicted = model.predict(valid).asnumpy()
    return {
        "training cross-entropy": [row["cross-entropy"] for row in seen],
        "training accuracy": [row["accuracy"] for row in seen],
        "scores": dict(scores),
        "weights": {name: float(np.abs(value.asnumpy()).sum()) for name, value in sorted(args.items())},
        "predictions": predicted[:3].tolist(),
        "shape": list(predicted.shape),
    }


if __name__ == "__main__":
    print(main())
