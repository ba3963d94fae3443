"""`mx.optimizer`: MXNet's optimisers by class and by name, with the update rules of `lowering.training`.

An optimiser has the learning rate and the weight decay of each parameter and updates it; an `Updater` keeps its states.
All parameters of a step are updated by one compiled function.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from lowering.core.python_calls import is_called_back
from lowering.executor.bound_arrays import OwnCell, writing
from lowering.host.staged import Staged
from lowering.initializer.initializer_base import named_key
from lowering.messages.counts import check_flag, check_number, checks_flags
from lowering.messages.migration_hints import unknown_attribute
from lowering.mx.compatibility.array_functions import overridden
from lowering.mx.context import check_one_device
from lowering.mx.keys import next_key
from lowering.mx.lr_scheduler import LRScheduler
from lowering.mx.ndarray.array import NDArray, like_jax, require_arrays, stored_as
from lowering.mx.tape import policy
from lowering.mx.tape.programs import with_gradients
from lowering.mx.util import is_np_array
from lowering.optim.optimizers import UnknownParamError, apply_rule, refuse_unknown_parameters, rule_hyper, rule_slots
from lowering.optim.update_rules import RULES, Rule, Update
from lowering.optim.updates import in_rows_of
from lowering.xla.compile_options import jit
from lowering.xla.interrupts import Held, hold_interrupts
from symjax_nnvm.errors import CallError, ParamError, TrainingError, did_you_mean, listed
from symjax_nnvm.io.files import path_text, write_file
from symjax_nnvm.mxnet.params_files import named_arrays, save_arrays
from symjax_nnvm.recent import Recent
from symjax_nnvm.symbol.automatic_names import names_by_rank
from symjax_nnvm.symbol.symbol import Symbol

_BASE = (
    "rescale_grad", "param_idx2name", "wd", "clip_gradient", "learning_rate", "lr_scheduler", "sym", "begin_num_update",
    "multi_precision", "param_dict",
)  # fmt: skip

_STATE, _COUNT, _COUNTED, _RATE = "state.", "count.", "num_update", "learning_rate"
"""Names in a file of states: what comes before a parameter's name, or its number, in the names of its state and of its
count of updates, the number of all updates, by which a file shows that it has counts, and the learning rate."""


_Updating = tuple[Callable[..., Any], Callable[..., Any]]
"""An update of parameters, and the same jitted: (gradients, (weights, numbers, key), slots) → new arrays of each."""


class ScheduledError(TrainingError, UserWarning):
    """A learning rate that a scheduler sets was to be set. MXNet raises a UserWarning."""


class _WithCopy(tuple[Any, ...]):
    """The state of a parameter of half precision, with the parameter's copy in float32: (state, copy), or (copy,
    state) where `copy_first`."""

    copy_first: bool

    @property
    def parts(self) -> tuple[NDArray, Any]:
        """Return the copy and the state."""
        first, second = self
        return (first, second) if self.copy_first else (second, first)


class Optimizer:
    """The base class of optimisers.

    A subclass defines `create_state(index, weight)` and `update(index, weight, grad, state)`, which writes the weight
    and the state in place; `@mx.optimizer.register` registers it by its name. If it sets the attribute aggregate_num,
    `update` gets lists of at most that many parameters of one dtype.

    Args:
        rescale_grad: the factor of gradients.
        param_idx2name: the parameters' names by number.
        wd: the weight decay.
        clip_gradient: the bound of a gradient's elements; None for none.
        learning_rate: the learning rate.
        lr_scheduler: the scheduler that sets it.
        sym: the network, whose variables have `lr_mult` and `wd_mult`.
        begin_num_update: the number of updates done before.
        multi_precision: keep a float32 copy of each parameter in half precision.
        param_dict: Gluon's parameters by number.
    """

    opt_registry: ClassVar[dict[str, type[Optimizer]]] = {}
    aggregate_num = 0

    @checks_flags
    def __init__(
        self,
        rescale_grad: float = 1.0,
        param_idx2name: Mapping[int, str] | None = None,
        wd: float = 0.0,
        clip_gradient: float | None = None,
        learning_rate: float | None = None,
        lr_scheduler: Any = None,
        sym: Symbol | None = None,
        begin_num_update: int = 0,
        multi_precision: bool = False,
        param_dict: Mapping[Any, Any] | None = None,
    ):
        numbers = {"rescale_grad": rescale_grad, "learning_rate": learning_rate, "wd": wd}
        for name, number in {**numbers, "clip_gradient": clip_gradient}.items():
            if number is not None or name in ("rescale_grad", "wd"):
                check_number(number, name)
        self.rescale_grad = rescale_grad
        self.lr_scheduler = lr_scheduler
        self.lr = 0.01 if lr_scheduler is None and learning_rate is None else learning_rate
        if lr_scheduler is not None and learning_rate is not None:
            if getattr(lr_scheduler, "base_lr", learning_rate) != learning_rate:
                print("learning rate from ``lr_scheduler`` has been overwritten by ``learning_rate`` in optimizer.")
            lr_scheduler.base_lr = learning_rate
        self.wd = wd
        self.clip_gradient = clip_gradient
        self.multi_precision = multi_precision
        self.allow_np_array = is_np_array()
        self.begin_num_update = self.num_update = begin_num_update
        self._index_update_count: dict[Any, int] = {}
        self._all_index_update_counts: dict[int, dict[Any, int]] = {0: self._index_update_count}
        self._loaded_counts: Mapping[Any, int] = {}
        self._device = 0
        self.idx2name = dict(param_idx2name or {})
        self.param_dict = dict(param_dict or {})
        attributes = {} if sym is None else sym.attr_dict()
        self._attrs = {} if sym is None else {name: attributes.get(name, {}) for name in sym.list_arguments()}
        self.by_rank = {} if sym is None else names_by_rank(sym)
        self.set_lr_mult({})
        self.set_wd_mult({})

    def numbers_of(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the numbers of parameters, by which their states are kept and multipliers found; a new name gets a new
        number.

        The numbers are the same for all networks that have the parameters.

        Args:
            names: the parameters' names.
        """
        numbers = {name: number for number, name in reversed(self.idx2name.items())}
        first = max((number for number in self.idx2name if isinstance(number, int)), default=-1) + 1
        self.idx2name |= enumerate((name for name in names if name not in numbers), first)
        return numbers | {name: number for number, name in self.idx2name.items() if name not in numbers}

    # -- rates ---------------------------------------------------------------------------------------------------

    @property
    def learning_rate(self) -> float:
        """Return the present learning rate, before multipliers."""
        return self.lr if self.lr_scheduler is None else self.lr_scheduler(self.num_update)  # pyright: ignore

    def set_learning_rate(self, lr: float) -> None:
        """Change the learning rate.

        Args:
            lr: the new rate.

        Raises:
            ScheduledError: a scheduler sets the rate; the error is a UserWarning, too.
        """
        if self.lr_scheduler is not None:
            raise ScheduledError("LRScheduler of the optimizer has already been defined.", fix="Change its base_lr.")
        self.lr = lr

    @checks_flags
    def set_lr_mult(self, args_lr_mult: Mapping[Any, float]) -> None:
        """Set multipliers of the learning rate, by name or number; others are those of the variables' attributes."""
        self.lr_mult = {**self._declared("__lr_mult__"), **args_lr_mult}

    @checks_flags
    def set_wd_mult(self, args_wd_mult: Mapping[Any, float]) -> None:
        """Set multipliers of the weight decay, by name or number; the default is 0 unless a name ends in _weight or
        _gamma."""
        spared = {name: 0.0 for name in self.idx2name.values() if not name.endswith(("_weight", "_gamma"))}
        self.wd_mult = {**spared, **self._declared("__wd_mult__"), **args_wd_mult}

    def _declared(self, key: str) -> dict[str, float]:
        return {name: float(attrs[key]) for name, attrs in self._attrs.items() if key in attrs}

    def _multiplier(self, index: Any, key: str) -> float:
        if index in self.param_dict:
            return getattr(self.param_dict[index], key)
        multipliers = getattr(self, key)
        return multipliers[index] if index in multipliers else multipliers.get(self.idx2name.get(index), 1.0)

    def _get_lr(self, index: Any) -> float:
        return self._get_lrs([index])[0]

    def _get_wd(self, index: Any) -> float:
        return self.wd * self._multiplier(index, "wd_mult")

    def _get_lrs(self, indices: Sequence[Any]) -> list[float]:
        rate = self.learning_rate  # a scheduler is called once
        check_number(rate, "learning_rate")
        return [rate * self._multiplier(index, "lr_mult") for index in indices]

    def _get_wds(self, indices: Sequence[Any]) -> list[float]:
        return [self._get_wd(index) for index in indices]

    def _set_current_context(self, device_id: int) -> None:
        """Count the updates that follow as those of a device, whose parameters have counts of their own."""
        if device_id not in self._all_index_update_counts:
            self._all_index_update_counts[device_id] = dict(self._loaded_counts)
        self._device, self._index_update_count = device_id, self._all_index_update_counts[device_id]

    def _count_from(self, counts: Mapping[Any, int]) -> None:
        """Count on from these numbers of updates, on all devices, those that come later, too."""
        self._loaded_counts = counts
        self._all_index_update_counts = {device: dict(counts) for device in self._all_index_update_counts}
        self._index_update_count = self._all_index_update_counts[self._device]
        self.num_update = max(counts.values(), default=self.begin_num_update)
        if isinstance(self.lr_scheduler, LRScheduler):
            self.lr_scheduler.go_on_from(self.num_update)

    def _update_count(self, index: Any) -> None:
        for key in index if isinstance(index, list | tuple) else [index]:
            self._index_update_count[key] = self._index_update_count.get(key, self.begin_num_update) + 1
            self.num_update = max(self._index_update_count[key], self.num_update)

    # -- updates -------------------------------------------------------------------------------------------------

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return the state of a parameter: an NDArray, a tuple of NDArrays, or None.

        Args:
            index: the parameter's number.
            weight: the parameter.
        """
        return None

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Update a parameter and its state in place.

        Args:
            index: the parameter's number.
            weight: the parameter.
            grad: its gradient.
            state: its state.
        """
        raise NotImplementedError(f"{type(self).__name__} must define update(index, weight, grad, state)")

    def create_state_multi_precision(self, index: Any, weight: NDArray) -> Any:
        """Return the state of a parameter, with a float32 copy where it is in half precision and `multi_precision` is
        set."""
        if not (self.multi_precision and weight.dtype == np.float16):
            return self.create_state(index, weight)
        wide = weight.astype("float32")
        return wide, self.create_state(index, wide)

    def update_multi_precision(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Update the float32 copy where there is one, else the parameter."""
        if not (self.multi_precision and weight.dtype == np.float16):
            self.update(index, weight, grad, state)
            return
        wide, inner_state = state
        self.update(index, wide, grad.astype("float32"), inner_state)
        weight[:] = wide

    def update_all(
        self, indices: Sequence[Any], weights: Sequence[NDArray], grads: Sequence[NDArray], states: Any
    ) -> None:
        """Update several parameters and their states in place."""
        if self.aggregate_num <= 0:
            for index, weight, grad, state in zip(indices, weights, grads, states, strict=True):
                self.update_multi_precision(index, weight, grad, state)
            return
        by_dtype: dict[Any, list[tuple[Any, NDArray, NDArray, Any]]] = {}
        for row in zip(indices, weights, grads, states, strict=True):
            by_dtype.setdefault(row[1].dtype, []).append(row)
        for rows in by_dtype.values():
            for start in range(0, len(rows), self.aggregate_num):
                numbers, arrays, gradients, slots = zip(*rows[start : start + self.aggregate_num], strict=True)
                self.update_multi_precision(numbers, arrays, gradients, list(slots))  # pyright: ignore[reportArgumentType]

    @staticmethod
    def register(klass: Any) -> Any:
        """Register an optimiser by its class name, in any case; a decorator."""
        Optimizer.opt_registry[klass.__name__.lower()] = klass
        return klass

    @staticmethod
    def create_optimizer(name: str, **kwargs: Any) -> Optimizer:
        """Return an optimiser.

        Args:
            name: its name.
            kwargs: its parameters.

        Raises:
            ParamError: the name or a parameter is unknown, or a value is wrong.
            CallError: `name` is not text.
        """
        if not isinstance(name, str):
            fix = "mx.optimizer.create('sgd', learning_rate=0.1). Use an existing optimiser as it is."
            raise CallError("mx.optimizer.create needs the name of an optimiser", got=repr(name), fix=fix)
        optimizer_class = Optimizer.opt_registry.get(name.lower())
        if optimizer_class is None:
            names = sorted(Optimizer.opt_registry)
            fix = did_you_mean(name.lower(), names) or None
            raise ParamError(f"Cannot find optimizer {name}", expected=f"one of {listed(names, 30)}", fix=fix)
        return optimizer_class(**kwargs)


register = Optimizer.register
create = Optimizer.create_optimizer


class RuleOptimizer(Optimizer):
    """One of `lowering.training`'s rules. Its hyper-parameters have MXNet's names, order and defaults; they are
    attributes, which may be written at any time. Raises ParamError.

    single: what it keeps is one array or None, no tuple. draws: it takes random numbers. fused:
    MXNet's state of half precision ends with the copy. lazy: (optimiser, weight, whether it has a copy) → whether the
    rows that a row_sparse gradient lacks stay as they are, with their states.
    """

    rule: Rule
    single: ClassVar[bool] = False
    draws: ClassVar[bool] = False
    fused: ClassVar[bool] = False
    lazy: ClassVar[Callable[[Any, NDArray, bool], bool]] = staticmethod(lambda optimizer, weight, copied: False)
    _attributes: ClassVar[Mapping[str, str]] = {}
    """The attributes of parameters that MXNet keeps under another name."""

    def __init__(self, *args: Any, **kwargs: Any):
        defaults = dict(self.rule.defaults)
        parameters = {**dict(zip(defaults, args, strict=False)), **kwargs}
        if len(parameters) < len(args) + len(kwargs):
            problem = f"{type(self).__name__} takes {listed(list(defaults))} by position, each once"
            raise UnknownParamError(problem, got=f"{len(args)} by position, and {listed(list(kwargs))}")
        refuse_unknown_parameters(type(self).__name__, parameters, dict.fromkeys((*_BASE, *defaults)))
        rate = None if parameters.get("lr_scheduler") is not None else defaults.get("learning_rate")
        base = {name: parameters[name] for name in _BASE if name in parameters}
        super().__init__(**{"learning_rate": rate, **base})
        for name, value in parameters.items():
            if isinstance(defaults.get(name), bool):
                check_flag(value, name)
        own = {name: value for name, value in {**defaults, **parameters}.items() if name not in _BASE}
        self.__dict__.update({self._attributes.get(name, name): value for name, value in own.items()})
        self._hyper_names = tuple(rule_hyper(self.rule, own))
        for name, value in self._hyper.items():
            if value is not None:
                check_number(value, name)
        self._previous: dict[Any, float] = {}

    @property
    def _hyper(self) -> dict[str, Any]:
        """Return the rule's hyper-parameters as the attributes are now."""
        return {name: getattr(self, self._attributes.get(name, name)) for name in self._hyper_names}

    def create_state_multi_precision(self, index: Any, weight: NDArray) -> Any:
        """Return the arrays that the rule keeps, as MXNet's optimiser arranges them: None, an NDArray, or tuples."""
        wide = self.multi_precision and weight.dtype == np.float16
        if overridden(self, RuleOptimizer, "create_state"):
            if not wide:
                return self.create_state(index, weight)
            copy = weight.astype("float32")
            return self._with_copy(self.create_state(index, copy), copy)
        slots = rule_slots(self.rule, self._hyper, weight.value, self.multi_precision)
        arrays = _new_slots(slots, weight)
        if not wide:
            return self._arranged(arrays)
        return self._with_copy(self._arranged(arrays[:-1]), arrays[-1])

    def _with_copy(self, state: Any, copy: NDArray) -> _WithCopy:
        pair = _WithCopy((state, copy) if self.fused else (copy, state))
        pair.copy_first = not self.fused
        return pair

    def _paired(self, weight: NDArray, state: Any) -> Any:
        """Mark the float32 copy of a half-precision weight in the (copy, state) that a user's subclass returned."""
        wide = self.multi_precision and weight.dtype == np.float16
        if not wide or isinstance(state, _WithCopy) or not isinstance(state, list | tuple) or len(state) != 2:
            return state
        first, second = state
        return self._with_copy(first, second) if self.fused else self._with_copy(second, first)

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return the arrays that the rule keeps for a parameter, without a copy of it."""
        slots = rule_slots(self.rule, self._hyper, weight.value, False)
        return self._arranged(_new_slots(slots, weight))

    def _arranged(self, arrays: list[NDArray]) -> Any:
        if self.single:
            return arrays[0] if arrays else None
        if self.rule is RULES["dcasgd"] and len(arrays) == 1:
            return None, *arrays
        return tuple(arrays)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update a parameter and what is kept for it in place, or a list of parameters."""
        if isinstance(index, list | tuple):
            self._update_together(index, weight, grad, state)
        else:
            self._update_together([index], [weight], [grad], [state])

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """The same, by the `update` of a subclass that has another: of the copy in float32 where there is one."""
        own, several = overridden(self, RuleOptimizer, "update"), isinstance(index, list | tuple)
        if several and own:
            for row in zip(index, weight, grad, state, strict=True):
                self.update_multi_precision(*row)
            return
        state = [*map(self._paired, weight, state)] if several else self._paired(weight, state)
        if own and isinstance(state, _WithCopy):
            copy, inner_state = state.parts
            self.update(index, copy, grad.astype("float32"), inner_state)
            weight[:] = copy
        else:
            self.update(index, weight, grad, state)

    def update_all(
        self, indices: Sequence[Any], weights: Sequence[NDArray], grads: Sequence[NDArray], states: Any
    ) -> None:
        """Update some parameters and their slots: in one program, or one by one by the methods of a subclass."""
        if overridden(self, RuleOptimizer, "update", "update_multi_precision"):
            super().update_all(indices, weights, grads, states)
        else:
            self._update_together(indices, weights, grads, [*map(self._paired, weights, states)])

    def _update_together(
        self, indices: Sequence[Any], weights: Sequence[NDArray], grads: Sequence[NDArray], states: Any
    ) -> None:
        lists = (indices, weights, grads, states)
        if not all(isinstance(several, list | tuple) and len(several) == len(indices) for several in lists):
            got = [len(several) if isinstance(several, list | tuple) else type(several).__name__ for several in lists]
            problem = "Updating several parameters takes lists of indices, weights, gradients and states"
            raise CallError(problem, expected="lists of the same length", got=got)
        all_slots = [slots_of(state) for state in states]
        require_arrays(
            [*weights, *grads, *(slot for arrays in all_slots for slot in arrays)],
            "A weight, gradient or state of an optimiser",
        )
        for index, weight, grad, arrays in zip(indices, weights, grads, all_slots, strict=True):
            if issubclass(weight.dtype, np.integer):
                name = getattr(self.param_dict.get(index), "name", self.idx2name.get(index, index))
                raise CallError(
                    f"{type(self).__name__} updates only floats: {name!r} cannot be trained",
                    got=weight.dtype.__name__,
                    fix="Train the network of floats that it was made from: symjax_nnvm.Model(net, args, aux)"
                    ".dequantized(). With grad_req='null' a parameter stays as it is.",
                )
            if any(array.context is not weight.context for array in (grad, *arrays)):
                name = f"{type(self).__name__.lower()}_update"
                check_one_device(name, [array.context for array in (weight, grad, *arrays)])
        with writing(*(array.cell for array in (*weights, *(slot for arrays in all_slots for slot in arrays)))):
            self._update_count(list(indices))
            by_one = overridden(self, Optimizer, "_get_lr")
            lrs = [self._get_lr(index) for index in indices] if by_one else self._get_lrs(indices)
            self._run(indices, weights, grads, all_slots, lrs)

    def _is_lazy(self, weight: NDArray, grad: NDArray) -> bool:
        """Return whether the rows that a gradient lacks stay as they are."""
        copied = self.multi_precision and weight.dtype == np.float16
        return grad.stype == "row_sparse" and type(self).lazy(self, weight, copied)

    def _run(
        self,
        indices: Sequence[Any],
        weights: Sequence[NDArray],
        grads: Sequence[NDArray],
        all_slots: list[list[NDArray]],
        lrs: Sequence[float],
    ) -> None:
        """Update parameters, which have been counted, and their slots by these rates: together with the backward pass
        if the gradients wait."""
        keys = [(self._device, index) for index in indices]
        before = [self._previous.get(key, lr) for key, lr in zip(keys, lrs, strict=True)]
        self._previous.update(zip(keys, lrs, strict=True))
        counts = [self._index_update_count[index] for index in indices]
        wds = self._get_wds(indices)
        numbers = np.array([lrs, before, wds, counts, [self.rescale_grad] * len(lrs)], np.float32)
        values = [weight.value for weight in weights]
        cells: list[list[Any]] = [[slot.cell for slot in arrays] for arrays in all_slots]
        donate = _may_donate([cell for row in cells for cell in row])
        slots = [[cell.value if donate else cell.show() for cell in row] for row in cells]
        lazy = [*map(self._is_lazy, weights, grads)]
        update, jitted = self._update_of(indices, [wd != 0 for wd in wds], lazy, donate)
        arrays = (values, numbers, next_key() if self.draws else None), slots
        gradients = [grad.cell for grad in grads]
        with Held():
            results = None if is_called_back() else with_gradients(update, gradients, donate, arrays)
            if results is None:
                results = jitted([grad.show() for grad in gradients], *arrays)
            hold_interrupts()  # all parameters are updated, or none
            for weight, row, new_values in zip(weights, cells, results, strict=True):
                for cell, new in zip((weight.cell, *row), new_values, strict=True):
                    cell.keep(new)

    def _update_of(
        self, indices: Sequence[Any], decay: Sequence[bool], lazy: Sequence[bool], donate: bool
    ) -> _Updating:
        """Return the update of these parameters, as it is and jitted: the same for all optimisers of the same kind and
        hyper-parameters. decay: those whose weight decay is not 0. lazy: those whose rows without a gradient stay.
        donate: whether the slots are written in place."""
        names = tuple(str(self.idx2name.get(index, index)) for index in indices)
        drawn_by = tuple(self.by_rank.get(name, name) for name in names) if self.draws else names
        kind = type(self).__name__, self.rule, self.multi_precision, float(self.clip_gradient or -1.0)
        hyper = self._hyper
        key = (*kind, names, drawn_by, tuple(decay), tuple(lazy), donate, *hyper.items())
        updating = _updates.get(key)
        if updating is None:
            update = _update_by(*kind, names, drawn_by, decay, lazy, hyper)
            donated, name = 2 if donate else (), f"the update by {kind[0]}"
            compiles = lambda kept: jit(update, kept=kept, donate_argnums=donated, name=name)  # noqa: E731
            updating = _updates[key] = update, Staged(update, compiles)
        return updating


_updates: Recent[Any, _Updating] = Recent(policy.KEPT_UPDATES)


def _update_by(
    kind: str,
    rule: Rule,
    multi_precision: bool,
    clip_gradient: float,
    names: Sequence[str],
    drawn_by: Sequence[str],
    decay: Sequence[bool],
    lazy: Sequence[bool],
    hyper: Mapping[str, Any],
) -> Callable[..., Any]:
    """Return the update of parameters with these names. kind: the optimiser's. drawn_by: the names by which random
    numbers are drawn. decay: those whose weight decay is not 0. lazy: those whose rows without a gradient stay."""

    def update(grads: Any, arrays: Any, slots: Any) -> Any:
        weights, numbers, key = arrays
        lrs, before, wds, counts, scales = numbers
        results = []
        for i, (weight, grad, old_slots) in enumerate(zip(weights, grads, slots, strict=True)):
            if grad.shape != weight.shape:
                problem = f"The gradient of parameter {names[i]!r} does not have the parameter's shape"
                raise TrainingError(problem, expected=weight.shape, got=grad.shape)
            is_copied = multi_precision and weight.dtype == np.float16  # which a gradient in float32 updates, too
            if grad.dtype != weight.dtype and not (is_copied and grad.dtype == np.float32):
                problem = f"The gradient of parameter {names[i]!r} does not have the parameter's dtype"
                raise TrainingError(problem, expected=weight.dtype, got=grad.dtype, fix="grad.astype(weight.dtype)")
            own_slots = rule_slots(rule, hyper, weight, multi_precision)
            for slot, own_slot in zip(old_slots, own_slots, strict=False):
                if slot.shape != own_slot.shape:
                    problem = f"The state of parameter {names[i]!r} does not have the parameter's shape"
                    raise TrainingError(problem, expected=own_slot.shape, got=slot.shape)
            if len(old_slots) < len(own_slots):
                problem = f"The state of parameter {names[i]!r} was made before {kind} was changed"
                raise TrainingError(problem, got=dict(hyper), fix="Set momentum before the first update.")
            at = Update(
                name=names[i],
                lr=lrs[i],
                previous_lr=lambda i=i: before[i],
                wd=wds[i] if decay[i] else 0.0,
                rescale_grad=scales[i],
                clip_gradient=clip_gradient,
                t=counts[i],
                key=partial(named_key, key, drawn_by[i]),
            )
            new_values = apply_rule(rule, hyper, weight, grad, tuple(old_slots), at, multi_precision)
            new_row = [new.astype(old.dtype) for new, old in zip(new_values, (weight, *old_slots), strict=True)]
            results.append(in_rows_of(grad, new_row, [weight, *old_slots]) if lazy[i] else new_row)
        return results

    return update


_NAMES = (
    "SGD", "NAG", "Signum", "LARS", "LAMB", "DCASGD", "SGLD", "Adam", "AdamW", "AdaGrad", "GroupAdaGrad", "RMSProp",
    "AdaDelta", "Ftrl", "FTML", "Adamax", "Nadam", "ccSGD",
)  # fmt: skip

_SINGLE = ("SGD", "NAG", "ccSGD", "Signum", "LARS", "AdaGrad", "GroupAdaGrad", "SGLD")
_DRAWING = ("SGLD",)
_FUSED = ("SGD", "NAG", "ccSGD", "LARS")


def _lazy_if_asked(optimizer: Any, weight: NDArray, copied: bool) -> bool:
    """Return whether SGD is lazy: not where it updates a copy, too."""
    return optimizer.lazy_update and not copied


_LAZY: dict[str, Callable[[Any, NDArray, bool], bool]] = {
    **dict.fromkeys(("SGD", "ccSGD", "LARS"), _lazy_if_asked),
    "Adam": lambda optimizer, weight, copied: optimizer.lazy_update,
    "NAG": lambda optimizer, weight, copied: not (optimizer.momentum or copied),
    "Ftrl": lambda optimizer, weight, copied: weight.stype == "row_sparse",
}
"""The optimisers whose operators in MXNet update only the rows of a row_sparse gradient, and when."""

for _name in _NAMES:
    _facts = {"rule": RULES[_name.lower()], "draws": _name in _DRAWING}
    _facts |= {"single": _name in _SINGLE, "fused": _name in _FUSED}
    if _name in _LAZY:
        _facts["lazy"] = staticmethod(_LAZY[_name])
    if "eps" in RULES[_name.lower()].defaults and _name != "LARS":
        _facts["_attributes"] = {"eps": "float_stable_eps"}
    _own = {"learning_rate": 0.01, **RULES[_name.lower()].defaults}
    _facts["__doc__"] = f"The optimiser {_name}, with {', '.join(f'{name}={value}' for name, value in _own.items())}."
    _made = type(_name, (RuleOptimizer,), {**_facts, "__module__": __name__})
    globals()[_name] = register(_made)


@register
class LBSGD(RuleOptimizer):
    """SGD for large batches: it averages the gradients of several batches, and the rate grows in the first epochs.

    Args:
        momentum: the momentum.
        multi_precision: keep a float32 copy of each parameter in half precision.
        warmup_strategy: how the rate grows to `batch_scale` times its value: "linear", "power2" or "sqrt". "lars"
            multiplies it with ‖weight‖ / ‖gradient‖, from 0.01 to 100, instead.
        warmup_epochs: the number of epochs in which it grows.
        batch_scale: the number of batches in an update.
        updates_per_epoch: the number of batches in an epoch.
        begin_epoch: the number of the first epoch.
        num_epochs: accepted and ignored, as in MXNet.
        kwargs: arguments of Optimizer.

    Raises:
        ParamError: a parameter is unknown or wrong.
    """

    rule = RULES["sgd"]
    single = True
    lazy = staticmethod(lambda optimizer, weight, copied: True)

    def __init__(
        self,
        momentum: float = 0.0,
        multi_precision: bool = False,
        warmup_strategy: str = "linear",
        warmup_epochs: int = 5,
        batch_scale: int = 1,
        updates_per_epoch: int = 32,
        begin_epoch: int = 0,
        num_epochs: int = 60,
        **kwargs: Any,
    ):
        super().__init__(momentum=momentum, multi_precision=multi_precision, **kwargs)
        if batch_scale < 1:
            raise ParamError("batch_scale is too small", param="batch_scale", expected="1 or more", got=batch_scale)
        self.warmup_strategy, self.warmup_epochs, self.batch_scale = warmup_strategy, warmup_epochs, batch_scale
        self.updates_per_epoch, self.init_updates = updates_per_epoch, begin_epoch * updates_per_epoch
        self.num_epochs = num_epochs
        self._sums: dict[Any, tuple[int, Any]] = {}

    def _update_together(
        self, indices: Sequence[Any], weights: Sequence[NDArray], grads: Sequence[NDArray], states: Any
    ) -> None:
        """Add up gradients, and update the parameters whose large batch is complete."""
        for index, weight, grad, state in zip(indices, weights, grads, states, strict=True):
            lr, wd = self._get_lr(index), self._get_wd(index)
            self._update_count(index)
            slots = slots_of(state)
            wide = slots[-1] if isinstance(state, _WithCopy) else weight
            number, total = self._sums.get((self._device, index), (self.init_updates, 0))
            number, total = number + 1, total + grad.value.astype(wide.value.dtype)
            if number % self.batch_scale == 0:
                mean, total = total / self.batch_scale, 0
                lr *= _lars(wide.value, mean, wd) if self.warmup_strategy == "lars" else self._warm(number)
                with writing(*(array.cell for array in (weight, *slots))):
                    self._run([index], [weight], [stored_as(like_jax(mean), grad.stype)], [slots], [lr])
            self._sums[self._device, index] = number, total

    def _warm(self, number: int) -> float:
        """Return what the rate is multiplied with at this batch."""
        end, most = self.warmup_epochs * self.updates_per_epoch, float(self.batch_scale)
        if number >= end:
            return most
        part = number / end
        grown = {"linear": part, "power2": part * part, "sqrt": math.sqrt(part)}.get(self.warmup_strategy, 0.0)
        return 1.0 + (most - 1) * grown if end > 1 else 1.0


def _lars(weight: jax.Array, grad: jax.Array, wd: float) -> float:
    weight_norm, grad_norm = (float(np.square(np.asarray(array, np.float64)).sum()) for array in (weight, grad))
    return min(max(math.sqrt(weight_norm / (grad_norm + wd * weight_norm + 1e-18)), 0.01), 100.0)


contrib = SimpleNamespace(GroupAdaGrad=Optimizer.opt_registry["groupadagrad"])
"""MXNet's `mx.optimizer.contrib`."""


@register
class Test(Optimizer):
    """Adds gradients to the weights, and keeps the weights: for tests."""

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return a state of zeros."""
        return like_jax(jnp.zeros_like(weight.value), weight.context)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """weight += rescale_grad · grad; state = weight."""
        weight[:] = weight + grad * self.rescale_grad
        state[:] = weight


class Updater:
    """Updates parameters by number and keeps their states: `updater(index, grad, weight)`, or lists of each.

    A file has states by the parameters' names where the optimiser has them, else by number; both are read.

    Args:
        optimizer: the optimiser.
    """

    @checks_flags
    def __init__(self, optimizer: Optimizer):
        self.optimizer = optimizer
        self.aggregate_updates = optimizer.aggregate_num > 0
        self.states: dict[Any, Any] = {}
        self._loaded: dict[str, Any] = {}

    def __call__(self, index: Any, grad: Any, weight: Any) -> None:
        """Update one parameter, or a list of them."""
        several = isinstance(index, list | tuple)
        indices, grads, weights = (index, grad, weight) if several else ([index], [grad], [weight])
        grads, weights = (
            [array.as_nd_ndarray() if isinstance(array, NDArray) else array for array in arrays]
            for arrays in (grads, weights)
        )
        if weights:
            self.optimizer._set_current_context(weights[0].context.device_id)
        self.make_states(indices, weights)
        self.optimizer.update_all(indices, weights, grads, [self.states[number] for number in indices])

    def __getattr__(self, name: str) -> Any:
        unknown_attribute("mx.optimizer.Updater", name, dir(type(self)))

    def make_states(self, indices: Iterable[Any], weights: Iterable[NDArray]) -> None:
        """Make the states of parameters that have none, from loaded ones or the optimiser's first ones."""
        for number, array in zip(indices, weights, strict=True):
            if number not in self.states:
                self.states[number] = self.optimizer.create_state_multi_precision(number, array)
                self._fill(number)

    def _named(self, index: Any, label: Any) -> list[tuple[str, NDArray]]:
        """Return the arrays of a parameter's state, each with its name in files. label: the parameter's name there."""
        if isinstance(self.optimizer, RuleOptimizer):
            return [(f"{_STATE}{label}.{i}", slot) for i, slot in enumerate(slots_of(self.states[index]))]
        return _flat(label, self.states[index])

    def _label(self, index: Any) -> Any:
        """Return the label of a parameter in files: its name, where the optimiser has it."""
        return self.optimizer.idx2name.get(index, index)

    def _fill(self, index: Any) -> bool:
        """Take a state that was loaded, by the parameter's name or its number; returns whether there was one. Raises
        TrainingError where it does not fit."""
        for label in (self._label(index), index):
            there = [(name, array) for name, array in self._named(index, label) if name in self._loaded]
            for name, array in there:
                value = self._loaded.pop(name)
                if np.shape(value) not in (array.shape, array.shape or (1,)):  # a file has no arrays without axes
                    problem = f"The state {name!r} in the file does not fit parameter {self._label(index)!r}"
                    fix = "The file belongs to another network: init_optimizer(force_init=True) starts with new states."
                    raise TrainingError(problem, expected=array.shape, got=np.shape(value), fix=fix)
                array[:] = np.reshape(value, array.shape)
            if there:
                return True
        return False

    def save(self, fname: str, counts: bool = False) -> None:
        """Write the states to a file of arrays.

        Args:
            fname: the file's path.
            counts: write the numbers of updates as well, and the learning rate where no scheduler sets it.

        Raises:
            OSError: the file cannot be written.
        """
        path_text(fname, "fname")
        arrays = {**self._loaded}  # of parameters that were not updated since
        for index in self.states:
            arrays |= {name: np.asarray(array) for name, array in self._named(index, self._label(index))}
        if counts:
            updates = self.optimizer._index_update_count
            arrays |= {f"{_COUNT}{self._label(index)}": np.array([count]) for index, count in updates.items()}
            arrays[_COUNTED] = np.array([self.optimizer.num_update])
            if self.optimizer.lr_scheduler is None:
                arrays[_RATE] = np.array([self.optimizer.lr], np.float64)
        save_arrays(fname, arrays)

    def load(self, fname: str) -> None:
        """Load the states that `save` wrote; parameters without one start again.

        A file with counts also sets the numbers of updates and the learning rate; else updates are counted on, as in
        MXNet.

        Args:
            fname: the file's path.

        Raises:
            ParamsFormatError: the file is MXNet's own, which is pickled, or malformed.
        """
        loaded = named_arrays(path_text(fname, "fname"), "optimiser states")
        counts = {name.removeprefix(_COUNT): int(count[0]) for name, count in loaded.items() if name.startswith(_COUNT)}
        if counts or _COUNTED in loaded:
            numbers = {name: number for number, name in reversed(self.optimizer.idx2name.items())}
            numbers |= {n: int(n) for n in counts if n.isdigit() and n not in numbers}
            self.optimizer._count_from({numbers.get(n, n): count for n, count in counts.items()})
        if _RATE in loaded and self.optimizer.lr_scheduler is None:
            self.optimizer.set_learning_rate(float(loaded[_RATE][0]))
        self._loaded = {name: value for name, value in loaded.items() if name.startswith(_STATE)}
        for index in [*self.states]:
            if not self._fill(index):
                del self.states[index]

    def get_states(self, dump_optimizer: bool = False) -> bytes:
        """Return the states as the bytes of a file of arrays, where MXNet pickles.

        Args:
            dump_optimizer: include the counts that `save` writes with `counts`.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "states"
            self.save(str(path), counts=dump_optimizer)
            return path.read_bytes()

    @checks_flags
    def set_states(self, states: bytes) -> None:
        """Load what `get_states` returned; MXNet's own bytes raise ParamsFormatError."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "states"
            write_file(path, states)
            self.load(str(path))


@checks_flags
def get_updater(optimizer: Optimizer) -> Updater:
    """Return an updater with this optimiser."""
    return Updater(optimizer)


def _new_slots(slots: Sequence[jax.Array], weight: NDArray) -> list[NDArray]:
    """Return a rule's first slots for a parameter as arrays; no caller holds those that are not the parameter's."""
    arrays = [like_jax(slot, weight.context) for slot in slots]
    value = weight.value
    for array in arrays:
        assert isinstance(array.cell, OwnCell)
        array.cell.shown = array.cell.value is value
    return arrays


def _may_donate(cells: Sequence[Any]) -> bool:
    """Return whether slots may be written in place: no caller holds their arrays, and this thread computes with the
    client of XLA that has them, which Python that a program calls does not."""
    if is_called_back():
        return False
    return len({*map(id, cells)}) == len(cells) and all(type(cell) is OwnCell and not cell.shown for cell in cells)


def slots_of(state: Any) -> list[NDArray]:
    """The arrays of a rule's state, in the rule's order, the copy of the parameter last."""
    if isinstance(state, _WithCopy):
        copy, inner_state = state.parts
        return [*slots_of(inner_state), copy]
    if isinstance(state, list | tuple):
        return [slot for part in state for slot in slots_of(part)]
    return [] if state is None else [state]


def _flat(index: Any, state: Any) -> list[tuple[str, NDArray]]:
    """Return the arrays of a state, each with a name."""
    if isinstance(state, NDArray):
        return [(f"{_STATE}{index}", state)]
    if state is None:
        return []
    return [pair for i, part in enumerate(state) for pair in _flat(f"{index}.{i}", part)]
