"""BucketingModule: one set of parameters, and a network for each kind of batch, such as each length of sentences."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lowering.messages.counts import checks_flags
from lowering.mx.accepted_types import ContextsLike, Logger
from lowering.mx.compatibility.array_functions import overridden
from lowering.mx.context import as_context
from lowering.mx.io.desc import DataBatch
from lowering.mx.module import module_checkpoints as checkpoints
from lowering.mx.module.base_module import KEPT, UNIFORM, BaseModule, Params
from lowering.mx.module.module import Module
from lowering.mx.monitor import Watcher
from lowering.mx.ndarray.creation import array
from lowering.mx.ndarray.saved_arrays import load, save
from lowering.mx.shared_arguments import explained_by
from lowering.mx.symbol import load as load_symbol
from lowering.mx.symbol.runnable import Symbol
from symjax_nnvm.errors import CallError
from symjax_nnvm.recent import Recent
from symjax_nnvm.symbol.scope import NameManager

SymGen = Callable[[Any], tuple[Symbol, Sequence[str] | None, Sequence[str] | None]]


@explained_by(Module)
class BucketingModule(BaseModule):
    """A module for each bucket's key, made when its first batch comes; all share parameters and optimiser.

    The default one and the 128 used last are kept; another is made again when its next batch comes.

    Args:
        sym_gen: a function of the key that returns (symbol, data names, label names).
        default_bucket_key: the key of the network that has all parameters.
    """

    def __init__(
        self,
        sym_gen: SymGen,
        default_bucket_key: Any = None,
        logger: Logger = logging,
        context: ContextsLike = None,
        work_load_list: Any = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
        compression_params: Any = None,
    ):
        super().__init__(logger)
        if default_bucket_key is None:
            raise CallError(
                "BucketingModule needs a default_bucket_key",
                fix="Pass the key of the longest bucket: default_bucket_key=60.",
            )
        self._sym_gen, self._default_bucket_key = sym_gen, default_bucket_key
        self._options = {
            "logger": logger,
            "context": context,
            "work_load_list": work_load_list,
            "fixed_param_names": fixed_param_names,
            "state_names": state_names,
            "group2ctxs": group2ctxs,
            "compression_params": compression_params,
        }
        self._main = self._make_module(default_bucket_key)
        self._fixed_param_names, self._state_names = self._main._fixed_param_names, self._main._state_names
        self._group2ctxs, self._compression_params = group2ctxs, compression_params
        self._work_load_list = work_load_list
        self._current = self._main
        self._others: Recent[Any, Module] = Recent(KEPT)  # of other keys
        self._keys: dict[Any, None] = {default_bucket_key: None}
        self._monitor: Any = None
        self._bound_as: dict[str, Any] = {}
        self._params_dirty = False
        """MXNet's: nothing is ever to be synchronised."""

    def _call_sym_gen(self, *args: Any, **kwargs: Any) -> Any:
        """Return what sym_gen gives, with automatic names that begin anew."""
        with NameManager():
            return self._sym_gen(*args, **kwargs)

    def _make_module(self, key: Any) -> Module:
        return Module(*self._call_sym_gen(key), **self._options)

    def _module(self, key: Any) -> Module:
        """Return the module of a key, made when it is first used; the default one and those used last are kept."""
        if key == self._default_bucket_key:
            return self._main
        module = self._others.get(key)
        if module is None:
            module = self._others[key] = self._make_module(key)
            self._keys[key] = None
        return module

    # -- MXNet's names of what it is -----------------------------------------------------------------------------------

    @property
    def _buckets(self) -> dict[Any, Module]:
        """Return the modules by key; none before `bind`."""
        return {self._default_bucket_key: self._main, **dict(self._others.items())} if self.binded else {}

    @property
    def _curr_module(self) -> Module | None:
        """Return the module of the batch that ran last; None before `bind`."""
        return self._current if self.binded else None

    @property
    def _curr_bucket_key(self) -> Any:
        return next((key for key, module in self._buckets.items() if module is self._current), None)

    @property
    def _context(self) -> Any:
        """Return where it runs, as it was given; the current context where nothing was."""
        return as_context(None) if self._options["context"] is None else self._options["context"]

    @property
    def _grad_req(self) -> Any:
        return self._bound_as.get("grad_req")

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def _modules(self) -> list[Module]:
        return [self._main, *(module for _, module in self._others.items())]

    def __explained__(self) -> tuple[Symbol, list[str]]:
        """Return the network of the current bucket, and how its passes run, for `lowering.explain`."""
        return self._current.__explained__()

    @property
    def symbol(self) -> Symbol:
        """Return the network of the latest batch."""
        return self._current.symbol

    @property
    def data_names(self) -> list[str]:
        """Return the names of the arguments that are data."""
        return self._current.data_names

    @property
    def label_names(self) -> list[str]:
        """Return the names of the arguments that are labels."""
        return self._current.label_names

    @property
    def output_names(self) -> list[str]:
        """Return the names of the outputs."""
        return self._current.output_names

    @property
    def data_shapes(self) -> Any:
        """Return the data shapes of the latest batch's module."""
        return self._current.data_shapes

    @property
    def label_shapes(self) -> Any:
        """Return the label shapes of the latest batch's module."""
        return self._current.label_shapes

    @property
    def output_shapes(self) -> Any:
        """(name, shape) of its outputs."""
        return self._current.output_shapes

    def converted(self, convert: Callable[[Symbol], Symbol]) -> BucketingModule:
        """Return an unbound module of the same networks, converted, with the same parameters.

        Args:
            convert: the function that converts a symbol.
        """
        generate = self._sym_gen

        def sym_gen(key: Any) -> Any:
            symbol, *names = generate(key)
            return convert(symbol), *names

        module = BucketingModule(sym_gen, self._default_bucket_key, **self._options)
        if self.params_initialized:
            module._main.take_params(*self.get_params())
            module.params_initialized = True
        return module

    # -- binding -----------------------------------------------------------------------------------------------------

    @checks_flags
    @explained_by(Module.bind)
    def bind(
        self,
        data_shapes: Sequence[Any],
        label_shapes: Sequence[Any] | None = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Any = None,
        grad_req: Any = "write",
    ) -> None:
        """Bind the network of the default key; it raises what Module's `bind` raises."""
        if shared_module is not None:
            raise CallError(
                "shared_module for BucketingModule is not supported", fix="Use Module.bind(shared_module=...)."
            )
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        self._others = Recent(KEPT)
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._bound_as = {"for_training": for_training, "inputs_need_grad": inputs_need_grad, "grad_req": grad_req}
        self._main.bind(data_shapes, label_shapes, force_rebind=force_rebind, **self._bound_as)
        self._current, self.binded = self._main, True

    def _reset_bind(self) -> None:
        """Be as before `bind`; the next one copies the parameters."""
        self._main._reset_bind()
        self._others, self._current, self.binded = Recent(KEPT), self._main, False

    def switch_bucket(
        self, bucket_key: Any, data_shapes: Sequence[Any], label_shapes: Sequence[Any] | None = None
    ) -> None:
        """Continue with the network of a key.

        Args:
            bucket_key: the key.
            data_shapes: the shapes of the data, for a new key.
            label_shapes: the shapes of the labels, for a new key.
        """
        self._require(params=False)
        module = self._module(bucket_key)
        if not module.binded:
            module.bind(data_shapes, label_shapes, shared_module=self._main, **self._bound_as)
            if self._monitor is not None:
                module.install_monitor(self._monitor)
        self._current = module

    def prepare(self, data_batch: DataBatch, sparse_row_id_fn: Any = None) -> None:
        """Bind what the batch needs, without switching to it."""
        before = self._current
        self._switch(data_batch)
        self._current = before

    def _switch(self, batch: DataBatch) -> None:
        data, label = batch.provide_data, batch.provide_label
        if batch.bucket_key is None or data is None:
            problem = "A batch for a BucketingModule needs its bucket_key, provide_data and provide_label"
            raise CallError(problem, fix="mx.io.DataBatch([data], [label], bucket_key=10, provide_data=[...], ...)")
        self.switch_bucket(batch.bucket_key, data, label)

    # -- parameters and optimiser ------------------------------------------------------------------------------------

    @checks_flags
    @explained_by(Module.init_params)
    def init_params(
        self,
        initializer: Any = UNIFORM,
        arg_params: Mapping[str, Any] | None = None,
        aux_params: Mapping[str, Any] | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Give the parameters their first values.

        Args:
            allow_extra: ignore values that the network does not have.
        """
        if self.params_initialized and not force_init:
            return
        self._require(params=False)
        self._main.init_params(initializer, arg_params, aux_params, allow_missing, True, allow_extra)
        for module in self._modules:
            module.params_initialized = True
        self.params_initialized = True

    def _refuse_surplus(self, arg_params: Mapping[str, Any], aux_params: Mapping[str, Any]) -> None:
        self._main._refuse_surplus(arg_params, aux_params)

    def get_params(self) -> tuple[Params, Params]:
        """Return copies of the parameters and states, by name."""
        self._require()
        return self._main.get_params()

    @checks_flags
    @explained_by(Module.init_optimizer)
    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Make the optimiser that all networks share.

        Args:
            kvstore: a KVStore, its name or None.
        """
        self._require()
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring.")
            return
        self._main.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        for module in self._modules:
            if module is not self._main:
                module.borrow_optimizer(self._main)
        self.optimizer_initialized = True

    # -- running -----------------------------------------------------------------------------------------------------

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        """Run a batch with the network of its key.

        Args:
            data_batch: the batch.
            is_train: run in training mode; None for what the module was bound for.
        """
        self._require()
        self._switch(data_batch)
        self._current.forward(data_batch, is_train)

    def forward_backward(self, data_batch: DataBatch) -> None:
        """Run a batch in training mode and compute gradients, as one program, or by the methods of a subclass that has
        its own."""
        if overridden(self, BucketingModule, "forward", "backward"):
            super().forward_backward(data_batch)
            return
        self._require()
        self._switch(data_batch)
        self._current.forward_backward(data_batch)

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients of the latest batch."""
        self._current.backward(out_grads)

    def update(self) -> None:
        """Update the parameters by the gradients."""
        self._require(optimizer=True)
        self._current.update()

    def get_outputs(self, merge_multi_context: bool = True) -> Any:
        """Return the outputs of the latest batch."""
        return self._current.get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> Any:
        """Return the gradients of the latest batch's data."""
        return self._current.get_input_grads(merge_multi_context)

    def get_states(self, merge_multi_context: bool = True) -> Any:
        """Return the states that the caller sets."""
        return self._current.get_states(merge_multi_context)

    def set_states(self, states: Sequence[Any] | None = None, value: float | None = None) -> None:
        """Set the states to arrays, or all of them to one number."""
        self._current.set_states(states, value)

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric with the latest batch."""
        self._current.update_metric(eval_metric, labels, pre_sliced)

    @checks_flags
    def install_monitor(self, mon: Watcher) -> None:
        """Install a monitor on all networks."""
        self._monitor = mon
        for module in self._modules:
            if module.binded:
                module.install_monitor(mon)

    # -- files -------------------------------------------------------------------------------------------------------

    def save_checkpoint(self, prefix: str, epoch: int, remove_amp_cast: bool = False) -> None:
        """Write the parameters, and the network of each key as `prefix-{key}-symbol.json`."""
        checkpoints.save_checkpoint(prefix, epoch, None, *self.get_params())
        for key in self._keys:
            self._module(key).symbol.save(f"{prefix}-{key}-symbol.json", remove_amp_cast)
        if all(isinstance(key, int | np.integer) for key in self._keys):
            save(f"{prefix}.buckets", array(list(self._keys), dtype="int32"))

    @staticmethod
    def load(
        prefix: str, epoch: int, sym_gen: SymGen | None = None, default_bucket_key: Any = None, **kwargs: Any
    ) -> BucketingModule:
        """Return a module of what `save_checkpoint` wrote, for keys that are whole numbers; bind it before it runs.

        Args:
            prefix: the part of the path before `-0001.params`.
            epoch: the number of the epoch.
            sym_gen: that of the saved module.
            default_bucket_key: that of the saved module.
            kwargs: further arguments of the class.

        Raises:
            AssertionError: `sym_gen` or `default_bucket_key` is missing.
            ParamsFormatError: a file is malformed.
            OSError: a file cannot be read.
        """
        assert sym_gen is not None, "sym_gen is required for loading BucketingModule"
        assert default_bucket_key is not None, "default_bucket_key is required for loading BucketingModule"
        keys = [int(key) for key_array in load(f"{prefix}.buckets") for key in np.ravel(key_array)]
        symbols = {key: load_symbol(f"{prefix}-{key}-symbol.json") for key in keys}
        args, states = checkpoints.load_params(prefix, epoch)
        return BucketingModule.load_dict(symbols, sym_gen, default_bucket_key, args, states, **kwargs)

    @staticmethod
    def load_dict(
        sym_dict: Mapping[Any, Symbol] | None = None,
        sym_gen: SymGen | None = None,
        default_bucket_key: Any = None,
        arg_params: Mapping[str, Any] | None = None,
        aux_params: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> BucketingModule:
        """Return a module of networks and parameters.

        Args:
            sym_dict: networks by key.
            sym_gen: makes the networks of other keys, and names data and labels.
            default_bucket_key: the key of the network that has all parameters.
            arg_params: parameters by name.
            aux_params: auxiliary states by name.
            kwargs: further arguments of the class.

        Raises:
            AssertionError: an argument is missing.
        """
        assert sym_dict is not None, "sym_dict is required for loading BucketingModule"
        assert sym_gen is not None, "sym_gen is required for loading BucketingModule"
        assert default_bucket_key is not None, "default_bucket_key is required for loading BucketingModule"
        assert arg_params is not None, "arg_params is required for loading BucketingModule"
        assert aux_params is not None, "aux_params is required for loading BucketingModule"
        symbols, generate = dict(sym_dict), sym_gen
        module = BucketingModule(
            lambda key: (symbols[key], *generate(key)[1:]) if key in symbols else generate(key),
            default_bucket_key,
            **kwargs,
        )
        module._keys |= dict.fromkeys(symbols)
        module._main.take_params(arg_params, aux_params)
        module.params_initialized = True
        return module
