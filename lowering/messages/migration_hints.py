"""Hints for users of MXNet: what an argument or attribute of MXNet's is called here, or why it is not needed.

One table of keywords for each function, one of attributes for each object. They are looked at only when a call fails.
"""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, NoReturn, ParamSpec, TypeVar

from lowering.messages.arguments import kind_of
from symjax_nnvm.errors import RENAMED, CallError, UnknownAttributeError, cut, did_you_mean, listed, plain_list

P = ParamSpec("P")
R = TypeVar("R")

_DEVICE = (
    "Arrays decide where to run: args = jax.device_put(args, jax.devices('gpu')[0]); without it JAX's default device"
)
_TOLD_LATER = ("args", "aux", "type_dict", "epochs", "begin_epoch", "batch_size", "keep", "every")
"""Parameters that the functions check themselves, with a more exact message."""

_TELLS_ITSELF = ("simple_bind",)
"""Functions that take shapes by keyword and report keywords that are not variables by `KEYWORDS`."""

_OF_A_FUNCTION = {
    **dict.fromkeys(("ctx", "context", "device"), _DEVICE),
    **dict.fromkeys(
        ("args", "params", "arg_params", "aux", "aux_params", "aux_states"),
        "Give arrays to the function that is returned: f(args, aux)",
    ),
    "data": "Give data to the function that is returned: f(args | {{'data': x}}, aux)",
}
"""Of functions that return a function of arrays."""

_PLATFORM = dict.fromkeys(("ctx", "context", "device"), 'platform="cpu", "gpu" or "tpu"')
_TRAINS = dict.fromkeys(("train", "training", "for_training"), "is_train={name}")

_IN_TRAINER = "It belongs to the trainer: lowering.Trainer(symbol, {})"
_IN_INIT = "Values that you have go to trainer.init(seed, {}, data=shape)"
_LOAD = "net, args, aux = symjax_nnvm.load_checkpoint(prefix, epoch), then trainer.init(seed, args, aux, data=shape)"
_CALLBACKS = "callbacks=[object with on_step_end(trainer, event) or on_epoch_end(trainer, record)]"

