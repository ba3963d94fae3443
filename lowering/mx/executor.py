"""MXNet's executor over NDArrays: a face of `lowering.executor`, whose cells its arrays are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import jax

from lowering.executor import Executor as HeldExecutor
from lowering.messages.counts import checks_flags
from lowering.messages.doors import FORWARD, says_how_to_call
from lowering.mx.context import Context
from lowering.mx.keys import next_randomness
from lowering.mx.ndarray.array import NDArray, like_jax, stored_as
from symjax_nnvm.passes.infer.infer_storage import infer_storage
from symjax_nnvm.symbol.symbol import Symbol

Monitor = Callable[[str, NDArray], None]


class Executor:
    """A graph with its arrays, as NDArrays; writing one (`ex.arg_dict["w"][:] = 1`) changes what the graph reads.

    `Symbol.bind` and `Symbol.simple_bind` make it. Each run returns new outputs, where MXNet overwrites the same ones.
    """

    def __init__(
        self,
        held: HeldExecutor,
        symbol: Symbol,
        context: Context,
        storage: Mapping[str, str] | None = None,
        gradients: Mapping[str, str] | None = None,
    ):
        """storage, gradients: the storage types of inputs and of their gradients by name, where they are sparse."""
        self.held, self._symbol, self._ctx = held, symbol, context
        self._storage, self._of_gradients = storage or {}, gradients or {}
        held.draw_from(next_randomness)

    def __explained__(self) -> tuple[Symbol, list[str]]:
        """Return the network, and how its passes run, for `lowering.explain`."""
        return self._symbol, self.held.ways()

    # -- arrays ------------------------------------------------------------------------------------------------------

    @cached_property
    def _cells(self) -> tuple[dict[str, NDArray], dict[str, NDArray], dict[str, NDArray]]:
        args, grads, aux = self.held.cells()

        def wrap(cells: Mapping[str, Any], storage: Mapping[str, str]) -> dict[str, NDArray]:
            arrays = {name: NDArray(cell, self._ctx) for name, cell in cells.items()}
            return {name: stored_as(array, storage.get(name, "default")) for name, array in arrays.items()}

        return wrap(args, self._storage), wrap(grads, self._of_gradients), wrap(aux, self._storage)

    @property
    def arg_dict(self) -> dict[str, NDArray]:
        """Return the arguments by name."""
        return self._cells[0]

    @property
    def grad_dict(self) -> dict[str, NDArray | None]:
        """Return the gradients by argument; None for one that is not computed."""
        return {name: self._cells[1].get(name) for name in self._cells[0]}

    @property
    def aux_dict(self) -> dict[str, NDArray]:
        """Return the auxiliary states by name."""
        return self._cells[2]

    @property
    def arg_arrays(self) -> list[NDArray]:
        """Return the arguments in the order of `list_arguments()`."""
        return list(self._cells[0].values())

    @property
    def grad_arrays(self) -> list[NDArray | None]:
        """Return the gradients in the order of the arguments."""
        return list(self.grad_dict.values())

    @property
    def aux_arrays(self) -> list[NDArray]:
        """Return the auxiliary states in the order of `list_auxiliary_states()`."""
        return list(self._cells[2].values())

    @property
    def outputs(self) -> list[NDArray]:
        """Return the outputs of the latest forward pass."""
        return self._wrapped(self.held.outputs)

    @property
    def output_dict(self) -> dict[str, NDArray]:
        """Return the outputs of the latest forward pass by name."""
        return dict(zip(self._symbol.list_outputs(), self.outputs, strict=True))

    @cached_property
    def _of_outputs(self) -> list[str]:
        """Return the storage types of the outputs."""
        return infer_storage(self._symbol.outputs, self._storage)

    def _wrapped(self, values: Sequence[jax.Array]) -> list[NDArray]:
        arrays = [like_jax(value, self._ctx) for value in values]
        return [stored_as(array, stype) for array, stype in zip(arrays, self._of_outputs, strict=True)]

    # -- running -----------------------------------------------------------------------------------------------------

    @says_how_to_call(FORWARD)
    def forward(self, is_train: bool = False, **kwargs: Any) -> list[NDArray]:
        """Copy arrays into arguments, run the graph and return the outputs; it raises what `lowering.Executor.forward`
        raises.

        Args:
            is_train: run in training mode.
            kwargs: values of arguments by name.
        """
        return self._wrapped(self.held.forward(is_train, **{name: _plain(value) for name, value in kwargs.items()}))

    def backward(self, out_grads: Any = None, is_train: bool = True) -> None:
        """Compute the gradients of the latest forward pass.

        Args:
            out_grads: the head gradients: an array, or a list by output. Loss heads need none.
            is_train: let states such as moving averages follow.

        Raises:
            GradientError: a head gradient is missing or has a wrong shape.
        """
        self.held.backward(_heads(out_grads), is_train)

    def forward_backward(self, out_grads: Any = None, **kwargs: Any) -> list[NDArray]:
        """Run `forward` and `backward` as one program, which is faster; MXNet has no such method.

        Args:
            out_grads: the head gradients, as in `backward`.
            kwargs: values of arguments by name.
        """
        inputs = {name: _plain(value) for name, value in kwargs.items()}
        return self._wrapped(self.held.forward_backward(_heads(out_grads), **inputs))

    @checks_flags
    def copy_params_from(
        self,
        arg_params: Mapping[str, Any],
        aux_params: Mapping[str, Any] | None = None,
        allow_extra_params: bool = False,
    ) -> None:
        """Copy arrays into arguments and states of the same names.

        Args:
            arg_params: parameters by name.
            aux_params: auxiliary states by name.
            allow_extra_params: ignore names that the graph does not have.

        Raises:
            ExecutorValueError: the graph does not have a name, or a shape is wrong.
        """
        args, aux = ({n: _plain(v) for n, v in (arrays or {}).items()} for arrays in (arg_params, aux_params))
        self.held.copy_params_from(args, aux, allow_extra_params)

    @checks_flags
    def reshape(
        self, partial_shaping: bool = False, allow_up_sizing: bool = False, **kwargs: Sequence[int]
    ) -> Executor:
        """Return an executor for other input shapes, which shares the arrays that keep their shape.

        Args:
            partial_shaping: let the shapes of arguments change that are not given.
            allow_up_sizing: let arrays grow.
            kwargs: shapes of arguments by name.

        Raises:
            BindError: a shape changes, or grows, that may not.
        """
        reshaped = self.held.reshape(partial_shaping, allow_up_sizing, **kwargs)
        return Executor(reshaped, self._symbol, self._ctx, self._storage, self._of_gradients)

    @checks_flags
    def set_monitor_callback(self, callback: Monitor | None, monitor_all: bool = False) -> None:
        """Call `callback(name, array)` for the outputs of every operator.

        Args:
            callback: the function; None to stop.
            monitor_all: report the inputs as well.
        """
        if callback is None:
            self.held.set_monitor_callback(None)
            return
        monitor = callback
        self.held.set_monitor_callback(lambda name, value: monitor(name, like_jax(value, self._ctx)), monitor_all)

    def debug_str(self) -> str:
        """Return the graph that runs, in NNVM's layout, and the memory that NNVM plans for it."""
        return self.held.debug_str()

    def get_optimized_symbol(self) -> Symbol:
        """Return a copy of the forward part as it runs: equal nodes are merged."""
        return type(self._symbol)(self.held.get_optimized_symbol().outputs)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, NDArray) else value


def _heads(out_grads: Any) -> Any:
    match out_grads:
        case Mapping():
            return {name: _plain(value) for name, value in out_grads.items()}
        case list() | tuple():
            return [_plain(value) for value in out_grads]
    return _plain(out_grads)
