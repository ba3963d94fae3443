"""`module._exec_group`: a module's executors and their arrays, which scripts read to clip or watch gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowering.mx.executor import Executor
from lowering.mx.io.desc import DataDesc
from lowering.mx.module.group import ExecutorGroup, executors_of
from lowering.mx.ndarray.array import NDArray

Arrays = list[list[NDArray | None]]
"""For each name, the array of each executor."""


def _of_module(name: str, doc: str) -> Any:
    """Return a property that is one of the module."""
    return property(lambda self: getattr(self._module, name), doc=doc)


class DataParallelExecutorGroup:
    """The executors of a bound module, under MXNet's names. Arrays are the executors' own: writing one changes what the
    module runs and what it updates by. Of several contexts the first one's parameters are those of all."""

    def __init__(self, module: Any):
        self._module = module

    @property
    def execs(self) -> list[Executor]:
        """An executor for each context."""
        return executors_of(self._module._bound)

    symbol = _of_module("symbol", "The network.")
    contexts = _of_module("_context", "The contexts that the module runs on.")
    param_names = _of_module("_param_names", "The parameters.")
    fixed_param_names = _of_module("_fixed_param_names", "The names of the parameters that are not updated.")
    state_names = _of_module("_state_names", "The states that callers set.")
    data_names = _of_module("data_names", "The names of the data.")
    label_names = _of_module("label_names", "The names of the labels.")
    output_names = _of_module("output_names", "The names of the outputs.")
    data_shapes = _of_module("data_shapes", "The shapes of the data that were bound.")
    label_shapes = _of_module("label_shapes", "The shapes of the labels that were bound.")
    workload = _of_module("_work_load_list", "The share of each context.")
    logger = _of_module("logger", "The logger of the module.")
    for_training = _of_module("for_training", "Whether gradients are computed.")
    inputs_need_grad = _of_module("inputs_need_grad", "Whether gradients of the data are computed.")

    @property
    def arg_names(self) -> list[str]:
        """Return the arguments of the network."""
        return self.symbol.list_arguments()

    @property
    def aux_names(self) -> list[str]:
        """Return the states of the network."""
        return self.symbol.list_auxiliary_states()

    @property
    def batch_size(self) -> int:
        """Return the samples of a batch."""
        first = self.data_shapes[0]
        return first.shape[max(DataDesc.get_batch_axis(first.layout), 0)]

    @property
    def num_outputs(self) -> int:
        """How many outputs the network has."""
        return len(self.output_names)

    @property
    def grad_req(self) -> dict[str, str]:
        """What is done with the gradient of each argument: "null", "write" or "add"."""
        return self._module._requests()

    @property
    def group2ctxs(self) -> list[dict[str, Any] | None]:
        """Where the groups of `ctx_group` run, for each context."""
        return [self._module._groups] * len(self.contexts)

    @property
    def data_layouts(self) -> list[int]:
        """Return the axis of the batch in each of the data."""
        return [DataDesc.get_batch_axis(desc.layout) for desc in self.data_shapes]

    @property
    def label_layouts(self) -> list[int] | None:
        """The axis of the batch in each label that was bound."""
        labels = self.label_shapes
        return None if labels is None else [DataDesc.get_batch_axis(desc.layout) for desc in labels]

    @property
    def output_layouts(self) -> list[int]:
        """The axis of the batch in each output, by its node's `__layout__`."""
        return [DataDesc.get_batch_axis(head.attr("__layout__")) for head in self.symbol]

    @property
    def slices(self) -> list[slice]:
        """Return the samples of each executor."""
        bound = self._module._bound
        return bound.parts(self.batch_size) if isinstance(bound, ExecutorGroup) else [slice(0, self.batch_size)]

    @property
    def data_arrays(self) -> list[list[tuple[slice, NDArray]]]:
        """The samples and the array of each executor, for each of the data."""
        return self._with_slices(self.data_names)

    @property
    def label_arrays(self) -> list[list[tuple[slice, NDArray]]]:
        """The samples and the array of each executor, for each label that was bound."""
        return self._with_slices([desc.name for desc in self.label_shapes or ()])

    def _with_slices(self, names: Sequence[str]) -> list[list[tuple[slice, NDArray]]]:
        arrays: Any = self._of("arg_dict", names)
        return [list(zip(self.slices, copies, strict=True)) for copies in arrays]

    @property
    def state_arrays(self) -> Arrays:
        """Return the states that callers set, in the order of `state_names`."""
        return self._of("arg_dict", self.state_names)

    def get_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """(name, shape) of the outputs of a whole batch."""
        return self._module.output_shapes

    def _of(self, which: str, names: Sequence[str]) -> Arrays:
        return [[getattr(executor, which)[name] for executor in self.execs] for name in names]

    @property
    def param_arrays(self) -> Arrays:
        """Return the parameters, in the order of `param_names`."""
        return self._of("arg_dict", self.param_names)

    @property
    def grad_arrays(self) -> Arrays:
        """Return the parameters' gradients; None for one that is not computed."""
        return self._of("grad_dict", self.param_names)

    @property
    def aux_arrays(self) -> Arrays:
        """Return the states, in the order of `aux_names`."""
        return self._of("aux_dict", self.aux_names)

    @property
    def input_grad_arrays(self) -> Arrays | None:
        """Return the gradients of the data; None where they were not bound for."""
        if not self.inputs_need_grad:
            return None
        return self._of("grad_dict", [desc.name for desc in self.data_shapes])

    def install_monitor(self, mon: Any) -> None:
        """Install a monitor on each executor."""
        for executor in self.execs:
            mon.install(executor)

    def get_outputs(self, merge_multi_context: bool = True, begin: int = 0, end: int | None = None) -> list[Any]:
        """Return all outputs, or those from `begin` to `end`."""
        return self._module.get_outputs(merge_multi_context)[begin:end]

    # -- what the module does ------------------------------------------------------------------------------------------

    forward = _of_module("forward", "Run a batch.")
    backward = _of_module("backward", "Compute gradients.")
    get_input_grads = _of_module("get_input_grads", "The gradients of the data.")
    get_states = _of_module("get_states", "The states that callers set.")
    set_states = _of_module("set_states", "Set the states.")
    update_metric = _of_module("update_metric", "Update a metric by the outputs of the last batch.")
    reshape = _of_module("reshape", "Bind again for other shapes.")

    def get_params(self, arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray]) -> None:
        """Write parameters and states into these arrays."""
        for targets, values in zip((arg_params, aux_params), self._module.get_params(), strict=True):
            for name, array in values.items():
                targets[name][:] = array

    def set_params(
        self, arg_params: Mapping[str, Any], aux_params: Mapping[str, Any], allow_extra: bool = False
    ) -> None:
        """Copy values into the parameters and states. Raises as `Executor.copy_params_from` does."""
        for executor in self.execs:
            executor.copy_params_from(arg_params, aux_params, allow_extra)
