"""Arrays of two devices, in a process of several of JAX's CPU devices of which some are called GPUs.

Run by test_two_devices.py; prints a JSON object of what each call said: the error, or the numbers and where they are.
"""

import json
import warnings
from typing import Any

import jax
import numpy as np

from lowering import mx
from lowering.mx import autograd, gluon
from lowering.mx import context as contexts

jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_platforms", "cpu")

_real = contexts._devices, contexts.kind_of
contexts._devices = lambda platform: jax.devices("cpu")[1:] if platform == "gpu" else _real[0](platform)
contexts.kind_of = lambda device: "gpu" if device in jax.devices("cpu")[1:] else _real[1](device)

HERE, THERE = mx.cpu(), mx.gpu(0)
A, B = mx.nd.ones((2, 2), ctx=THERE), mx.nd.ones((2, 2), ctx=HERE)
ADAM = mx.optimizer.create("adam")
SUM = mx.sym.var("x") + mx.sym.var("y")


class Sum(gluon.HybridBlock):
    def hybrid_forward(self, F: Any, x: Any, y: Any) -> Any:
        return F.broadcast_add(x, y)


def hybridised() -> Any:
    block = Sum()
    block.hybridize()
    return block(A, B)


def recorded() -> Any:
    A.attach_grad()
    with autograd.record():
        return A * B


def head_gradient() -> Any:
    A.attach_grad()
    with autograd.record():
        doubled = A * 2
    doubled.backward(B)


def in_place() -> Any:
    array = A.copy()
    array += B
    return array


def gradient_of_a_copy() -> Any:
    x = mx.nd.ones((2, 2), ctx=HERE)
    x.attach_grad()
    with autograd.record():
        z, _ = mx.nd.split((x * 3).as_in_context(THERE) * A, 2)
    z.backward()
    return x.grad


def second_gradient() -> Any:
    x = mx.nd.array([2.0], ctx=THERE)
    x.attach_grad()
    with autograd.record():
        y = autograd.grad(x * x * x, [x], create_graph=True)[0]
    y.backward()
    return x.grad


def stored() -> Any:
    store = mx.kv.create("device")
    store.init(0, B)
    store.set_updater(lambda key, pushed, held: held.__iadd__(pushed))
    store.push(0, [A, B, mx.nd.ones((2, 2), ctx=mx.gpu(1))])
    out = mx.nd.zeros((2, 2), ctx=THERE)
    store.pull(0, out=out)
    return out


def trained() -> Any:
    dense = gluon.nn.Dense(1, in_units=2, use_bias=False)
    dense.initialize(mx.init.One(), ctx=[mx.gpu(0), mx.gpu(1)])
    trainer = gluon.Trainer(dense.collect_params(), "sgd", {"learning_rate": 0.5})
    parts = gluon.utils.split_and_load(np.ones((4, 2), np.float32), [mx.gpu(0), mx.gpu(1)])
    with autograd.record():
        losses = [dense(part) for part in parts]
    autograd.backward(losses)
    trainer.step(4)
    return dense.weight.data(mx.gpu(1))


@mx.operator.register("shifted")
class Shifted(mx.operator.CustomOpProp):
    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> Any:
        """Keep an array where the data are."""
        one = mx.nd.ones((1,), ctx=ctx)

        class Op(mx.operator.CustomOp):
            def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
                self.assign(out_data[0], req[0], mx.nd.broadcast_add(in_data[0], one))

        return Op()


def custom() -> Any:
    return mx.nd.Custom(A, op_type="shifted") + mx.nd.Custom(A * 2, op_type="shifted")


def hybridised_there() -> Any:
    dense = gluon.nn.Dense(1, in_units=2, use_bias=False)
    dense.initialize(mx.init.One(), ctx=[THERE, mx.gpu(1)])
    dense.hybridize()
    for _ in range(3):
        dense(A)
    return dense(mx.nd.ones((2, 2), ctx=mx.gpu(1)))


def bound() -> Any:
    return SUM.bind(THERE, {"x": A, "y": A}).forward()[0]


def module() -> Any:
    data, label = mx.nd.ones((4, 2)), mx.nd.zeros((4,))
    head = mx.sym.LinearRegressionOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1), mx.sym.var("y"))
    one = mx.mod.Module(head, label_names=["y"], context=[mx.gpu(0), mx.gpu(1)])
    one.fit(mx.io.NDArrayIter(data, label, 4, label_name="y"), num_epoch=1, eval_metric="mse")
    return one.get_outputs()[0]


CALLS = {
    "a + b": lambda: A + B,
    "b + a": lambda: B + A,
    "two GPUs": lambda: A + mx.nd.ones((2, 2), ctx=mx.gpu(1)),
    "an operator of many": lambda: mx.nd.concat(A, A, B, dim=0),
    "in place": in_place,
    "recorded": recorded,
    "an update": lambda: ADAM.update(0, B, A, ADAM.create_state(0, B)),
    "a head gradient": head_gradient,
    "a mask": lambda: mx.nd.contrib.boolean_mask(A, mx.nd.ones(2, ctx=HERE)),
    "hybridised": hybridised,
    "CachedOp": lambda: mx.nd.CachedOp(SUM)(A, B),
    "bound": lambda: SUM.bind(THERE, {"x": A, "y": B}),
    "a parameter elsewhere": lambda: mx.nd.FullyConnected(A, B, num_hidden=2, no_bias=True),
    "a + a": lambda: A + A,
    "two of the CPU": lambda: mx.nd.ones(2, ctx=mx.cpu(1)) + mx.nd.ones(2, ctx=mx.cpu(0)),
    "copied": lambda: A + B.as_in_context(THERE),
    "written": lambda: A.copyto(mx.nd.zeros((2, 2), ctx=HERE)),
    "written as out": lambda: mx.nd.elemwise_add(A, A, out=mx.nd.zeros((2, 2), ctx=HERE)),
    "the gradient of a copy": gradient_of_a_copy,
    "a second gradient": second_gradient,
    "a store": stored,
    "trained": trained,
    "bound there": bound,
    "a module": module,
    "a CustomOp": custom,
    "hybridised there": hybridised_there,
    "moved between GPUs": lambda: A.as_in_context(mx.gpu(1)) * 2,
    "copied between GPUs": lambda: A.copyto(mx.nd.zeros((2, 2), ctx=mx.gpu(1))),
    "drawn there": lambda: mx.nd.random.uniform(A, A, ctx=HERE),
}


def main() -> None:
    """Print what each call said."""
    warnings.simplefilter("ignore")
    told: dict[str, Any] = {}
    for name, call in CALLS.items():
        try:
            result = call()
            told[name] = [result.asnumpy().tolist(), str(result.context), sorted(d.id for d in result.value.devices())]
        except mx.MXNetError as error:
            told[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(told))


if __name__ == "__main__":
    main()
