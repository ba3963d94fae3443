"""Each common mistake at each door where a user gives arrays: the message names what he typed and what to type next."""

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lowering
from lowering import mx
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import NNVMError

X, Y = np.ones((2, 3), "f"), np.zeros(2, "f")
WIDE = np.ones((2, 5), "f")
PARAMS = {"fc_weight": np.ones((4, 3), "f"), "fc_bias": np.zeros(4, "f")}
ALL = PARAMS | {"data": X}


def network(of: Any) -> Any:
    return of.FullyConnected(of.Variable("data"), num_hidden=4, name="fc")


@cache
def doors() -> Any:
    """What the mistakes are made with."""
    net, theirs = network(sym), network(mx.sym)
    module = mx.mod.Module(theirs, label_names=None)
    module.bind([("data", (2, 3))], for_training=False)
    module.init_params()
    block = mx.gluon.nn.Dense(4, in_units=3)
    block.initialize()
    trainer = lowering.Trainer(sym.SoftmaxOutput(net, name="softmax"), "sgd")
    trainer.init(0, data=(2, 3), softmax_label=(2,))
    return SimpleNamespace(
        predict=lowering.Predictor(net, PARAMS),
        compiled=lowering.compile(net),
        function=lowering.to_jax(net),
        gradient=lowering.grad_fn(net, wrt=["fc_weight"]),
        executor=lowering.simple_bind(net, data=(2, 3)),
        theirs=theirs.simple_bind(mx.cpu(), data=(2, 3)),
        module=module,
        block=block,
        trainer=trainer,
    )


def batch(*data: Any) -> Any:
    return mx.io.DataBatch(list(data))


ND = mx.nd.array(X)
MISSING = (
    "missing ['data'] and unknown ['dat']; expected exactly ['data', 'fc_weight', 'fc_bias']. Did you mean 'data'?"
)
NEEDS = "With these parameters 'data' must have shape (?, 3)"
CALL = "For example: outputs, new_aux = f(args | {'data': x}, aux)."
GRADIENT_CALL = "For example: outputs, grads, new_aux = lowering.grad_fn(symbol)(args | {'data': x}, aux)."
PREDICT_CALL = "For example: predict(data=x)."
FORWARD_CALL = "executor.forward(is_train=False, data=x)"
MODULE_CALL = "For example: module.forward(mx.io.DataBatch([x], [label]))."
STEP_CALL = "For example: trainer.step({'data': x, 'softmax_label': y})."


