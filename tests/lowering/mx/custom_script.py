"""A network with an operator in Python that computes by `mx.nd`, run without waiting for results: by one module or
several, watched or not, by a predictor, or under a `jax.jit` of the caller's own, from one thread or sixteen."""

import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import lowering
from lowering import mx


class WeightedSoftmax(mx.operator.CustomOp):
    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        self.assign(out_data[0], req[0], mx.nd.SoftmaxOutput(in_data[0], in_data[1]))

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        label, prediction = in_data[1], out_data[0]
        weights = ((1 + label * 2.0) / 2.0).reshape((prediction.shape[0], 1))
        self.assign(in_grad[0], req[0], weights * (prediction - mx.nd.one_hot(label, 2)))


@mx.operator.register("weighted_softmax")
class WeightedSoftmaxProp(mx.operator.CustomOpProp):
    def list_arguments(self) -> list[str]:
        return ["data", "label"]

    def infer_shape(self, in_shape: Any) -> Any:
        return [in_shape[0], (in_shape[0][0],)], [in_shape[0]], []

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> WeightedSoftmax:
        return WeightedSoftmax()


def network() -> mx.sym.Symbol:
    data, label = mx.sym.Variable("data"), mx.sym.Variable("softmax_label")
    product = mx.sym.dot(data, mx.sym.Variable("weight", shape=(1000, 2)))
    return mx.sym.MakeLoss(mx.sym.Custom(product, label, op_type="weighted_softmax"))


def data(rows: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return random.random((rows, 1000), np.float32), (random.random(rows) > 0.5).astype(np.float32)


def module() -> None:
    batches = mx.io.NDArrayIter(*data(4000), 100, label_name="softmax_label")
    made = mx.mod.Module(network())
    made.bind(batches.provide_data, batches.provide_label)
    made.init_params(mx.init.Uniform(0.01))
    made.init_optimizer(optimizer_params={"learning_rate": 0.1})
    metric = mx.metric.create("acc")
    for _ in range(3):
        batches.reset()
        for batch in batches:
            made.forward_backward(batch)
            made.update()
            made.update_metric(metric, batch.label)


def fit() -> None:
    batches = mx.io.NDArrayIter(*data(1500), 100, label_name="softmax_label")
    seen: list[Any] = []
    monitor = mx.mon.Monitor(5, lambda x: mx.nd.norm(x) / x.size**0.5, pattern=".*output", sort=True)
    report = monitor.toc_print
    monitor.toc_print = lambda: seen.append(report())
    mx.mod.Module(network()).fit(batches, batches, ["acc", "nll_loss"], num_epoch=2, monitor=monitor)
    assert len(seen) == 30


def modules() -> None:
    in_threads(module, 4)


def jit() -> None:
    gradient = jax.jit(lowering.grad_fn(network()))
    rows, labels = data(100)
    weight = jnp.zeros((1000, 2))
    for _ in range(80):
        grads = gradient({"data": rows, "softmax_label": labels, "weight": weight})[1]
        weight = weight - 0.001 * grads["weight"]
    assert np.isfinite(np.asarray(weight)).all()


def threads() -> None:
    in_threads(jit, 16)


def predictor() -> None:
    rows, labels = data(100)
    predict = lowering.Predictor(network(), {"weight": np.zeros((1000, 2), np.float32), "softmax_label": labels})
    assert np.asarray([predict(data=rows)[0] + 1 for _ in range(60)][-1]).tolist() == [[1.5, 1.5]] * 100


def in_threads(function: Callable[[], None], count: int) -> None:
    threads = [threading.Thread(target=function) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    for way in (module, fit, modules, jit, threads, predictor):
        way()
        print(way.__name__, flush=True)
