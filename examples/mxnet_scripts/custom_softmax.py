"""A softmax with its loss, written in Python as a CustomOp: in a module, and by itself under autograd."""

import mxnet as mx
import numpy as np


class Softmax(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        x = in_data[0].asnumpy()
        y = np.exp(x - x.max(axis=1, keepdims=True))
        self.assign(out_data[0], req[0], mx.nd.array(y / y.sum(axis=1, keepdims=True)))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        labels = in_data[1].asnumpy().astype(int)
        grad = out_data[0].asnumpy()
        grad[np.arange(len(labels)), labels] -= 1
        self.assign(in_grad[0], req[0], mx.nd.array(self.weight * grad))


@mx.operator.register("weighted_softmax")
class SoftmaxProp(mx.operator.CustomOpProp):
    def __init__(self, weight="1.0"):
        super().__init__(need_top_grad=False)
        self.weight = float(weight)

    def list_arguments(self):
        return ["data", "label"]

    def list_outputs(self):
        return ["output"]

    def infer_shape(self, in_shape):
        return [in_shape[0], [in_shape[0][0]]], [in_shape[0]], []

    def create_operator(self, ctx, shapes, dtypes):
        operator = Softmax()
        operator.weight = self.weight
        return operator


def main():
    rng = np.random.RandomState(4)
    centres = rng.normal(size=(3, 6))
    labels = rng.randint(3, size=100)
    points = (centres[labels] + 0.5 * rng.normal(size=(100, 6))).astype(np.float32)

    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc1")
    net = mx.sym.FullyConnected(mx.sym.Activation(net, act_type="relu"), num_hidden=3, name="fc2")
    net = mx.sym.Custom(net, op_type="weighted_softmax", weight=0.5, name="softmax")
    model = mx.mod.Module(net, context=mx.cpu())
    train = mx.io.NDArrayIter(points, labels.astype(np.float32), batch_size=20)
    weights = {
        "fc1_weight": rng.normal(scale=0.4, size=(8, 6)),
        "fc1_bias": np.zeros(8),
        "fc2_weight": rng.normal(scale=0.4, size=(3, 8)),
        "fc2_bias": np.zeros(3),
    }
    seen = []
    model.fit(
        train,
        num_epoch=4,
        optimizer="nag",
        optimizer_params={"learning_rate": 0.5, "momentum": 0.9},
        eval_metric="ce",
        arg_params={name: mx.nd.array(value) for name, value in weights.items()},
        batch_end_callback=lambda param: seen.append(param.eval_metric.get()[1]),
    )

    x = mx.nd.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.Custom(x * 2, mx.nd.array([0, 1]), op_type="weighted_softmax", weight=3)
    y.backward()
    return {
        "cross-entropy": seen,
        "score": dict(model.score(train, "acc")),
        "probabilities": y.asnumpy().tolist(),
        "gradient": x.grad.asnumpy().tolist(),
    }


if __name__ == "__main__":
    print(main())
