"""Module: a network bound to arrays, with an optimiser. An executor runs the batch, or one on each context a part."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lowering.initializer.parameters import parameter_names
from lowering.messages.arguments import require_symbol
from lowering.messages.counts import checks_flags, named_values, paired
from lowering.messages.doors import MODULE, says_how_to_call
from lowering.mx import optimizer as optimizers
from lowering.mx.accepted_types import ContextsLike, Logger
from lowering.mx.compatibility.array_functions import overridden
from lowering.mx.context import Context
from lowering.mx.executor import Executor
from lowering.mx.io.desc import DataBatch, DataDesc, as_desc
from lowering.mx.kv import KVStore, KVStoreBase
from lowering.mx.kv import create as create_kvstore
from lowering.mx.module import module_checkpoints as checkpoints
from lowering.mx.module.base_module import KEPT, UNIFORM, BaseModule, NotReadyError, Params
from lowering.mx.module.executor_group import DataParallelExecutorGroup
from lowering.mx.module.group import ExecutorGroup, executors_of
from lowering.mx.module.module_arguments import (
    WrongNameError,
    as_contexts,
    as_groups,
    as_names,
    as_shares,
    check_names,
    converted,
    fill,
    fitting,
    joined,
    make_optimizer,
    refuse_missing,
    refuse_surplus,
)
from lowering.mx.monitor import Watcher
from lowering.mx.shared_arguments import explained_by
from lowering.mx.symbol.runnable import Symbol, as_symbol
from symjax_nnvm.errors import BindError, CallError, TrainingError
from symjax_nnvm.recent import Recent
from symjax_nnvm.surgery.dequantized import refuse_untrainable
from symjax_nnvm.symbol.symbol import Symbol as GraphSymbol


class Module(BaseModule):
    """A network that is trained, scored and run over batches.

    Each of several contexts takes a part of every batch, and normalises it by itself (BatchNorm).

    Args:
        symbol: the network.
        data_names: arguments that come with the batches as data.
        label_names: arguments that come with the batches as labels.
        logger: the logger.
        context: a context or a list of them.
        work_load_list: how much of a batch each context takes.
        fixed_param_names: parameters that are not trained.
        state_names: arguments that are states which the caller sets.
        group2ctxs: a context for each `ctx_group`, which runs there.
        compression_params: accepted and ignored.

    Raises:
        CallError: the network does not have a name.
    """

    def __init__(
        self,
        symbol: GraphSymbol,
        data_names: Sequence[str] | None = ("data",),
        label_names: Sequence[str] | None = ("softmax_label",),
        logger: Logger = logging,
        context: ContextsLike = None,
        work_load_list: Any = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
        compression_params: Any = None,
    ):
        super().__init__(logger)
        self._symbol: Symbol = as_symbol(require_symbol(symbol, "mx.mod.Module"))
        self._context = as_contexts(context)
        self._work_load_list: list[Any] = as_shares(work_load_list, self._context)
        self._group2ctxs, self._compression_params = group2ctxs, compression_params
        self._data_names, self._label_names = as_names(data_names, "data_names"), as_names(label_names, "label_names")
        self._state_names = as_names(state_names, "state_names")
        self._fixed_param_names = as_names(fixed_param_names, "fixed_param_names")
        self._output_names, self._aux_names = self._symbol.list_outputs(), self._symbol.list_auxiliary_states()
        arguments = self._symbol.list_arguments()
        for what, names, needed in (
            ("data", self._data_names, True),
            ("label", self._label_names, False),
            ("state", self._state_names, True),
            ("fixed_param", self._fixed_param_names, True),
        ):
            check_names(arguments, names, what, needed)
        fed = {*self._data_names, *self._label_names, *self._state_names}
        self._param_names = [name for name in arguments if name not in fed]
        self._groups = as_groups(group2ctxs)
        self._params: tuple[Params, Params] | None = None  # before there is an executor to hold them
        self._executor: Executor | ExecutorGroup | None = None
        self._executors: Recent[Any, Executor | ExecutorGroup] = Recent(KEPT)
        self._optimizer: optimizers.Optimizer | None = None
        self._updater: optimizers.Updater | None = None
        self._numbers: dict[str, Any] = {}
        """The numbers of parameters in the optimiser, which modules share: by name, as each has others."""
        self._store: KVStoreBase = KVStore("local")
        self._kvstore: KVStoreBase | None = None
        """MXNet's name of the store, which it has for several contexts."""
        self._preload_opt_states: str | None = None
        self._update_on_kvstore: bool | None = None
        """MXNet's: whether the store's updater updates; None before there is an optimiser."""
        self._params_dirty = False
        """MXNet's: nothing is ever to be synchronised, as `_arg_params` are the executor's own."""
        self._monitor: Any = None
        self._grad_req: Any = None
        self._data_shapes: list[DataDesc] = None  # pyright: ignore[reportAttributeAccessIssue]  # before bind, as MXNet's
        self._label_shapes: list[DataDesc] | None = None
        self._fed_labels: list[str] = []  # the labels of batches, those included that the network does not use

    # -- what it is --------------------------------------------------------------------------------------------------

    @property
    def data_names(self) -> list[str]:
        """Return the names of the arguments that are data."""
        return self._data_names

    @property
    def label_names(self) -> list[str]:
        """Return the names of the arguments that are labels."""
        return self._label_names

    @property
    def output_names(self) -> list[str]:
        """Return the names of the outputs."""
        return self._output_names

    @property
    def data_shapes(self) -> list[DataDesc]:
        """Return the shapes that the data is bound with."""
        self._require(params=False)
        return self._data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        """Return the shapes that the labels are bound with."""
        self._require(params=False)
        return self._label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return (name, shape) of each output."""
        input_shapes = {desc.name: desc.shape for desc in (*self.data_shapes, *(self.label_shapes or ()))}
        _, shapes, _ = self._symbol.infer_shape(**input_shapes)
        return list(zip(self.output_names, shapes, strict=True))

    @property
    def _bound(self) -> Executor | ExecutorGroup:
        """Return the executor. Raises TrainingError before `bind`."""
        self._require(params=False)
        assert self._executor is not None
        return self._executor

    def __explained__(self) -> tuple[Symbol, list[str]]:
        """Return the network, and how its passes run, for `lowering.explain`. Raises TrainingError before `bind`."""
        bound = self._bound
        executors = bound.executors if isinstance(bound, ExecutorGroup) else [bound]
        return self._symbol, [way for executor in executors for way in executor.__explained__()[1]]

    @property
    def _arg_params(self) -> Params | None:
        """Return the parameters by name, as they are in the executor; before `bind`, those that it will copy, or
        None."""
        if self._executor is None:
            return None if self._params is None else self._params[0]
        return {name: self._executor.arg_dict[name] for name in self._param_names}

    @_arg_params.setter
    def _arg_params(self, args: Mapping[str, Any]) -> None:
        self._replace_params(args, self._aux_params or {})

    @property
    def _aux_params(self) -> Params | None:
        """Return the states by name, as in the executor."""
        if self._executor is None:
            return None if self._params is None else self._params[1]
        return dict(self._executor.aux_dict)

    @_aux_params.setter
    def _aux_params(self, states: Mapping[str, Any]) -> None:
        self._replace_params(self._arg_params or {}, states)

    def _replace_params(self, args: Mapping[str, Any], states: Mapping[str, Any]) -> None:
        """Set parameters and states: in the executor, or, if there is none, when it is bound."""
        if self._executor is None:
            self._params = dict(args), dict(states)
        else:
            self._executor.copy_params_from(args, states)

    @property
    def _exec_group(self) -> Any:
        """Return a DataParallelExecutorGroup, the executors and their arrays under MXNet's names; None before
        `bind`."""
        return DataParallelExecutorGroup(self) if self.binded else None

    def _sync_params_from_devices(self) -> None:
        """Do nothing, as `_arg_params` are the executor's own."""
        self._params_dirty = False

    # -- binding -----------------------------------------------------------------------------------------------------

    @checks_flags
    def bind(
        self,
        data_shapes: Sequence[Any],
        label_shapes: Sequence[Any] | None = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Module | None = None,
        grad_req: Any = "write",
    ) -> None:
        """Make the arrays.

        Args:
            data_shapes: (name, shape) pairs, or an iterator's `provide_data`.
            label_shapes: (name, shape) pairs of the labels, or an iterator's `provide_label`.
            for_training: whether gradients will be computed.
            inputs_need_grad: compute gradients of the data as well.
            force_rebind: bind again where it is bound.
            shared_module: a module whose parameters and states this one shares.
            grad_req: "write", "add" or "null", for all arguments, by order or by name.

        Raises:
            BindError: shapes contradict the network or do not decide all others.
            TrainingError: names are not those of the module's data and labels.
        """
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if self.binded and self.params_initialized:
            self._params = self.get_params()
        if inputs_need_grad and not for_training:
            problem = "A module that is bound for inference has no gradients of its inputs"
            raise NotReadyError(problem, fix="module.bind(..., for_training=True, inputs_need_grad=True)")
        if not isinstance(grad_req, str | list | tuple | Mapping):
            raise CallError("grad_req must be one of str, list, tuple, or dict", got=f"{grad_req!r:.80}")
        if shared_module is not None and not isinstance(shared_module, Module):
            raise CallError("shared_module must be a Module that is bound", got=f"{shared_module!r:.80}")
        self.for_training, self.inputs_need_grad, self._grad_req = for_training, inputs_need_grad, grad_req
        label_shapes = list(label_shapes or ())
        self._data_shapes, self._label_shapes = self._described(data_shapes, label_shapes)
        self._fed_labels = [as_desc(desc).name for desc in label_shapes]
        described = [*self._data_shapes, *(self._label_shapes or ())]
        self._executor = self._bind_executor(described, None if shared_module is None else shared_module._bound)
        self._executors = Recent(KEPT)
        self._executors[self._shapes_key(described)] = self._executor
        self.binded = True
        if shared_module is not None:
            self.params_initialized = shared_module.params_initialized
            if shared_module.optimizer_initialized:
                self.borrow_optimizer(shared_module)
        elif self._params is not None:
            self._executor.copy_params_from(*self._params)
        if self._monitor is not None:
            self.install_monitor(self._monitor)

    def _reset_bind(self) -> None:
        """Be as before `bind`; the next one copies the parameters."""
        if self.binded and self.params_initialized:
            self._params = self.get_params()
        self.binded, self._executor, self._label_shapes = False, None, None
        self._data_shapes = None  # pyright: ignore[reportAttributeAccessIssue]

    def _bind_executor(self, described: Sequence[DataDesc], shared: Any) -> Executor | ExecutorGroup:
        """Bind an executor. shared: the executor whose parameters and states are used; it has as many contexts."""
        names = [name for name in self._param_names if shared is not None and name in shared.arg_dict]

        def bind(context: Context, shared: Executor | None, shapes: Mapping[str, Any]) -> Executor:
            return self._symbol.simple_bind(
                context,
                self._requests(),
                {desc.name: desc.dtype for desc in described},
                group2ctx=self._groups,
                shared_exec=shared,
                shared_arg_names=names,
                **shapes,
            )

        if len(self._context) > 1:
            loads, states = self._work_load_list, self._state_names
            return ExecutorGroup.bound(self._context, described, loads, states, shared, bind)
        return bind(self._context[0], shared, {desc.name: desc.shape for desc in described})

    def _described(
        self, data: Sequence[Any], label: Sequence[Any] | None
    ) -> tuple[list[DataDesc], list[DataDesc] | None]:
        descs = [as_desc(desc) for desc in data]
        if sorted(desc.name for desc in descs) != sorted(self._data_names):
            raise TrainingError(
                "Data provided by data_shapes don't match names specified by data_names",
                expected=self._data_names,
                got=[desc.name for desc in descs],
                fix="Module(symbol, data_names=[...], label_names=[...]) names the arguments that come with batches.",
            )
        arguments = self._symbol.list_arguments()
        labels = [as_desc(desc) for desc in label or ()]
        network_labels = [desc for desc in labels if desc.name in arguments]
        names = {desc.name for desc in labels}
        left_out = [name for name in self._label_names if name in arguments and name not in names]
        if left_out and len(network_labels) < len(labels):
            raise TrainingError(
                "Labels provided by label_shapes don't match names specified by label_names",
                expected=left_out,
                got=sorted(names),
                fix=f"NDArrayIter(..., label_name={left_out[0]!r}) names labels as the network does.",
            )
        return descs, network_labels or None

    def _requests(self) -> dict[str, Any]:
        """Return the grad_req of each argument."""
        if not self.for_training:
            return dict.fromkeys(self._symbol.list_arguments(), "null")
        grad_req = self._grad_req
        if isinstance(grad_req, list | tuple):
            grad_req = dict(paired(self._symbol.list_arguments(), grad_req, "grad_reqs", "arguments"))
        of = (lambda name: grad_req) if isinstance(grad_req, str) else (lambda name: grad_req.get(name, "write"))
        requests = {name: "null" if name in self._fixed_param_names else of(name) for name in self._param_names}
        inputs = {name: of(name) if self.inputs_need_grad else "null" for name in self._data_names}
        return {**dict.fromkeys(self._symbol.list_arguments(), "null"), **requests, **inputs}

    @staticmethod
    def _shapes_key(described: Sequence[DataDesc]) -> tuple[Any, ...]:
        return tuple(sorted((desc.name, desc.shape) for desc in described))

    @explained_by(bind)
    def reshape(self, data_shapes: Sequence[Any], label_shapes: Sequence[Any] | None = None) -> None:
        """Bind for other shapes; parameters stay. What is bound is kept for the 128 combinations used last.

        Raises:
            BindError: parameters or states do not fit the shapes.
        """
        self._require(params=False)
        label_shapes = list(label_shapes or ())
        data, labels = self._described(data_shapes, label_shapes)
        described = [*data, *(labels or ())]
        key = self._shapes_key(described)
        executor = self._executors.get(key)
        if executor is None:
            executor = self._executors[key] = self._reshaped({desc.name: desc.shape for desc in described})
            if self._monitor is not None:
                self._watch(executor)
        self._executor, self._data_shapes, self._label_shapes = executor, data, labels
        self._fed_labels = [as_desc(desc).name for desc in label_shapes]

    def _reshaped(self, shapes: Mapping[str, tuple[int, ...]]) -> Executor | ExecutorGroup:
        executor = self._bound.reshape(partial_shaping=True, allow_up_sizing=True, **shapes)
        old, new = ({**bound.arg_dict, **bound.aux_dict} for bound in (self._bound, executor))
        for name in (*self._param_names, *self._aux_names):
            if new[name].shape != old[name].shape:
                raise BindError(
                    f"Shape of unspecifie {'aux' if name in self._aux_names else 'arg'}: {name} changed, from "
                    f"{old[name].shape} to {new[name].shape}: the batch does not fit the parameters that are there",
                    got=", ".join(f"{name} {shape}" for name, shape in shapes.items()),
                    fix="Pass batches of the sample shape that the network was trained with: only the number of rows "
                    "may differ.",
                )
        return executor

    # -- parameters --------------------------------------------------------------------------------------------------

    @checks_flags
    @explained_by(BaseModule.fit)
    def init_params(
        self,
        initializer: str | Callable[..., Any] | None = UNIFORM,
        arg_params: Mapping[str, Any] | None = None,
        aux_params: Mapping[str, Any] | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Give parameters and states their first values: given ones, else the initialiser's.

        Values that the network does not have are ignored.

        Args:
            force_init: do it again where it has been done.
            allow_extra: accepted and ignored.

        Raises:
            TrainingError: values are missing, without `allow_missing`.
            InitializerError: an initialiser is unknown or does not fit a parameter.
        """
        if self.params_initialized and not force_init:
            message = "Parameters already initialized and force_init=False. init_params call ignored."
            warnings.warn(message, stacklevel=2)
            return
        self._require(params=False)
        names, bound = parameter_names(self._symbol), self._bound
        rows = (
            (arg_params, {name: bound.arg_dict[name] for name in self._param_names}, "arg_params"),
            (aux_params, bound.aux_dict, "aux_params"),
        )
        for values, arrays, what in rows:
            if not allow_missing:
                refuse_missing(values, arrays, what)
            # MXNet's order, the names', with which a network that is built twice takes the same keys.
            for name, array in sorted(arrays.items(), key=lambda item: names[item[0]].drawn_as):
                if values is not None and name in values:
                    array[:] = fitting(name, values[name], array.shape)
                elif initializer is not None:
                    fill(initializer, names[name], array)
        if isinstance(bound, ExecutorGroup):
            bound.share_states()
        self.params_initialized = True

    def _refuse_surplus(self, arg_params: Mapping[str, Any], aux_params: Mapping[str, Any]) -> None:
        refuse_surplus(arg_params, self._param_names, "arg_params")
        refuse_surplus(aux_params, self._aux_names, "aux_params")

    def take_params(self, args: Mapping[str, Any], states: Mapping[str, Any]) -> None:
        """Set parameters and states before the module is bound; `bind` copies them.

        Args:
            args: parameters by name.
            states: auxiliary states by name.
        """
        self._replace_params(args, states)
        self.params_initialized = True

    def get_params(self) -> tuple[Params, Params]:
        """Return copies of the parameters and states, by name; states are the mean over several contexts."""
        self._require(params=False)
        if not self.params_initialized:
            self._require()
        bound = self._bound
        args = {name: bound.arg_dict[name].copy() for name in self._param_names}
        states = bound.mean_states if isinstance(bound, ExecutorGroup) else bound.aux_dict
        return args, {name: array.copy() for name, array in states.items()}

    # -- running -----------------------------------------------------------------------------------------------------

    def _feed(self, data_batch: DataBatch | list[DataBatch]) -> dict[str, Any]:
        """Return the arrays of a batch by argument, for the executor of its shapes; they come in the bound order."""
        batches = data_batch if isinstance(data_batch, list) else [data_batch]
        if not all(isinstance(getattr(batch, "data", None), list | tuple) for batch in batches):
            raise MODULE.refusal((data_batch,), {})
        if isinstance(data_batch, list):
            data_batch = joined(data_batch, self._data_shapes)
        data_names = [desc.name for desc in self._data_shapes]
        feed = dict(_fed(data_names, data_batch.data, "data"))
        bound = [desc.name for desc in self._label_shapes or ()]
        label = getattr(data_batch, "label", None)  # any object with `data` is a batch
        if label and bound:
            feed |= dict(_fed(self._fed_labels, label, "label"))
        bound_shapes = {desc.name: desc.shape for desc in (*self._data_shapes, *(self._label_shapes or ()))}
        feed = {name: value for name, value in feed.items() if name in bound_shapes}
        others = [name for name, value in feed.items() if tuple(value.shape) != bound_shapes[name]]
        if others and not set(others).intersection(data_names):
            fix = f"Pass this shape to bind: label_shapes=[({others[0]!r}, {tuple(feed[others[0]].shape)})]."
            problem = f"Label {others[0]!r} of the batch does not have the shape that was bound"
            raise TrainingError(problem, expected=bound_shapes[others[0]], got=tuple(feed[others[0]].shape), fix=fix)
        if others:
            shapes = {name: tuple(value.shape) for name, value in feed.items()}
            data = [desc.of_shape(shapes[desc.name]) for desc in self._data_shapes]
            labels = [desc.of_shape(shapes[desc.name]) for desc in self._label_shapes or () if desc.name in shapes]
            if bound and not labels:
                rows = data[0].shape[0]
                labels = [desc.of_shape((rows, *desc.shape[1:])) for desc in self._label_shapes or ()]
            fed = self._fed_labels
            self.reshape(data, labels)
            self._fed_labels = fed
        arrays = self._bound.arg_dict
        return {name: converted(value, arrays[name]) for name, value in feed.items()}

    @says_how_to_call(MODULE)
    def forward(self, data_batch: DataBatch | list[DataBatch], is_train: bool | None = None) -> None:
        """Run a batch, or several at once; a batch of other shapes binds for these.

        Args:
            data_batch: the batch, or a list of batches.
            is_train: run in training mode; None for what the module was bound for.

        Raises:
            BindError: the parameters do not fit the batch.
        """
        self._require()
        feed = self._feed(data_batch)
        self._bound.forward(self.for_training if is_train is None else is_train, **feed)

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients of the latest batch.

        Args:
            out_grads: the gradients of outputs that are not loss heads.

        Raises:
            GradientError: a head gradient is missing or has a wrong shape.
            NotReadyError: the module was bound for inference; the error is an AssertionError, too.
        """
        self._require()
        if not self.for_training:
            raise NotReadyError(
                "backward needs a module that is bound for training", fix="module.bind(..., for_training=True)"
            )
        self._bound.backward(out_grads)

    def forward_backward(self, data_batch: DataBatch) -> None:
        """Run a batch in training mode and compute gradients, as one program, or by the methods of a subclass that has
        its own."""
        if overridden(self, Module, "forward", "backward"):
            super().forward_backward(data_batch)
            return
        self._require()
        feed = self._feed(data_batch)  # which may bind for other shapes
        self._bound.forward_backward(**feed)

    def get_outputs(self, merge_multi_context: bool = True) -> Any:
        """Return the outputs of the latest batch.

        Args:
            merge_multi_context: join the parts of several contexts; False returns a list by contexts for each.
        """
        bound = self._bound
        if isinstance(bound, ExecutorGroup) and not merge_multi_context:
            return [list(parts) for parts in zip(*[executor.outputs for executor in bound.executors], strict=True)]
        return bound.outputs if merge_multi_context else [[output] for output in bound.outputs]

    def get_input_grads(self, merge_multi_context: bool = True) -> Any:
        """Return the gradients of the data.

        Args:
            merge_multi_context: join the parts of several contexts; False returns a list by contexts for each.

        Raises:
            NotReadyError: the module was bound without `inputs_need_grad`; the error is an AssertionError, too.
        """
        self._require()
        if not self.inputs_need_grad:
            raise NotReadyError(
                "The module was not bound for gradients of the data", fix="module.bind(inputs_need_grad=True, ...)"
            )
        bound = self._bound
        if isinstance(bound, ExecutorGroup) and not merge_multi_context:
            return [bound.parts_of(desc.name) for desc in self._data_shapes]
        gradients = [bound.grad_dict[desc.name] for desc in self._data_shapes]
        return gradients if merge_multi_context else [[gradient] for gradient in gradients]

    def get_states(self, merge_multi_context: bool = True) -> Any:
        """Return the states that the caller sets.

        Args:
            merge_multi_context: join the parts of several contexts; False returns a list by contexts for each.
        """
        bound = self._bound
        if isinstance(bound, ExecutorGroup) and merge_multi_context:
            return [bound.joined(name) for name in self._state_names]
        states = [[executor.arg_dict[name] for executor in executors_of(bound)] for name in self._state_names]
        return [parts[0] for parts in states] if merge_multi_context else states

    def set_states(self, states: Sequence[Any] | None = None, value: float | None = None) -> None:
        """Set the states.

        Args:
            states: arrays, each whole or a list by contexts.
            value: a number for all of them.
        """
        targets = self.get_states(merge_multi_context=False)
        for parts, state in zip(targets, [value] * len(targets) if states is None else states, strict=True):
            for part, own in zip(parts, _by_context(state, [part.shape[0] for part in parts]), strict=True):
                part[:] = own

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric with the latest batch.

        Args:
            eval_metric: the metric.
            labels: the labels of the batch.
            pre_sliced: whether labels are lists by contexts.
        """
        names = [desc.name for desc in self._label_shapes or ()]
        labels_by_name = dict(zip(self._fed_labels, labels or (), strict=False))
        bound_labels = {name: labels_by_name[name] for name in names if name in labels_by_name}
        eval_metric.update_dict(bound_labels, dict(zip(self.output_names, self.get_outputs(), strict=True)))

    @checks_flags
    def install_monitor(self, mon: Watcher) -> None:
        """Install a monitor on the module."""
        self._monitor = mon
        self._watch(self._bound)

    def _watch(self, bound: Executor | ExecutorGroup) -> None:
        for executor in executors_of(bound):
            self._monitor.install(executor)

    # -- the optimiser -----------------------------------------------------------------------------------------------

    @checks_flags
    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Make the optimiser; gradients are multiplied with 1 / batch size unless `optimizer_params` has a
        `rescale_grad`.

        Args:
            kvstore: "dist_sync" sums gradients over the processes of `jax.distributed`, which start with the first
                one's parameters; the batch size is then that of all. Other stores change nothing.
            optimizer: an optimiser or its name.
            optimizer_params: the parameters of a named optimiser.
            force_init: do it again where it has been done.

        Raises:
            ParamError: a parameter of the optimiser is unknown or wrong.
            CallError: the store needs MXNet's servers, or an argument has the wrong type.
        """
        self._require()
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        trained = [name for name in self._param_names if name not in self._fixed_param_names]
        refuse_untrainable(self._symbol, trained, "Module(…, fixed_param_names=[…]) trains only the others.")
        store = create_kvstore(kvstore) if isinstance(kvstore, str) else kvstore or KVStore("local")
        if not isinstance(store, KVStoreBase):
            raise CallError("kvstore must be a name or a KVStore", got=type(kvstore).__name__, fix="kvstore='local'")
        self._store = store
        axis = DataDesc.get_batch_axis(self._data_shapes[0].layout)
        rescale_grad = 1.0 / (self._data_shapes[0].shape[max(axis, 0)] * store.num_workers)
        self._optimizer = make_optimizer(
            optimizer, named_values(optimizer_params, "optimizer_params"), self._symbol, self._param_names, rescale_grad
        )
        self._numbers = self._optimizer.numbers_of(self._param_names)
        self._updater = optimizers.get_updater(self._optimizer)
        self._kvstore = store if len(self._context) > 1 else None
        self._update_on_kvstore = self._kvstore is not None
        if isinstance(self._kvstore, KVStore):
            self._kvstore.set_updater(self._updater)
        if store.num_workers > 1:
            weights = [self._bound.arg_dict[name] for name in self._param_names]
            for array, first in zip(weights, store.of_first_worker(weights), strict=True):
                array[:] = first
        self.optimizer_initialized = True
        if self._preload_opt_states is not None:
            self.load_optimizer_states(self._preload_opt_states)
            self._preload_opt_states = None

    def borrow_optimizer(self, shared_module: Module) -> None:
        """Update with another module's optimiser and share its states.

        Args:
            shared_module: the other module.
        """
        assert shared_module._optimizer is not None
        self._optimizer, self._updater = shared_module._optimizer, shared_module._updater
        self._numbers = self._optimizer.numbers_of(self._param_names)
        self._store, self._kvstore = shared_module._store, shared_module._kvstore
        self._update_on_kvstore = shared_module._update_on_kvstore
        self.optimizer_initialized = True

    def update(self) -> None:
        """Update the parameters by their gradients."""
        self._require(optimizer=True)
        assert self._updater is not None
        args, grads = self._bound.arg_dict, self._bound.grad_dict
        gradients = {name: grads[name] for name in self._param_names}
        trained = {name: grad for name, grad in gradients.items() if grad is not None}
        totals = self._store.summed(list(trained.values()))
        self._updater([self._numbers[name] for name in trained], totals, [args[name] for name in trained])

    # -- files -------------------------------------------------------------------------------------------------------

    @explained_by(checkpoints.save_checkpoint)
    def save_checkpoint(
        self, prefix: str, epoch: int, save_optimizer_states: bool = False, remove_amp_cast: bool = True
    ) -> None:
        """Write `prefix-symbol.json` and `prefix-0001.params`.

        Args:
            save_optimizer_states: write `prefix-0001.states` as well.
        """
        checkpoints.save_checkpoint(prefix, epoch, self._symbol, *self.get_params(), remove_amp_cast)
        if save_optimizer_states:
            states = f"{prefix}-{epoch:04d}.states"
            self.save_optimizer_states(states)
            self.logger.info('Saved optimizer state to "%s"', states)

    @staticmethod
    @checks_flags
    @explained_by(checkpoints.save_checkpoint)
    def load(prefix: str, epoch: int, load_optimizer_states: bool = False, **kwargs: Any) -> Module:
        """Return a module of a checkpoint; bind it before it runs.

        Args:
            prefix: the part of the path before `-symbol.json`.
            epoch: the number of the epoch.
            load_optimizer_states: load `prefix-0001.states` as well.
            kwargs: arguments of Module.
        """
        symbol, args, aux = checkpoints.load_checkpoint(prefix, epoch)
        module = Module(symbol, **kwargs)
        module.take_params(args, aux)
        module._preload_opt_states = f"{prefix}-{epoch:04d}.states" if load_optimizer_states else None
        return module

    def save_optimizer_states(self, fname: str) -> None:
        """Write the optimiser's states to a file of arrays, where MXNet writes pickled Python."""
        self._require(optimizer=True)
        assert self._updater is not None
        self._updater.save(fname)

    def load_optimizer_states(self, fname: str) -> None:
        """Load what `save_optimizer_states` wrote; MXNet's own files raise ParamsFormatError."""
        self._require(optimizer=True)
        assert self._updater is not None
        self._updater.load(fname)
        args, grads = self._bound.arg_dict, self._bound.grad_dict
        trained = {self._numbers[name]: args[name] for name in self._param_names if grads[name] is not None}
        self._updater.make_states(trained, trained.values())


def _by_context(state: Any, rows: Sequence[int]) -> Sequence[Any]:
    """Return the value of a state for each context: items of a list, a repeated number, or rows of an array."""
    if isinstance(state, list | tuple):
        return state
    if not np.ndim(state):
        return [state] * len(rows)
    ends = np.cumsum(rows)
    return [state[end - size : end] for end, size in zip(ends.tolist(), rows, strict=True)]


def _fed(names: Sequence[str], arrays: Any, what: str) -> list[tuple[str, Any]]:
    """Return the arrays of a batch with the names that they were bound by. Raises WrongNameError, a ValueError, for
    other names, and for values that are not arrays of samples."""
    arrays = list(arrays) if isinstance(arrays, list | tuple) else arrays
    if not isinstance(arrays, list) or len(arrays) != len(names):
        count = f"{len(arrays)} arrays" if isinstance(arrays, list) else type(arrays).__name__
        problem = f"Data provided by {what}_shapes don't match names specified by {what}_names"
        fix = f"Make the batch with mx.io.DataBatch({what}=[one array for each])."
        raise WrongNameError(problem, expected=f"{what} for {list(names)}", got=count, fix=fix)
    for name, array in zip(names, arrays, strict=True):
        if not hasattr(array, "shape") or 0 in array.shape:
            got = f"shape {array.shape}" if hasattr(array, "shape") else type(array).__name__
            raise WrongNameError(f"The batch has no samples of {name!r}", expected="an array", got=got)
    return list(zip(names, arrays, strict=True))