KEYWORDS: dict[str, dict[str, str]] = {
    "Trainer": {
        **dict.fromkeys(("context", "ctx", "device"), _DEVICE),
        **dict.fromkeys(
            ("learning_rate", "lr", "momentum", "wd", "rescale_grad", "clip_gradient", "lr_scheduler"),
            "Parameters of the optimiser go into one dict: Trainer(symbol, 'sgd', {{'{name}': ...}})",
        ),
        "fixed_param_names": "wrt=symjax_nnvm.freeze(symbol, ['conv*']) names the parameters that are still trained",
        "arg_params": _IN_INIT.format("args, aux"),
        "aux_params": _IN_INIT.format("args, aux"),
        "state_names": "States are auxiliary states, in trainer.state.aux",
        "logger": "trainer.fit(..., progress=True) prints; callbacks= can do more",
        "work_load_list": _DEVICE,
        "group2ctxs": "Spread arrays by jax.sharding; see docs/guide/migrating.md, Several devices",
        "kvstore": "There is no kvstore: XLA sums the arrays that jax.sharding lays out",
        "batch_size": "trainer.init(seed, data=(batch size, ...)) takes shapes",
        "num_epoch": "trainer.fit(data, epochs) takes the number of epochs",
        "metrics": "They belong to trainer.fit(data, epochs, metrics=...) and trainer.evaluate(data, metrics)",
        "eval_metric": "They belong to trainer.fit(data, epochs, metrics=...) and trainer.evaluate(data, metrics)",
        "loss": "The loss is the symbol's head: sym.SoftmaxOutput(net, name='softmax'), or sym.make_loss",
        "use_global_stats": "frozen_statistics=True, for the batch norms whose gamma and beta are not trained",
    },
    "Trainer.init": {
        "shapes": "Shapes are keywords: trainer.init(seed, data=(32, 3, 224, 224))",
        "data_shapes": "Shapes are keywords: trainer.init(seed, data=(32, 3, 224, 224))",
        "label_shapes": "Shapes of labels follow; else they are keywords, softmax_label=(32,)",
        "params": "args=params",
        "seed": "The seed comes first, as key: trainer.init(0, data=shape)",
        "initializer": _IN_TRAINER.format("initializer=..."),
        "allow_missing": "What is missing is initialised",
        "force_init": "init always makes a new state",
        "ctx": _DEVICE,
        "context": _DEVICE,
    },
    "Trainer.fit": {
        "num_epoch": "epochs={name}, or the second argument",
        "train_data": "data={name}, or the first argument",
        **dict.fromkeys(("X", "x", "y", "label", "labels"), "lowering.Batches({{'data': X, 'softmax_label': y}}, 32)"),
        "eval_data": "validation={name}",
        "validation_data": "validation={name}",
        "val_data": "validation={name}",
        "eval_metric": "metrics={name}",
        "validation_metric": "metrics= is for both",
        "metric": "metrics={name}",
        "optimizer": _IN_TRAINER.format("optimizer, optimizer_params"),
        "optimizer_params": _IN_TRAINER.format("'sgd', {{'learning_rate': 0.1}}"),
        "initializer": _IN_TRAINER.format("initializer=..."),
        "arg_params": _IN_INIT.format("args, aux"),
        "aux_params": _IN_INIT.format("args, aux"),
        "allow_missing": "trainer.init(seed, args, aux, ...) initialises missing arrays",
        "force_init": "trainer.init(seed, ...) makes a new state",
        "force_rebind": "Other shapes are compiled when they occur",
        "batch_end_callback": _CALLBACKS,
        "epoch_end_callback": _CALLBACKS + "; files are written by checkpoints=lowering.Checkpoints(folder)",
        "eval_end_callback": _CALLBACKS,
        "eval_batch_end_callback": _CALLBACKS,
        "kvstore": "There is no kvstore: XLA sums the arrays that jax.sharding lays out",
        "monitor": "trainer.diagnose(batch) finds where numbers go wrong; Executor.set_monitor_callback shows all",
        "sparse_row_id_fn": "Gradients are dense",
        "batch_size": "lowering.Batches(arrays, batch_size) makes the batches",
        "shuffle": "lowering.Batches(arrays, batch_size, shuffle=True)",
        "verbose": "progress={name}",
        "ctx": _DEVICE,
        "context": _DEVICE,
    },
    "Trainer.evaluate": {
        "eval_data": "data={name}, or the first argument",
        "eval_metric": "metrics={name}",
        "metric": "metrics={name}",
        "num_batch": "itertools.islice(data, {name}) gives as many batches",
        "batch_size": "lowering.Batches(arrays, batch_size, last='keep') makes the batches",
    },
    "Trainer.predict": {
        "eval_data": "data={name}, or the first argument",
        "num_batch": "itertools.islice(data, {name}) gives as many batches",
        "merge_batches": "The outputs of all batches are joined; call predict(batch) in a loop to keep them apart",
        "always_output_list": "It is always a list, with one array for each output",
        "batch_size": "lowering.Batches({{'data': x}}, batch_size, last='keep') makes the batches",
        "is_train": "predict runs in test mode; trainer.step trains",
    },
    "compile": {
        **_OF_A_FUNCTION,
        **_TRAINS,
        "grad_req": "lowering.grad_fn(symbol, wrt) computes gradients, or lowering.simple_bind",
    },
    "Predictor": {
        **_PLATFORM,
        "params": "args={name}",
        "data_shapes": "predict.warm(data=shape) compiles before the first call",
        "batch_size": "Each batch size is compiled at its first call; predict.warm(data=shape) compiles it before",
        "data": "Data are given to the predictor: predict(data={name})",
    },
    "grad_fn": {
        **_OF_A_FUNCTION,
        **_TRAINS,
        **dict.fromkeys(("grad_req", "argnums"), "wrt=[names of the arguments]"),
    },
    "differentiable": {
        **_OF_A_FUNCTION,
        **_TRAINS,
        **dict.fromkeys(
            ("grad_req", "argnums", "wrt"),
            "jax.grad of what is returned differentiates it by the arrays that argnums names",
        ),
    },
    "explain": {**_PLATFORM, **_TRAINS, "grad_req": "wrt=[names of the arguments]"},
    "bind": {
        "context": "ctx={name}",
        "grads": "args_grad={name}",
        "shared_exec": "simple_bind takes it; executors that are bound to the same arrays share nothing else",
        "force_rebind": "bind always makes a new executor",
        "for_training": "executor.forward(is_train={name})",
    },
    "simple_bind": {
        "context": "ctx={name}",
        "data_shapes": "Shapes are keywords: simple_bind(symbol, data=(32, 3, 224, 224))",
        "label_shapes": "Shapes are keywords: simple_bind(symbol, softmax_label=(32,))",
        "shapes": "Shapes are keywords: simple_bind(symbol, data=(32, 3, 224, 224))",
        "force_rebind": "simple_bind always makes a new executor",
        "for_training": "executor.forward(is_train={name})",
        "inputs_need_grad": "grad_req={{'data': 'write', ...}}",
        "shared_buffer": "shared_exec= shares arrays",
        "shared_data_arrays": "shared_exec= shares arrays",
        "stype_dict": "Storage is dense: leave it out",
        "args": "lowering.bind(symbol, args=...) takes arrays; simple_bind makes them",
        "dtype": "type_dict={{'data': {name}}}",
    },
    "init_params": {
        "seed": "key={name}: a number, or a PRNG key",
        "init": "initializer={name}",
        "data": "shapes={{'data': shape}}",
        "ctx": _DEVICE,
        "context": _DEVICE,
    },
    "Batches": {
        "data": "Arrays by the names of the network's arguments: Batches({{'data': x, 'softmax_label': y}}, 32)",
        "label": "Arrays by the names of the network's arguments: Batches({{'data': x, 'softmax_label': y}}, 32)",
        "last_batch_handle": "last='keep', 'pad' or 'drop' ('discard' in MXNet)",
        "drop_last": "last='drop', or 'keep'",
    },
    "check_gradients": {
        "grad_nodes": "wrt=[names of the arguments]",
        "location": "args={name}",
        "numeric_eps": "The step of the finite differences is chosen here, for float64",
    },
}
"""Function → keyword → our word for it; {name} stands for the keyword."""

