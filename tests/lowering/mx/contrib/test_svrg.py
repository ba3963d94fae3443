"""`mx.contrib.svrg_optimization`: the rule's gradients, and what they are for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowering import mx

SVRGModule = mx.contrib.svrg_optimization.SVRGModule
RNG = np.random.default_rng(7)
X = RNG.standard_normal((22, 3)).astype(np.float32)
Y = (X @ np.array([1.0, -2, 0.5], np.float32)).astype(np.float32)


def made(**options: Any) -> Any:
    """A linear regression."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="fc")
    net = mx.sym.LinearRegressionOutput(net, mx.sym.Variable("label"), name="loss")
    return SVRGModule(net, label_names=["label"], **{"update_freq": 2, **options})


def batches() -> mx.io.NDArrayIter:
    """Three batches, the last one filled up."""
    return mx.io.NDArrayIter(X, Y, 8, label_name="label")


def gradient(x: np.ndarray, y: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Of the weight, summed over samples."""
    return (x @ weight.T + bias - y[:, None]).T @ x


@pytest.mark.parametrize("contexts", [1, 2])
def test_the_rule(contexts: int):
    module = made(context=[mx.cpu(i) for i in range(contexts)])
    data = batches()
    module.bind(data.provide_data, data.provide_label)
    module.init_params(mx.init.Uniform(1))
    module.init_optimizer(optimizer_params={"learning_rate": 0.3})
    before = [array.asnumpy() for array in module.get_params()[0].values()]
    module.update_full_grads(data)
    filled, labels = np.concatenate([X, X[:2]]), np.concatenate([Y, Y[:2]])
    mean = gradient(filled, labels, *before) / (3 - 2 / 8)
    found = sum(each["fc_weight"].asnumpy() for each in module._param_dict)
    np.testing.assert_allclose(found, mean, rtol=1e-5)
    data.reset()
    weight = before[0]
    for i in range(2):
        x, y = X[8 * i : 8 * i + 8], Y[8 * i : 8 * i + 8]
        now = [array.asnumpy() for array in module.get_params()[0].values()]
        module.forward(next(data), is_train=True)
        module.backward()
        module.update()
        weight = weight - 0.3 / 8 * (gradient(x, y, *now) - gradient(x, y, *before) + mean)
        np.testing.assert_allclose(module.get_params()[0]["fc_weight"].asnumpy(), weight, rtol=1e-4)
    module.update_full_grads(data)
    again = [array.asnumpy() for array in module.get_params()[0].values()]
    found = sum(each["fc_weight"].asnumpy() for each in module._param_dict)
    np.testing.assert_allclose(found, gradient(filled, labels, *again) / (3 - 2 / 8), rtol=1e-4, atol=1e-5)


@pytest.mark.slow("compiles")
def test_it_trains():
    module, data = made(), batches()
    taken: list[int] = []
    full = module.update_full_grads
    module.update_full_grads = lambda data: taken.append(1) or full(data)
    module.fit(data, eval_metric="mse", num_epoch=31, optimizer_params={"learning_rate": 0.2})
    assert len(taken) == 16
    assert dict(module.score(data, "mse"))["mse"] < 1e-3
    np.testing.assert_allclose(module.get_params()[0]["fc_weight"].asnumpy(), [[1, -2, 0.5]], atol=0.05)


def test_shapes_and_inference():
    module = made()
    module.bind([("data", (8, 3))], [("label", (8,))])
    module.init_params(mx.init.One())
    module.init_optimizer()
    module.update_full_grads(batches())
    module.reshape([("data", (4, 3))], [("label", (4,))])
    module.forward_backward(mx.io.DataBatch([mx.nd.ones((4, 3))], [mx.nd.zeros(4)]))
    assert module.get_outputs()[0].shape == (4, 1)
    module.update()
    other = made()
    other.bind([("data", (4, 3))], for_training=False)
    other.init_params(mx.init.One())
    other.reshape([("data", (2, 3))])
    other.forward(mx.io.DataBatch([mx.nd.ones((2, 3))]))
    assert other.get_outputs()[0].asnumpy().tolist() == [[3], [3]]
    assert not other._mod_aux.binded


def test_the_optimizer():
    optimizers = mx.contrib.svrg_optimization.svrg_optimizer
    numbered = {0: "w", 1: "w_full"}
    made: Any = mx.optimizer.create(
        "svrgoptimizer", default_optimizer="sgd", param_idx2name=numbered, learning_rate=1.0
    )
    assert made.default_opt.lr == 1
    updater = mx.optimizer.get_updater(made)
    weights = [mx.nd.zeros(2), mx.nd.zeros(2)]
    updater([0, 1], [mx.nd.ones(2), mx.nd.ones(2) * 5], weights)
    assert [each.asnumpy().tolist() for each in weights] == [[-1, -1], [5, 5]]
    given: Any = optimizers._SVRGOptimizer(mx.optimizer.create("sgd", momentum=0.5))
    assert given.default_opt.momentum == 0.5
    updater = mx.optimizer.get_updater(given)
    for _ in range(2):
        updater("w", mx.nd.ones(2), weights[0])
    np.testing.assert_allclose(weights[0].asnumpy(), -1 - 0.01 - 0.015, rtol=1e-6)
    assert isinstance(made.aux_opt, optimizers._AssignmentOptimizer)


def test_mistakes():
    for wrong, error in ((None, TypeError), (1.0, TypeError), (0, ValueError)):
        with pytest.raises(error, match="must be a positive integer"):
            made(update_freq=wrong)
    assert mx.contrib.svrg_optimization.svrg_module.SVRGModule is SVRGModule
