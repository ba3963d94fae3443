"""`module._exec_group`: a module's executors and their arrays, which scripts read to clip or watch gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowering.mx.executor import Executor
from lowering.mx.io.desc import DataDesc
from lowering.mx.module.group import executors_of
from lowering.mx.ndarray.array import NDArray

Arrays = list[list[NDArray | None]]
"""For each name, the array of each executor."""


class DataParallelExecutorGroup:
    """The executors of a bound module, under MXNet's names. Arrays are the executors' own: writing one changes what the
    module runs and what it updates by. Of several contexts the first one's parameters are those of all."""

    def __init__(self, module: Any):
        self._module = module

    @property
    def execs(self) -> list[Executor]:
        """An executor for each context."""
        return executors_of(self._module._bound)

    @property
    def symbol(self) -> Any:
        """The network."""
        return self._module.symbol

    @property
    def contexts(self) -> list[Any]:
        """Where it runs."""
        return self._module._contexts

    @property
    def arg_names(self) -> list[str]:
        """The arguments of the network."""
        return self.symbol.list_arguments()

    @property
    def aux_names(self) -> list[str]:
        """The states of the network."""
        return self.symbol.list_auxiliary_states()

    @property
    def param_names(self) -> list[str]:
        """The parameters."""
        return self._module._param_names

    @property
    def data_shapes(self) -> list[DataDesc]:
        """What was bound for the data."""
        return self._module.data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        """What was bound for the labels."""
        return self._module.label_shapes

    @property
    def batch_size(self) -> int:
        """The samples of a batch."""
        first = self.data_shapes[0]
        return first.shape[max(DataDesc.get_batch_axis(first.layout), 0)]

    def _of(self, which: str, names: Sequence[str]) -> Arrays:
        return [[getattr(executor, which)[name] for executor in self.execs] for name in names]

    @property
    def param_arrays(self) -> Arrays:
        """The parameters, in the order of `param_names`."""
        return self._of("arg_dict", self.param_names)

    @property
    def grad_arrays(self) -> Arrays:
        """The parameters' gradients; None for one that is not computed."""
        return self._of("grad_dict", self.param_names)

    @property
    def aux_arrays(self) -> Arrays:
        """The states, in the order of `aux_names`."""
        return self._of("aux_dict", self.aux_names)

    @property
    def input_grad_arrays(self) -> Arrays:
        """The gradients of the data."""
        return self._of("grad_dict", self._module.data_names)

    def install_monitor(self, mon: Any) -> None:
        """Have a monitor watch each executor."""
        for executor in self.execs:
            mon.install(executor)

    def get_outputs(self, merge_multi_context: bool = True, begin: int = 0, end: int | None = None) -> list[Any]:
        """As the module's: all outputs, or those from `begin` to `end`."""
        return self._module.get_outputs(merge_multi_context)[begin:end]