_STEP = "Use trainer.step(batch): it computes outputs and gradients, and updates the parameters."
_EXPORT = "Use trainer.export(prefix, epoch), or fit(..., checkpoints=lowering.Checkpoints(folder))."
_TRAINER = "Use lowering.Trainer(symbol, 'sgd', {'learning_rate': 0.1})."

ATTRIBUTES: dict[str, dict[str, str]] = {
    "Trainer": {
        "bind": "Use trainer.init(seed, data=shape); other shapes are compiled when they come.",
        "init_params": "Use trainer.init(seed, data=shape), which uses the initializer of the trainer.",
        "init_optimizer": "The trainer has its optimiser; trainer.init(seed, data=shape) makes the states.",
        "get_params": "The arrays are in the dicts trainer.state.params, .frozen and .aux.",
        "set_params": "Use trainer.init(seed, args, aux, data=shape).",
        **dict.fromkeys(("load_params", "load"), f"Use {_LOAD}."),
        "save_params": "Use trainer.export(prefix, epoch).",
        **dict.fromkeys(("save_checkpoint", "save"), _EXPORT),
        "train": "Use trainer.fit(data, epochs).",
        "score": "Use trainer.evaluate(data, metrics).",
        "forward": "trainer.step(batch) trains, and trainer.predict(batch) runs in test mode.",
        **dict.fromkeys(("backward", "forward_backward", "update"), _STEP),
        "update_metric": "Use trainer.fit(..., metrics=...), or trainer.evaluate(data, metrics).",
        "get_outputs": "trainer.step(batch) and trainer.predict(batch) return the outputs.",
        "get_input_grads": "Use lowering.grad_fn(symbol, ['data']).",
        "params": "The parameters are in trainer.state.params.",
        "lr": "Use trainer.learning_rate and trainer.set_learning_rate(value).",
        "install_monitor": "Use trainer.diagnose(batch), or an executor's set_monitor_callback.",
    },
    "Executor": {
        "asnumpy": "Use [np.asarray(array) for array in executor.outputs].",
        "eval": "Use executor.forward(is_train=False).",
    },
    "mx": {
        "rtc": "CUDA sources are not compiled here: write your own kernels with jax.experimental.pallas.",
        "th": "Import torch itself.",
        "tvmop": "XLA compiles every operator here, so there are none of TVM's.",
        "library": "Use symjax_nnvm.register_op and lowering.lowers for your own operators.",
        "FeedForward": "Use mx.model.FeedForward.",
        "executor_manager": "It was dropped: use mx.mod.Module, which trains on several contexts, or cut batches for "
        "executors of your own by mx.gluon.utils.split_data.",
        "test": "Use mx.test_utils.",
    },
    "mx.contrib": {
        "svrg_optimization": "SVRGModule was dropped: use mx.mod.Module, whose other arguments are the same.",
        "tensorrt": "XLA compiles networks here, so there is no TensorRT.",
    },
    "mx.init": {"registry": "mx.init.register registers your own initialiser, and mx.init.create makes one."},
    "mx.libinfo": dict.fromkeys(
        ("find_lib_path", "find_include_path"),
        "There is no C library here: operators run on JAX, and lowering.__file__ is where this library is.",
    ),
    "mx.rnn": {"rnn_unroll": "Use cell.unroll(length, inputs); MXNet 1.9.1's rnn_unroll stops with a TypeError."},
    "mx.optimizer.Updater": dict.fromkeys(
        ("states_synced", "sync_state_context"),
        "States are made where the parameter is, and loaded into these arrays: nothing has to be moved.",
    ),
    "mx.test_utils": {
        "shuffle_csr_column_indices": "Arrays are dense here; use mx.test_utils.rand_ndarray.",
        "get_im2rec_path": "The command `symjax-nnvm records make FILE SOURCE` makes record files.",
    },
    "lowering": {
        **dict.fromkeys(("Module", "mod", "FeedForward"), _TRAINER),
        **dict.fromkeys(("nd", "ndarray"), "Use jax.numpy."),
        "array": "Use jax.numpy.asarray(values).",
        "cpu": "Use jax.devices('cpu')[0].",
        "gpu": "Use jax.devices('gpu')[0].",
        "init": "Use lowering.initializer.",
        "io": "Use lowering.Batches(arrays, batch_size), or lowering.data, which has ImageRecordIter.",
        "recordio": "Use lowering.data.RecordFile(path) and lowering.data.RecordWriter(path).",
        **{
            name: f"Use lowering.data.{name}."
            for name in ("ImageRecordIter", "ImageDetRecordIter", "CSVIter", "LibSVMIter", "RecordFile")
        },
        "NDArrayIter": "Use lowering.Batches(arrays, batch_size).",
        "metric": "Use lowering.training.metrics.",
        "optimizer": "Use lowering.Trainer(symbol, 'adam', {...}); lowering.training.list_optimizers() names them.",
        "lr_scheduler": "Use lowering.training.FactorScheduler, or another schedule of lowering.training.",
        **dict.fromkeys(("sym", "symbol"), "Use `from symjax_nnvm import symbol as sym`."),
        "random": "Use jax.random.key(seed), and give the key to each call.",
        "autograd": "Use lowering.differentiable(symbol), whose jax.grad is the symbol's gradient.",
        "jit": "Use lowering.compile(symbol).",
        "load_checkpoint": "Use symjax_nnvm.load_checkpoint(prefix, epoch).",
        "save_checkpoint": "Use symjax_nnvm.save_checkpoint(prefix, epoch, symbol, args, aux).",
        "load_model": "Use symjax_nnvm.load_model(symbol_path, params_path).",
        "check": "Use symjax_nnvm.check(symbol, shapes).",
        "freeze": "Use symjax_nnvm.freeze(symbol, patterns).",
        "inference_symbol": "Use symjax_nnvm.inference_symbol(symbol).",
    },
}
"""Object or module → attribute → a sentence on what to use here."""


