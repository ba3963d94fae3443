"""A perceptron whose batches two contexts share, each of which normalises its own rows."""

import mxnet as mx
import numpy as np

CONTEXTS = [mx.cpu(0), mx.cpu(1)]


def points(count, seed):
    """Points (count, 6) of four classes, the spread of which changes from row to row."""
    rng = np.random.RandomState(seed)
    labels = rng.randint(4, size=count)
    data = np.eye(4, 6)[labels] + 0.4 * rng.normal(size=(count, 6)) * np.linspace(0.2, 2, count)[:, None]
    return data.astype(np.float32), labels.astype(np.float32)


def network():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=12, no_bias=True, name="fc1")
    net = mx.sym.BatchNorm(net, fix_gamma=False, eps=1e-3, momentum=0.8, name="bn")
    net = mx.sym.Activation(net, act_type="tanh", name="tanh")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=4, name="fc2"), name="softmax")


def weights():
    rng = np.random.RandomState(3)
    shapes = {"fc1_weight": (12, 6), "bn_gamma": (12,), "bn_beta": (12,), "fc2_weight": (4, 12), "fc2_bias": (4,)}
    return {name: mx.nd.array(rng.uniform(0.1, 0.9, size=shape)) for name, shape in shapes.items()}


def numbers(arrays):
    return {name: array.asnumpy().ravel().tolist() for name, array in sorted(arrays.items())}


def trained():
    """Two epochs of ten steps by fit."""
    model = mx.mod.Module(network(), context=CONTEXTS)
    train = mx.io.NDArrayIter(*points(110, 1), batch_size=11)
    valid = mx.io.NDArrayIter(*points(33, 2), batch_size=11)
    states = {"bn_moving_mean": mx.nd.zeros(12), "bn_moving_var": mx.nd.ones(12)}
    model.fit(
        train,
        num_epoch=2,
        arg_params=weights(),
        aux_params=states,
        optimizer_params={"learning_rate": 0.5, "momentum": 0.9, "wd": 1e-3},
    )
    args, aux = model.get_params()
    return {"score": dict(model.score(valid, ["acc", "ce"])), "args": numbers(args), "aux": numbers(aux)}


def by_hand():
    """One step on contexts with unequal loads, the gradient of the data, and outputs before they are joined."""
    model = mx.mod.Module(network(), context=CONTEXTS, work_load_list=[1, 2])
    model.bind([("data", (8, 6))], [("softmax_label", (8,))], inputs_need_grad=True)
    model.init_params(mx.init.One(), arg_params=weights(), aux_params=None, allow_missing=True)
    model.init_optimizer(optimizer="adam", kvstore="device")
    data, label = points(8, 5)
    model.forward_backward(mx.io.DataBatch([mx.nd.array(data)], [mx.nd.array(label)]))
    apart = model.get_outputs(merge_multi_context=False)[0]
    found = {"out": model.get_outputs()[0], "grad": model.get_input_grads()[0]}
    model.update()
    sizes = [part.shape[0] for part in apart]
    return {"sizes": sizes, "arrays": numbers(found), "args": numbers(model.get_params()[0])}


def main():
    return {"fit": trained(), "step": by_hand()}


if __name__ == "__main__":
    print(main())
