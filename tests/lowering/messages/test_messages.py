"""Mistakes that people make with the Python API: the message holds the way out. A row is a mistake."""

# The calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false, reportIndexIssue=false

import functools
import re
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from lowering import Batches, Trainer, mx
from lowering.messages.migration_hints import ATTRIBUTES, KEYWORDS
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import NNVMError, listed
from tests.support.refusals import refused

X, Y = np.ones((4, 5), np.float32), np.zeros(4, np.float32)
IMAGES = np.ones((4, 3, 8, 8), np.float32)


def dense() -> sym.Symbol:
    """data (n, 5) → probabilities of three classes."""
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=6, name="fc1")
    net = sym.FullyConnected(sym.relu(net, name="relu1"), num_hidden=3, name="fc2")
    return sym.SoftmaxOutput(net, name="softmax")


def convolutional() -> sym.Symbol:
    """data (n, 3, 8, 8) → probabilities of three classes, through a BatchNorm."""
    net = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=4, name="conv")
    net = sym.FullyConnected(sym.BatchNorm(net, name="bn"), num_hidden=3, name="fc")
    return sym.SoftmaxOutput(net, name="softmax")


def for_batches_of_four() -> sym.Symbol:
    """data (4, 5) and no other number of samples."""
    net = sym.reshape(sym.Variable("data"), shape=(4, 5), name="fixed")
    return sym.SoftmaxOutput(sym.FullyConnected(net, num_hidden=3, name="fc"), name="softmax")


