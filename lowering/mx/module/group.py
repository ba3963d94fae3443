"""Several contexts: an executor on each, with its part of every batch, as MXNet's modules run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import fsum
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowering.mx.context import Context
from lowering.mx.executor import Executor
from lowering.mx.io.desc import DataDesc
from lowering.mx.ndarray.array import NDArray, like_jax, stored_as
from lowering.mx.ndarray.cells import item
from symjax_nnvm.errors import CallError, TrainingError

Bind = Callable[..., Executor]
"""(context, shared executor or None, shapes by name) → an executor."""


def split_batch(batch_size: int, work_load_list: Sequence[float]) -> list[slice]:
    """The rows of each device, in MXNet's way of rounding. Raises TrainingError where one gets none."""
    total = fsum(work_load_list)
    sizes = [round(load * batch_size / total) for load in work_load_list]
    ends = [min(batch_size, int(end)) for end in np.cumsum(sizes)]
    ends[-1] = batch_size
    slices = [slice(begin, end) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
    if any(part.start >= part.stop for part in slices):
        raise TrainingError(
            "Too many slices. Some splits are empty",
            expected=f"{len(slices)} rows or more",
            got=batch_size,
            fix="Use a larger batch_size, or fewer contexts.",
        )
    return slices


class ExecutorGroup:
    """Executors that share their parameters, which are the first one's; each has states of its own, so that BatchNorm
    normalises a part of the batch by itself. It runs as one `Executor` does, over whole batches.

    axes: the batch axis of each input, -1 where every executor takes the whole of it. loads: how much of a batch each
    executor takes. states: arguments that each executor has its own part of, along their first axis, and keeps.
    """

    def __init__(
        self,
        executors: Sequence[Executor],
        contexts: Sequence[Context],
        axes: dict[str, int],
        loads: Any,
        states: Sequence[str] = (),
    ):
        self.executors, self._contexts = list(executors), list(contexts)
        self._axes, self._loads, self._states = axes, list(loads or [1] * len(contexts)), list(states)
        self._given: list[dict[str, jax.Array]] = [{} for _ in executors]

    @classmethod
    def bound(
        cls,
        contexts: Sequence[Context],
        described: Sequence[DataDesc],
        loads: Any,
        states: Sequence[str],
        shared: ExecutorGroup | None,
        bind: Bind,
    ) -> ExecutorGroup:
        """Bind an executor for each context. Raises CallError for loads that do not fit, TrainingError for batches."""
        axes = {desc.name: DataDesc.get_batch_axis(desc.layout) for desc in described}
        group = cls([], contexts, axes, loads, states)
        if len(group._loads) != len(contexts):
            problem, expected = "work_load_list needs one number per context", f"{len(contexts)} numbers"
            raise CallError(problem, expected=expected, got=loads)
        others = [None] * len(contexts) if shared is None else shared.executors
        shapes = group._shapes({desc.name: desc.shape for desc in described})
        group.executors = [bind(*arguments) for arguments in zip(contexts, others, shapes, strict=True)]
        group._given = [{} for _ in contexts]
        return group

    # -- parts of a batch ----------------------------------------------------------------------------------------------

    def parts(self, rows: int) -> list[slice]:
        """Return the rows of each executor. Raises TrainingError where one gets none."""
        return split_batch(rows, self._loads)

    def _shapes(self, shapes: Mapping[str, Sequence[int]]) -> list[dict[str, tuple[int, ...]]]:
        """Return the shapes of each executor's part."""
        whole = {name: np.broadcast_to(np.int8(0), tuple(shape)) for name, shape in shapes.items()}
        return [{name: value.shape for name, value in part.items()} for part in self._cut(whole)]

    def _cut(self, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return each executor's part of inputs."""
        slices: list[dict[str, Any]] = [{} for _ in self._contexts]
        for name, value in values.items():
            axis = self._axes[name]
            for part, rows in zip(slices, self.parts(value.shape[max(axis, 0)]), strict=True):
                part[name] = value if axis < 0 else _rows(value, axis, rows)
        return slices

    def _heads(self, out_grads: Any) -> list[Any]:
        """Return each executor's part of head gradients."""
        if out_grads is None:
            return [None] * len(self._contexts)
        heads: list[list[Any]] = [[] for _ in self._contexts]
        for out_grad, axis in zip(_listed(out_grads), self._output_axes, strict=True):
            head = out_grad.value if isinstance(out_grad, NDArray) else out_grad
            for part, rows in zip(heads, self.parts(head.shape[max(axis, 0)]), strict=True):
                part.append(head if axis < 0 else _rows(head, axis, rows))
        return list(heads)

    # -- arrays --------------------------------------------------------------------------------------------------------

    @property
    def arg_dict(self) -> dict[str, NDArray]:
        """Return the parameters, and the first executor's inputs and set states."""
        return self.executors[0].arg_dict

    @property
    def aux_dict(self) -> dict[str, NDArray]:
        """Return the first executor's states; `share_states` gives what is written here to all."""
        return self.executors[0].aux_dict

    def joined(self, name: str) -> NDArray:
        """A set state for the whole batch."""
        return self._joined([executor.arg_dict[name] for executor in self.executors], 0)

    @property
    def mean_states(self) -> dict[str, NDArray]:
        """Return the mean of the executors' states."""
        return {name: self._sum(lambda e, name=name: e.aux_dict[name]) / len(self.executors) for name in self.aux_dict}

    def share_states(self) -> None:
        """Have all executors go on with the first one's states."""
        for executor in self.executors[1:]:
            for name, array in self.aux_dict.items():
                executor.aux_dict[name][:] = array.asnumpy()

    @property
    def grad_dict(self) -> dict[str, NDArray | None]:
        """Gradients: the sum of the executors', and those of inputs, whole."""

        def gradient(name: str) -> NDArray:
            if name in self._axes:
                return self._joined(self.parts_of(name), self._axes[name])
            return self._sum(lambda e: e.grad_dict[name])

        return {name: None if array is None else gradient(name) for name, array in self.executors[0].grad_dict.items()}

    def parts_of(self, name: str) -> list[NDArray | None]:
        """Return the executors' gradients of an input."""
        return [executor.grad_dict[name] for executor in self.executors]

    @property
    def outputs(self) -> list[NDArray]:
        """Return the outputs for the whole batch."""
        parts = zip(*[e.outputs for e in self.executors], strict=True)
        return [self._joined(pieces, axis) for pieces, axis in zip(parts, self._output_axes, strict=True)]

    @property
    def _output_axes(self) -> list[int]:
        """Return the batch axis of each output, by its node's `__layout__`; -1 where every executor has all of it."""
        symbol = self.executors[0].held.symbol
        return [DataDesc.get_batch_axis(head.attr("__layout__")) for head in symbol]

    def _sum(self, array_of: Callable[[Executor], Any]) -> NDArray:
        arrays = [array_of(executor) for executor in self.executors]
        first, *others = map(self._on_first_context, arrays)
        return stored_as(like_jax(sum(others, first), self._contexts[0]), arrays[0].stype)

    def _joined(self, arrays: Sequence[Any], axis: int) -> NDArray:
        if axis < 0:
            return arrays[0]
        return like_jax(jnp.concatenate([self._on_first_context(array) for array in arrays], axis), self._contexts[0])

    def _on_first_context(self, array: NDArray) -> jax.Array:
        """Return the value of an array where the first executor is."""
        return _on(self._contexts[0], array.value)

    # -- running -------------------------------------------------------------------------------------------------------

    def _share_parameters(self) -> None:
        """Copy the first executor's parameters to the others if they have changed; on one device nothing is copied."""
        own = {*self._axes, *self._states}
        for executor, context, shared in list(zip(self.executors, self._contexts, self._given, strict=True))[1:]:
            for name, array in self.arg_dict.items():
                if name not in own and shared.get(name) is not array.value:
                    shared[name] = array.value
                    executor.arg_dict[name].cell.assign(_on(context, array.value))

    def _executors_with_inputs(self, feed: Mapping[str, Any]) -> Sequence[tuple[Executor, dict[str, Any]]]:
        self._share_parameters()
        return list(zip(self.executors, self._cut(feed), strict=True))

    def forward(self, is_train: bool = False, **feed: Any) -> None:
        """Run `Executor.forward` on every context."""
        for executor, part in self._executors_with_inputs(feed):
            executor.forward(is_train, **part)

    def backward(self, out_grads: Any = None) -> None:
        """Run `Executor.backward` on every context."""
        for executor, heads in zip(self.executors, self._heads(out_grads), strict=True):
            executor.backward(heads)

    def forward_backward(self, **feed: Any) -> None:
        """Run `Executor.forward_backward` on every context."""
        for executor, part in self._executors_with_inputs(feed):
            executor.forward_backward(**part)

    def copy_params_from(self, arg_params: Mapping[str, Any], aux_params: Mapping[str, Any]) -> None:
        """Run `Executor.copy_params_from` on every context."""
        self.executors[0].copy_params_from(arg_params, aux_params)
        self.share_states()

    def reshape(self, partial_shaping: bool = False, allow_up_sizing: bool = False, **shapes: Any) -> ExecutorGroup:
        """Run `Executor.reshape` on every context."""
        pairs = zip(self.executors, self._shapes(shapes), strict=True)
        executors = [e.reshape(partial_shaping, allow_up_sizing, **part) for e, part in pairs]
        return ExecutorGroup(executors, self._contexts, self._axes, self._loads, self._states)


def _on(context: Context, value: jax.Array) -> jax.Array:
    device = context.device or jax.devices()[0]
    return value if value.devices() == {device} else jax.device_put(value, device)


def _rows(value: Any, axis: int, rows: slice) -> Any:
    key = (slice(None),) * axis + (rows,)
    return item(value, key) if isinstance(value, jax.Array) else value[key]


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def executors_of(bound: Executor | ExecutorGroup) -> list[Executor]:
    """The executor of each context."""
    return bound.executors if isinstance(bound, ExecutorGroup) else [bound]