def of_function(name: str, call: str) -> dict[str, tuple[Callable[[Any], Any], tuple[str, ...]]]:
    """The mistakes at a function of (args, aux)."""

    def of(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda d: make(getattr(d, name))

    return {
        f"{name}: an array": (of(lambda f: f(X)), ("args must be a dict of arrays by name, got one ndarray", call)),
        f"{name}: by keyword": (of(lambda f: f(data=X)), ("got ['data'] by name", call)),
        f"{name}: nothing": (of(lambda f: f()), ("got nothing", call)),
        f"{name}: wrong name": (of(lambda f: f(PARAMS | {"dat": X})), (MISSING,)),
        f"{name}: no data": (of(lambda f: f(PARAMS)), ("missing ['data']", "args | {'data': x}")),
        f"{name}: no parameters": (of(lambda f: f({"data": X})), ("missing ['fc_weight', 'fc_bias']", "load_check")),
        f"{name}: too many": (of(lambda f: f(ALL | {"more": X})), ("unknown ['more']; expected exactly", "subset")),
        f"{name}: None": (
            of(lambda f: f(ALL | {"data": None})),
            ("input 'data'; expected an array of numbers; got None",),
        ),
        f"{name}: a number as a name": (
            of(lambda f: f(ALL | {5: X})),
            ("names in args must be strings, got [5]", call),
        ),
        f"{name}: wrong size": (of(lambda f: f(ALL | {"data": WIDE})), (NEEDS,)),
        f"{name}: no batch": (of(lambda f: f(ALL | {"data": X[0]})), ("pass data[None], of shape (1, 3)",)),
    }


MISTAKES: dict[str, tuple[Callable[[Any], Any], tuple[str, ...]]] = {
    "predict: an array": (lambda d: d.predict(X), ("takes inputs by name", "got 1 ndarray by position", PREDICT_CALL)),
    "predict: two arrays": (lambda d: d.predict(X, X), ("got 2 ndarray by position", PREDICT_CALL)),
    "predict: a dict": (lambda d: d.predict({"data": X}), ("got 1 dict by position", "For example: predict(**arrays)")),
    "predict: a seed": (lambda d: d.predict(3, data=X), ("1 int by position and ['data'] by name", "a PRNG key")),
    "predict: wrong name": (
        lambda d: d.predict(dat=X),
        ("takes ['data'] by name: missing ['data'] and unknown ['dat']. Did you mean 'data'?", PREDICT_CALL),
    ),
    "predict: nothing": (lambda d: d.predict(), ("takes ['data'] by name: missing ['data'].", PREDICT_CALL)),
    "predict: too many": (lambda d: d.predict(data=X, more=X), ("unknown ['more'].", PREDICT_CALL)),
    "predict: a parameter": (
        lambda d: d.predict(data=X, fc_weight=X),
        ("The predictor has ['fc_weight'] already; expected ['data']",),
    ),
    "predict: None": (lambda d: d.predict(data=None), ("input 'data'; expected an array of numbers; got None",)),
    "predict: wrong size": (lambda d: d.predict(data=WIDE), (NEEDS,)),
    "predict: no batch": (lambda d: d.predict(data=X[0]), ("pass data[None], of shape (1, 3)",)),
    "predict.warm: wrong name": (
        lambda d: d.predict.warm(dat=(2, 3)),
        ("predict.warm takes ['data'] by name", "For example: predict.warm(data=x)."),
    ),
    **of_function("compiled", CALL),
    **of_function("function", CALL),
    **of_function("gradient", GRADIENT_CALL),
    "executor: an array": (lambda d: d.executor.forward(X), ("got ndarray", FORWARD_CALL)),
    "executor: a dict": (lambda d: d.executor.forward({"data": X}), ("got dict", FORWARD_CALL)),
    "executor: a dict behind": (
        lambda d: d.executor.forward(False, {"data": X}),
        ("got 1 bool by position and 1 dict by position", "forward(is_train=False, **arrays)"),
    ),
    "executor: wrong name": (lambda d: d.executor.forward(dat=X), ("Unknown argument dat", "Did you mean 'data'?")),
    "executor: too many": (lambda d: d.executor.forward(data=X, more=X), ("Unknown argument more", "'data'")),
    "executor: None": (lambda d: d.executor.forward(data=None), ("got NoneType for data", "data=np.asarray(...)")),
    "executor: wrong size": (lambda d: d.executor.forward(data=WIDE), ("Argument data, need: (2, 3)", NEEDS)),
    "executor: no batch": (lambda d: d.executor.forward(data=X[0]), ("pass data[None], of shape (1, 3)",)),
    "MXNet's executor: an array": (lambda d: d.theirs.forward(ND), ("got NDArray", FORWARD_CALL)),
    "MXNet's executor: behind": (lambda d: d.theirs.forward(False, ND), ("1 NDArray by position", FORWARD_CALL)),
    "MXNet's executor: wrong name": (
        lambda d: d.theirs.forward(dat=ND),
        ("Unknown argument dat", "Did you mean 'data'?"),
    ),
    "module: an array": (lambda d: d.module.forward(ND), ("takes a DataBatch, got 1 NDArray", MODULE_CALL)),
    "module: NumPy's": (lambda d: d.module.forward(X), ("got 1 ndarray by position", MODULE_CALL)),
    "module: a list": (lambda d: d.module.forward([ND]), ("got 1 list by position", MODULE_CALL)),
    "module: a dict": (lambda d: d.module.forward({"data": ND}), ("got 1 dict by position", MODULE_CALL)),
    "module: None": (lambda d: d.module.forward(None), ("got 1 NoneType by position", MODULE_CALL)),
    "module: nothing": (lambda d: d.module.forward(), ("got nothing", MODULE_CALL)),
    "module: by keyword": (lambda d: d.module.forward(data=ND), ("got ['data'] by name", MODULE_CALL)),
    "module: too many": (
        lambda d: d.module.forward(batch(ND, ND)),
        ("expected data for ['data']; got 2 arrays", "mx.io"),
    ),
    "module: no data": (lambda d: d.module.forward(batch()), ("expected data for ['data']; got 0 arrays", "mx.io")),
    "module: None inside": (lambda d: d.module.forward(batch(None)), ("no samples of 'data'", "got NoneType")),
    "module: no batch": (lambda d: d.module.forward(batch(ND[0])), ("got data (3,)", "only the number of rows may")),
    "block: NumPy's": (lambda d: d.block(X), ("got ndarray", "mx.nd.array(x) makes an NDArray")),
    "block: a dict": (lambda d: d.block({"data": ND}), ("got dict", "mx.nd.array(x)")),
    "block: None": (lambda d: d.block(None), ("got NoneType", "mx.nd.array(x)")),
    "block: by keyword": (lambda d: d.block(data=ND), ("takes ['x'] by position, got ['data'] by name", "block(x)")),
    "block: nothing": (lambda d: d.block(), ("Dense takes ['x'] by position, got nothing", "block(x)")),
    "block: too many": (lambda d: d.block(ND, ND), ("got 2 NDArray by position", "block(x)")),
    "trainer: nothing": (lambda d: d.trainer.step(), ("got nothing", STEP_CALL)),
    "trainer: by keyword": (lambda d: d.trainer.step(data=X), ("got ['data'] by name", STEP_CALL)),
    "trainer: two": (lambda d: d.trainer.step(X, Y), ("got 2 ndarray by position", STEP_CALL)),
    "trainer: an array": (lambda d: d.trainer.step(X), ("lacks the labels ['softmax_label']", "(data, label)")),
    "trainer: wrong name": (
        lambda d: d.trainer.step({"dat": X, "softmax_label": Y}),
        ("unknown arguments ['dat'] and lacks the data ['data']", "{'data': batch['dat']}"),
    ),
    "trainer: too many": (
        lambda d: d.trainer.step({"data": X, "softmax_label": Y, "more": X}),
        ("unknown arguments ['more']; expected exactly ['data', 'softmax_label']",),
    ),
    "trainer: None": (lambda d: d.trainer.step({"data": None, "softmax_label": Y}), ("input 'data'", "got NoneType")),
    "trainer: wrong size": (
        lambda d: d.trainer.step({"data": WIDE, "softmax_label": Y}),
        ("'data' must have shape (2, 3)", "The batch that does not fit: data (2, 5)"),
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_the_words_of_its_door(mistake: str):
    make, said = MISTAKES[mistake]
    with pytest.raises(NNVMError) as told:
        make(doors())
    assert [part for part in said if part not in str(told.value)] == [], str(told.value)
    others = {"predict": "args |", "gradient": "_head_grad", "block": "f(args"}
    assert others.get(mistake.partition(":")[0], "zip()") not in str(told.value)


def test_a_type_error_of_ones_own_code_passes():
    class Adds(mx.gluon.Block):
        def forward(self, x: Any) -> Any:
            return x + "text" + len(3)  # pyright: ignore[reportArgumentType]

    with pytest.raises(TypeError) as told:
        Adds()(mx.nd.ones(2))
    assert "by position" not in str(told.value)