def numbers(symbol: sym.Symbol, **shapes: tuple[int, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and states, all 0.1."""
    args, _, aux = symbol.infer_shape(**shapes)
    named = zip(symbol.list_arguments(), args, strict=True)
    fed = {*shapes, "softmax_label"}
    states = zip(symbol.list_auxiliary_states(), aux, strict=True)
    return (
        {name: np.full(shape, 0.1, np.float32) for name, shape in named if name not in fed},
        {name: np.full(shape, 0.1, np.float32) for name, shape in states},
    )


NET, CONV, FIXED = dense(), convolutional(), for_batches_of_four()
ARGS, _ = numbers(NET, data=(4, 5))
CONV_ARGS, CONV_AUX = numbers(CONV, data=(4, 3, 8, 8))
FIXED_ARGS, _ = numbers(FIXED, data=(4, 5))
TYPO = {name.replace("weight", "wieght"): value for name, value in ARGS.items()}
BATCHES = Batches({"data": np.ones((8, 5), np.float32), "softmax_label": np.zeros(8)}, 4)


def trainer() -> Trainer:
    made = Trainer(NET, "sgd")
    made.init(0, data=(4, 5))
    return made


def executor() -> lowering.Executor:
    return lowering.simple_bind(NET, data=(4, 5))


MISTAKES: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    # names of arrays
    "label missing": (lambda: lowering.to_jax(NET)(ARGS | {"data": X}), ("softmax_label", "inference_symbol")),
    "label missing in bind": (lambda: lowering.bind(NET, args=ARGS | {"data": X}), ("inference_symbol",)),
    "data missing": (lambda: lowering.to_jax(nn.inference_symbol(NET))(ARGS), ("args | {'data': x}",)),
    "parameters missing": (lambda: lowering.to_jax(NET)({"data": X}), ("load_checkpoint", "lowering.init_params")),
    "states missing": (lambda: lowering.to_jax(CONV)(CONV_ARGS | {"data": IMAGES}), ("f(args, aux)",)),
    "misspelt": (lambda: lowering.to_jax(NET)(TYPO | {"data": X}), ("did you mean 'fc1_weight'",)),
    "swapped": (lambda: lowering.to_jax(CONV)(CONV_AUX, CONV_ARGS | {"data": IMAGES}), ("swapped", "f(args, aux)")),
    "merged": (lambda: lowering.to_jax(CONV)(CONV_ARGS | CONV_AUX), ("merged", "symjax_nnvm.subset(symbol, arrays)")),
    "names of a file": (
        lambda: lowering.to_jax(NET)({f"arg:{name}": value for name, value in ARGS.items()}),
        ("load_checkpoint", "match_params"),
    ),
    "surplus after cut": (
        lambda: lowering.compile(nn.cut(NET, "fc1"))(ARGS | {"data": X}),
        ("fc2_weight", "symjax_nnvm.subset(symbol, args, aux)"),
    ),
    "surplus in init": (
        lambda: Trainer(sym.SoftmaxOutput(nn.cut(NET, "fc1"), name="softmax")).init(0, ARGS, data=(4, 5)),
        ("fc2_weight", "symjax_nnvm.subset"),
    ),
    "misspelt in init": (lambda: Trainer(NET).init(0, TYPO, data=(4, 5)), ("did you mean 'fc1_weight'",)),
    "surplus in copy": (
        lambda: executor().copy_params_from({"other": X}),
        ("allow_extra_params=True", "symjax_nnvm.subset"),
    ),
    # dicts
    "list": (lambda: lowering.compile(NET)([X]), ("dict of arrays by name", "symbol.list_arguments()")),
    "array": (lambda: lowering.compile(NET)(X), ("args | {'data': x}",)),
    "array for grad_fn": (lambda: lowering.grad_fn(NET)(X), ("args | {'data': x}",)),
    "array for differentiable": (lambda: lowering.differentiable(NET)(X), ("args | {'data': x}",)),
    "list for check_gradients": (lambda: lowering.check_gradients(NET, [X]), ("lowering.check_gradients(",)),
    "array for bind": (lambda: lowering.bind(NET, args=X), ("lowering.bind(symbol, args=",)),
    "no symbol": (lambda: lowering.compile("mlp-symbol.json"), ("load_checkpoint",)),
    "three for one": (lambda: Trainer((NET, ARGS, {})), ("net, args, aux = symjax_nnvm.load_checkpoint",)),
    "number for key": (lambda: lowering.compile(NET)(ARGS, {}, 0), ("jax.random.key(0)",)),
    "no key": (
        lambda: lowering.to_jax(sym.Dropout(sym.Variable("data")), is_train=True)({"data": X}),
        ("jax.random.key",),
    ),
    # shapes and dtypes
    "hard-coded batch": (
        lambda: lowering.to_jax(nn.inference_symbol(FIXED))(FIXED_ARGS | {"data": X[:2]}),
        ("symjax_nnvm.set_batch_size(symbol, 2)", "fixed"),
    ),
    "hard-coded batch in init": (lambda: Trainer(FIXED).init(0, data=(8, 5)), ("set_batch_size(symbol, 8)",)),
    "hard-coded batch in bind": (lambda: lowering.simple_bind(FIXED, data=(8, 5)), ("set_batch_size(symbol, 8)",)),
    "channels last": (
        lambda: lowering.to_jax(nn.inference_symbol(CONV))(CONV_ARGS | {"data": np.ones((4, 8, 8, 3), "f")}, CONV_AUX),
        ("data.transpose((0, 3, 1, 2))",),
    ),
    "channels last in init": (
        lambda: Trainer(CONV).init(0, CONV_ARGS, CONV_AUX, data=(4, 8, 8, 3)),
        ("data.transpose((0, 3, 1, 2))",),
    ),
    "channels last in an executor": (
        lambda: lowering.simple_bind(CONV, data=(4, 3, 8, 8)).forward(data=np.ones((4, 8, 8, 3))),
        ("data.transpose((0, 3, 1, 2))",),
    ),
    "bytes": (
        lambda: lowering.to_jax(nn.inference_symbol(CONV))(CONV_ARGS | {"data": IMAGES.astype(np.uint8)}, CONV_AUX),
        ('data.astype("float32")', "255"),
    ),
    "one sample": (lambda: trainer().predict(np.ones(5, np.float32)), ("data[None]",)),
    "other width": (lambda: trainer().predict(np.ones((4, 7), np.float32)), ("'data' must have shape (?, 5)",)),
    "other batch": (lambda: executor().forward(data=X[:2]), ("executor.reshape(data=(2, 5))",)),
    "array for a shape": (lambda: lowering.simple_bind(NET, data=X), ("pass data=(4, 5)",)),
    "array for a shape in init": (lambda: Trainer(NET).init(0, data=X), ("pass data=(4, 5)",)),
    "shapes without names": (lambda: lowering.init_params(NET, (4, 5), 0), ("lowering.init_params(symbol, {'data':",)),
    "misspelt shape": (lambda: lowering.init_params(NET, {"dta": (4, 5)}, 0), ("Did you mean 'data'",)),
    "misspelt shape in bind": (lambda: lowering.simple_bind(NET, dta=(4, 5)), ("did you mean 'data'",)),
    "gradient of a misspelt name": (lambda: lowering.grad_fn(NET, ["fc1_wieght"]), ("Did you mean 'fc1_weight'",)),
    "misspelt wrt": (lambda: Trainer(NET, wrt=["fc1_wieght"]), ("Did you mean 'fc1_weight'",)),
    # the executor
    "misspelt argument": (lambda: executor().forward(dta=X), ("Did you mean 'data'",)),
    "array for is_train": (lambda: executor().forward(X), ("executor.forward(is_train=False, data=x)",)),
    "misspelt name": (lambda: executor().arg_dict["fc1_wieght"], ("Did you mean 'fc1_weight'",)),
    "asnumpy of an executor": (lambda: executor().asnumpy(), ("np.asarray",)),
    # MXNet's words
    "context": (lambda: Trainer(NET, context="gpu"), ("jax.device_put",)),
    "learning_rate": (
        lambda: Trainer(NET, "sgd", learning_rate=0.1),
        ("Trainer(symbol, 'sgd', {'learning_rate': ...})",),
    ),
    "misspelt keyword": (lambda: Trainer(NET, "sgd", optimizer_param={}), ("did you mean 'optimizer_params'",)),
    "num_epoch": (lambda: trainer().fit(BATCHES, num_epoch=3), ("epochs=num_epoch",)),
    "eval_metric": (lambda: trainer().fit(BATCHES, 1, eval_metric="acc"), ("metrics=eval_metric",)),
    "eval_data": (lambda: trainer().fit(BATCHES, 1, eval_data=BATCHES), ("validation=eval_data",)),
    "initializer": (lambda: trainer().fit(BATCHES, 1, initializer="xavier"), ("Trainer(symbol, initializer=...)",)),
    "optimizer": (lambda: trainer().fit(BATCHES, 1, optimizer="sgd"), ("lowering.Trainer(symbol, optimizer",)),
    "ctx of compile": (lambda: lowering.compile(NET, ctx="gpu"), ("jax.device_put",)),
    "data_shapes": (lambda: lowering.simple_bind(NET, data_shapes=[("data", (4, 5))]), ("data=(32, 3, 224, 224)",)),
    "arg_params": (lambda: lowering.bind(NET, arg_params=ARGS), ("args=arg_params",)),
    "no seed": (lambda: Trainer(NET).init(data=(4, 5)), ("trainer.init(0, data=",)),
    "Module": (lambda: lowering.Module, ("lowering.Trainer",)),
    "get_params": (lambda: trainer().get_params(), ("trainer.state.params",)),
    "save_checkpoint": (lambda: trainer().save_checkpoint("m", 1), ("trainer.export(prefix, epoch)",)),
    "misspelt method": (lambda: trainer().predit(X), ("Did you mean 'predict'",)),
    # batches
    "fit(X, Y)": (lambda: trainer().fit(X, Y), ("lowering.Batches({'data': x, 'softmax_label': y}",)),
    "fit(X, 2)": (lambda: trainer().fit(X, 2), ("lowering.Batches({'data': x, 'softmax_label': y}",)),
    "fit((X, Y), 2)": (lambda: trainer().fit((X, Y), 2), ("lowering.Batches({'data': x, 'softmax_label': y}",)),
    "fit(dict, 2)": (lambda: trainer().fit({"data": X, "softmax_label": Y}, 2), ("lowering.Batches", "trainer.step")),
    "epochs": (lambda: trainer().fit(BATCHES, 2.5), ("whole number",)),
    "function as callback": (lambda: trainer().fit(BATCHES, 1, callbacks=[print]), ("on_epoch_end(trainer, record)",)),
    "arrays without names": (lambda: Batches(X, 4), ("Batches({'data': x, 'softmax_label': y}",)),
    "x and y": (lambda: Batches(X, Y, 4), ("Batches({'data': x, 'softmax_label': y}",)),
    "other names": (lambda: trainer().step({"x": X, "y": Y}), ("{'data': batch['x'], 'softmax_label': batch['y']}",)),
    "words as labels": (
        lambda: trainer().fit([(X, np.array(["cat"] * 4))], 1, progress=False),
        ("np.unique(words, return_inverse=True)",),
    ),
    "iterator that has run out": (
        lambda: trainer().fit(iter(()), 1, progress=False),
        ("lowering.Batches(arrays, batch_size)",),
    ),
    "option of another function": (
        lambda: lowering.compile(NET, wrt=["w"]),
        ("wrt=: the option belongs to ", "grad_fn"),
    ),
    "option of another function, beside shapes": (
        lambda: lowering.explain(NET, keep=3, data=(4, 5)),
        ("explain: does not take ['keep']. keep=: the option belongs to ", "Predictor"),
    ),
    "former name of another function's option": (
        lambda: lowering.tune(NET, {}, aux_states={}),
        ("aux_states=: the option is called aux= and belongs to ", "Predictor"),
    ),
    "device of an explanation": (lambda: lowering.explain(NET, ctx="cpu"), ('ctx=: platform="cpu", "gpu" or "tpu".',)),
    "wrt of a function for jax.grad": (lambda: lowering.differentiable(NET, grad_req="add"), ("jax.grad of what is",)),
    "misspelt metric": (lambda: trainer().fit(BATCHES, 1, metrics="acuracy"), ("Did you mean 'accuracy'",)),
    "misspelt parameter": (lambda: Trainer(NET, "sgd", {"learn_rate": 1}), ("Did you mean 'learning_rate'",)),
}


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_message_holds_the_way_out(mistake: str):
    call, ways_out = MISTAKES[mistake]
    with refused(NNVMError, *ways_out):
        call()


def test_every_word_of_mxnet_is_told():
    functions: dict[str, Callable[..., Any]] = {
        "Trainer": Trainer,
        "Trainer.init": trainer().init,
        "Trainer.fit": trainer().fit,
        "Trainer.evaluate": trainer().evaluate,
        "Trainer.predict": trainer().predict,
        "compile": lowering.compile,
        "grad_fn": lowering.grad_fn,
        "differentiable": lowering.differentiable,
        "explain": functools.partial(lowering.explain, NET),
        "bind": lowering.bind,
        "Predictor": lowering.Predictor,
        "init_params": lowering.init_params,
        "Batches": Batches,
        "check_gradients": lowering.check_gradients,
    }
    assert {*functions, "simple_bind"} == set(KEYWORDS)
    for name, function in functions.items():
        for keyword in KEYWORDS[name]:
            if name == "Trainer.init":
                continue  # takes any keyword as a shape; see the next test
            with refused(TypeError, f"{keyword}=: {KEYWORDS[name][keyword].format(name=keyword)}."):
                function(**{keyword: 1})


def test_keywords_that_are_no_shapes_are_told():
    for keyword in KEYWORDS["Trainer.init"]:
        with pytest.raises(NNVMError, match=f"{keyword}=: "):
            Trainer(NET).init(0, data=(4, 5), **{keyword: "cpu"})
    for keyword in KEYWORDS["simple_bind"]:
        with pytest.raises(NNVMError, match=f"{keyword}=: "):
            lowering.simple_bind(NET, data=(4, 5), **{keyword: "cpu"})


@pytest.mark.slow("computes much")
def test_every_attribute_of_mxnet_is_told():
    owners = {"Trainer": Trainer(NET), "Executor": executor(), "lowering": lowering, "mx": mx}
    owners |= {"mx.test_utils": mx.test_utils, "mx.contrib": mx.contrib}
    owners |= {"mx.init": mx.init, "mx.rnn": mx.rnn, "mx.libinfo": mx.libinfo}
    owners |= {"mx.optimizer.Updater": mx.optimizer.get_updater(mx.optimizer.SGD())}
    assert set(owners) == set(ATTRIBUTES)
    for name, owner in owners.items():
        for attribute in ATTRIBUTES[name]:
            assert not hasattr(owner, attribute)
            with pytest.raises(AttributeError) as raised:
                getattr(owner, attribute)
            assert str(raised.value) == f"{name} has no attribute {attribute!r}. {ATTRIBUTES[name][attribute]}"
            assert re.fullmatch(r"(mx\.|[A-Z8t]).* .*\.", ATTRIBUTES[name][attribute])  # a sentence


@pytest.mark.slow("compiles")
def test_what_is_imported_and_not_here_is_told():
    imports = {
        "from lowering.mx import FeedForward": "mx has no 'FeedForward'. Use mx.model.FeedForward.",
        "from lowering.mx.contrib import tensorrt": "mx.contrib has no 'tensorrt'. XLA compiles",
        "from lowering.mx.test_utils import shuffle_csr_column_indices": "Arrays are dense here",
        "from lowering import jit": "lowering has no 'jit'. Use lowering.compile(symbol).",
    }
    for line, said in imports.items():
        with refused(ImportError, said):
            exec(line, {})


def test_a_metric_that_cannot_be_compiled_is_named():
    impatient = (lambda: 0.0, lambda state, labels, outputs: state + float(outputs[0].sum()), float)
    with pytest.raises(NNVMError, match="<lambda>.*jax.numpy"):
        trainer().fit(BATCHES, 1, metrics=[impatient], progress=False)


def test_lists_of_names_are_cut_and_counted():
    names = [f"stage{i}_weight" for i in range(300)]
    assert listed(names) == f"[{', '.join(map(repr, names[:8]))} and 292 more]"
    net = sym.add_n(*map(sym.Variable, names))
    for call in (lambda: lowering.to_jax(net)({}), lambda: lowering.bind(net, args={}), lambda: Trainer(net, wrt="w")):
        with pytest.raises(NNVMError) as raised:
            call()
        assert len(str(raised.value)) < 1500


def test_what_jax_says_of_slices_is_how_an_executor_is_written():
    bound = executor()
    with pytest.raises(TypeError, match=r"use x = x\.at\[idx\]\.set\(y\)"):
        bound.arg_dict["fc1_weight"][:] = 1
    bound.arg_dict["fc1_weight"] = bound.arg_dict["fc1_weight"].at[2:4].set(1)
    assert float(jnp.sum(bound.arg_dict["fc1_weight"])) == 10


def test_a_value_that_is_no_shape_is_cut():
    with pytest.raises(NNVMError, match="'data' needs a shape, a tuple of sizes, got ") as raised:
        lowering.explain(NET, data=dict(enumerate("x" * 1000)))
    assert len(str(raised.value)) < 250
