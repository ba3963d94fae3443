"""SequentialModule: modules one after the other, each on the outputs of the one before."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Self

from lowering.messages.counts import checks_flags
from lowering.mx.accepted_types import Logger
from lowering.mx.io.desc import DataBatch, as_desc
from lowering.mx.module.base_module import UNIFORM, BaseModule, Params
from lowering.mx.module.module import Module
from lowering.mx.monitor import Watcher
from lowering.mx.shared_arguments import explained_by


class SequentialModule(BaseModule):
    """A chain of modules, made by `add`; it has no symbol.

    One Module of composed networks, `second(data=first)`, is one program, and faster.

    Args:
        logger: the logger.
    """

    META_TAKE_LABELS = "take_labels"
    META_AUTO_WIRING = "auto_wiring"
    _symbol: Any = None

    def __init__(self, logger: Logger = logging):
        super().__init__(logger)
        self._modules: list[Any] = []
        self._metas: list[dict[str, Any]] = []
        self._label_shapes: Any = None

    def add(self, module: Any, **kwargs: Any) -> Self:
        """Append a module.

        Args:
            module: the module.
            kwargs: `take_labels`: the module gets the batch's labels, and metrics its outputs. `auto_wiring`: it gets
                the outputs before it as its data by order, not by name.

        Returns:
            The chain itself.

        Raises:
            AssertionError: a keyword is another one.
        """
        for key in kwargs:
            assert key in (self.META_TAKE_LABELS, self.META_AUTO_WIRING), f'Unknown meta "{key}", a typo?'
        self._modules.append(module)
        self._metas.append(kwargs)
        self.binded = self.params_initialized = self.optimizer_initialized = False
        return self

    @property
    def data_names(self) -> list[str]:
        """Return the first module's data names."""
        return self._modules[0].data_names if self._modules else []

    @property
    def output_names(self) -> list[str]:
        """Return the last module's output names."""
        return self._modules[-1].output_names if self._modules else []

    @property
    def data_shapes(self) -> Any:
        """Return the shapes that the first module is bound for."""
        self._require(params=False)
        return self._modules[0].data_shapes

    @property
    def label_shapes(self) -> Any:
        """Return the shapes that were bound for labels; None where no module takes them."""
        self._require(params=False)
        return self._label_shapes

    @property
    def output_shapes(self) -> Any:
        """(name, shape) of the last module's outputs."""
        self._require(params=False)
        return self._modules[-1].output_shapes

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
        """Bind all modules; it raises what their `bind` raises.

        Args:
            shared_module: None.

        Raises:
            AssertionError: the chain is empty, or `shared_module` is not None.
        """
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        assert for_training or not inputs_need_grad, "inputs_need_grad=True needs for_training=True"
        assert shared_module is None, "Shared module is not supported"
        assert self._modules, "Attempting to bind an empty SequentialModule"
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        input_shapes: Any = data_shapes
        label_shapes = None if label_shapes is None else list(label_shapes)
        for i, (module, meta) in enumerate(zip(self._modules, self._metas, strict=True)):
            if meta.get(self.META_AUTO_WIRING):
                pairs = zip(module.data_names, input_shapes, strict=True)
                input_shapes = [(name, as_desc(desc).shape) for name, desc in pairs]
            labels = label_shapes if meta.get(self.META_TAKE_LABELS) else None
            needs_grad = inputs_need_grad or (for_training and i > 0)
            module.bind(input_shapes, labels, for_training, needs_grad, force_rebind, None, grad_req)
            input_shapes = module.output_shapes
        takes = any(meta.get(self.META_TAKE_LABELS) for meta in self._metas)
        self._label_shapes = label_shapes if takes else None
        self.binded = True

    # -- parameters and optimisers -------------------------------------------------------------------------------------

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
        """Give the parameters of all modules their first values; values that no module has are ignored.

        Args:
            allow_extra: ignore values that the network does not have.

        Raises:
            AssertionError: two modules have a parameter of one name.
        """
        if self.params_initialized and not force_init:
            return
        self._require(params=False)
        owners: tuple[dict[str, int], dict[str, int]] = {}, {}
        for i, module in enumerate(self._modules):
            # What is surplus for one module is another's.
            module.init_params(initializer, arg_params, aux_params, allow_missing, force_init, allow_extra=True)
            for owner_of, params in zip(owners, module.get_params(), strict=True):
                for name in params:
                    where = f'name "{name}" of module {i} is used in module {owner_of.get(name)}'
                    assert name not in owner_of, f"Duplicated parameter names: {where}"
                    owner_of[name] = i
        self.params_initialized = True

    def get_params(self) -> tuple[Params, Params]:
        """Return the parameters and states of all modules."""
        self._require()
        args: Params = {}
        states: Params = {}
        for module in self._modules:
            for all_of_a_kind, params in zip((args, states), module.get_params(), strict=True):
                all_of_a_kind.update(params)
        return args, states

    @checks_flags
    @explained_by(Module.init_optimizer)
    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Make an optimiser for each module.

        Args:
            kvstore: a KVStore, its name or None.
        """
        self._require()
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring.")
            return
        for module in self._modules:
            module.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        self.optimizer_initialized = True

    # -- running -----------------------------------------------------------------------------------------------------

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        """Run all modules, one after the other."""
        self._require()
        batch = copy.copy(data_batch)
        for i, module in enumerate(self._modules):
            if i > 0:
                batch.data = self._modules[i - 1].get_outputs()
                names = [as_desc(desc).name for desc in self._modules[i - 1].output_shapes]
                batch.provide_data = [(name, out.shape) for name, out in zip(names, batch.data, strict=True)]
            module.forward(batch, is_train=is_train)

    def backward(self, out_grads: Any = None) -> None:
        """Compute all modules' gradients, the last module's first."""
        self._require()
        for module in reversed(self._modules):
            module.backward(out_grads=out_grads)
            if module is not self._modules[0]:
                out_grads = module.get_input_grads()

    def update(self) -> None:
        """Update all modules' parameters."""
        self._require(optimizer=True)
        for module in self._modules:
            module.update()

    def get_outputs(self, merge_multi_context: bool = True) -> Any:
        """Return the last module's outputs."""
        self._require()
        return self._modules[-1].get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> Any:
        """Return the gradients of the first module's data; without `inputs_need_grad` it raises AssertionError."""
        self._require()
        assert self.inputs_need_grad, "bind(inputs_need_grad=True, ...)"
        return self._modules[0].get_input_grads(merge_multi_context)

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric with the outputs of the modules that take labels."""
        self._require()
        for module, meta in zip(self._modules, self._metas, strict=True):
            if meta.get(self.META_TAKE_LABELS):
                module.update_metric(eval_metric, labels, pre_sliced)

    @checks_flags
    def install_monitor(self, mon: Watcher) -> None:
        """Install a monitor on all modules."""
        self._require(params=False)
        for module in self._modules:
            module.install_monitor(mon)