_options: dict[str, set[str]] = {}
"""Option → the functions that have it, of those that are loaded."""


def keyword_hint(function: str, name: str, keywords: Mapping[str, Any] | list[str]) -> str:
    """Return the hint for a keyword that a function does not take; empty when there is none."""
    word = KEYWORDS.get(function, {}).get(name)
    if word is None and RENAMED.get(name) in keywords:
        word = f"{RENAMED[name]}={{name}}"
    if word is not None:
        return f"{name}=: {word.format(name=name)}."
    option = RENAMED.get(name, name)
    others = plain_list(sorted(_options.get(option, ())))
    if name in RENAMED:
        return f"{name}=: the option is called {option}= and belongs to {others}."
    if name in _options:
        return f"{name}=: the option belongs to {others}."
    close = did_you_mean(name, keywords, cutoff=0.6)
    return f"{name}=: {close[0].lower()}{close[1:]}" if close else ""


def with_migration_hints(function: str, example: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that replaces Python's TypeError for a wrong call by a message with the fix. It also refuses
    values that do not match the parameter's annotation (`arguments.kind_of`), and converts NumPy's scalars to Python's:
    `numpy.int64` to int.

    function: its row in KEYWORDS, which alike functions share. example: a call that works. Raises CallError, which is a
    TypeError.
    """

    def decorate(wrapped: Callable[P, R]) -> Callable[P, R]:
        called = wrapped.__qualname__.removesuffix(".__init__")
        refusal = functools.partial(_refusal, called, function, example)
        signature = inspect.signature(wrapped)
        parameters = list(signature.parameters)
        named = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        takes_any = len(named) < len(parameters)
        takes_shapes = takes_any and parameters[-1] == "shapes"
        hinted = () if function in _TELLS_ITSELF else KEYWORDS.get(function, ())
        kinds = {p.name: kind for p in named if (kind := kind_of(p.annotation))}
        for parameter in named if "." not in called else ():
            _options.setdefault(parameter.name, set()).add(called)

        @functools.wraps(wrapped)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            unknown = [name for name in kwargs if name not in parameters]
            if takes_any:
                hinted_names = {*RENAMED, *_options, *hinted} if takes_shapes else ()
                unknown = [name for name in unknown if name in hinted_names and not _is_shape(kwargs[name])]
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise refusal(str(error), unknown, parameters) from None
            if unknown:
                raise refusal("", unknown, parameters)
            for name, kind in kinds.items():
                if name not in bound.arguments:
                    continue
                value = bound.arguments[name]
                try:
                    bound.arguments[name] = kind.read(value)
                except TypeError:
                    if name in _TOLD_LATER:
                        continue
                    got = cut(f"{value!r} of type {type(value).__name__}", 80)
                    problem = f"{called}: {name} must be {kind.words}, got {got}."
                    raise CallError(f"{problem} For example: {example}.") from None
            return wrapped(*bound.args, **bound.kwargs)

        return checked

    return decorate


def _is_shape(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(size, int) for size in value)


def _refusal(called: str, function: str, example: str, error: str, unknown: list[str], params: list[str]) -> CallError:
    names = [name for name in params if name != "self"]
    hints = [hint for name in unknown if (hint := keyword_hint(function, name, names))]
    problem = f"does not take {listed(unknown)}" if unknown else error
    parameter_list = "" if len(hints) == len(unknown) and hints else f" It takes {', '.join(names)}."
    return CallError(" ".join((f"{called}: {problem}.", *hints)) + f"{parameter_list} For example: {example}.")


def hint_for(owner: str, name: str) -> str:
    """Return a sentence on what to use for an attribute of MXNet's; empty where nothing is known of it."""
    return ATTRIBUTES.get(owner, {}).get(name, "")


def missing_module(name: str) -> ImportError:
    """Return the error of importing a module of MXNet's that is not here."""
    owner, _, last = f"mx.{name}".rpartition(".")
    return ImportError(f"{owner} has no module {last!r}. {hint_for(owner, last)}".rstrip(), name=f"lowering.mx.{name}")


def unknown_attribute(owner: str, name: str, attributes: list[str]) -> NoReturn:
    """Raise UnknownAttributeError for an attribute that an object or a module does not have. In `from owner import
    name` raise ImportError, because Python would replace the message of another error."""
    word = hint_for(owner, name)
    if word and _is_imported(inspect.currentframe()):
        raise ImportError(f"{owner} has no {name!r}. {word}", name=f"lowering.{owner}")
    is_asked_by_python = name.startswith("__")
    way = word or (
        "" if is_asked_by_python else did_you_mean(name, [n for n in attributes if n[:1] != "_"], cutoff=0.6)
    )
    raise UnknownAttributeError(f"{owner} has no attribute {name!r}. {way}".rstrip(), name=name)


def _is_imported(frame: FrameType | None) -> bool:
    """Return whether the caller of a frame's caller looks a name up in order to import it."""
    frame = frame and frame.f_back
    frame = frame and frame.f_back
    if frame is None:
        return False
    code = frame.f_code
    return code.co_name == "_handle_fromlist" or code.co_code[frame.f_lasti] == dis.opmap["IMPORT_FROM"]
