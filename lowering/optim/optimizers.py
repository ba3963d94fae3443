"""An optimiser as two pure functions, `init` and `update`: MXNet's by name, or any Optax transformation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from lowering.initializer.initializer_base import named_key
from lowering.optim.update_rules import RULES, Hyper, Rule, Update
from lowering.optim.updates import with_master_copy
from symjax_nnvm.errors import ParamError, close_names, did_you_mean, listed, refuse_unknown
from symjax_nnvm.symbol.automatic_names import names_by_rank
from symjax_nnvm.symbol.symbol import Symbol

Params = dict[str, jax.Array]

_SHARED = {
    "learning_rate": 0.01, "wd": 0.0, "rescale_grad": None, "clip_gradient": None, "lr_scheduler": None,
    "begin_num_update": 0, "multi_precision": False, "lr_mult": {}, "wd_mult": {},
}  # fmt: skip
"""Hyper-parameters of every optimiser, with their defaults."""


class Optimizer(Protocol):
    """Describes the interface of an optimiser that the training step needs."""

    rescale_grad: float | None
    """What gradients are multiplied with; None for 1 / batch size."""

    def init(self, params: Params) -> Any:
        """Return the optimiser's state before the first update."""
        ...

    def update(
        self, params: Params, grads: Params, state: Any, step: jax.Array, key: jax.Array, rescale_grad: Any
    ) -> tuple[Params, Any]:
        """Return (new parameters, new state). step: updates done before this one."""
        ...


def list_optimizers() -> list[str]:
    """Return the names that `Trainer(optimizer=...)` takes."""
    return sorted(RULES)


def make_optimizer(
    optimizer: Any, optimizer_params: Mapping[str, Any] | None, symbol: Symbol, wrt: Sequence[str]
) -> Optimizer:
    """Return the optimiser of a network. optimizer: a name (any case), or an object with Optax's `init` and `update`.

    Raises ParamError: a name that is not known, a parameter that the optimiser does not have.
    """
    hyper = dict(optimizer_params or {})
    if isinstance(optimizer, str):
        return MXNetOptimizer(optimizer, hyper, symbol, wrt)
    if callable(getattr(optimizer, "init", None)) and callable(getattr(optimizer, "update", None)):
        return OptaxOptimizer(optimizer, hyper)
    raise ParamError(
        "This is not an optimiser",
        expected=f"a name among {list_optimizers()}, or an Optax GradientTransformation",
        got=f"{type(optimizer).__name__} {optimizer!r}",
    )


class MXNetOptimizer:
    """One of MXNet's optimisers, with MXNet's parameter names, defaults and rules for multipliers.

    Its state: {"slots": {name: arrays}}, and "learning_rate", a float32 array of shape (), unless there is a schedule.
    Weight decay reaches parameters named `…_weight` and `…_gamma` (LARS: `…_weight` only), as in MXNet; `wd_mult` and
    `lr_mult` of a variable, then those of the dicts `wd_mult`, `lr_mult` by name, win over that.
    """

    def __init__(self, name: str, parameters: Mapping[str, Any], symbol: Symbol, wrt: Sequence[str]):
        self.name = name.lower()
        self.rule = _rule(name)
        defaults = _SHARED | dict(self.rule.defaults)
        refuse_unknown_parameters(f"Optimiser {self.name!r}", parameters, defaults)
        values = defaults | dict(parameters)
        self.rescale_grad: float | None = values["rescale_grad"]
        self.clip_gradient = float(values["clip_gradient"] or -1.0)
        self.multi_precision = bool(values["multi_precision"])
        self.begin_num_update = int(values["begin_num_update"])
        self.schedule = _schedule(self.name, values, "learning_rate" in parameters)
        self.learning_rate = None if self.schedule else _number(self.name, "learning_rate", values["learning_rate"])
        self.hyper = rule_hyper(self.rule, values)
        for key in ("wd", *self.hyper):
            if isinstance(defaults[key], float):
                _number(self.name, key, values[key])
        attrs = symbol.attr_dict()
        lr_mult = _multipliers("lr_mult", attrs, values["lr_mult"], symbol)
        wd_mult = _multipliers("wd_mult", attrs, values["wd_mult"], symbol)
        self._by_rank = names_by_rank(symbol)
        self.lr_mults = {name: lr_mult.get(name, 1.0) for name in wrt}
        decayed = {name: 1.0 if name.endswith(self.rule.decays) else 0.0 for name in wrt}
        self.wds = {name: values["wd"] * wd_mult.get(name, decayed[name]) for name in wrt}

    def __repr__(self) -> str:
        rate = self.learning_rate if self.schedule is None else "by its schedule"
        values = {"learning_rate": rate, **self.hyper}
        return f"{self.name}: {', '.join(f'{key} {value}' for key, value in values.items())}"

    def init(self, params: Params) -> dict[str, Any]:
        """Return slots for every parameter. Raises ParamError for a parameter that the optimiser cannot update."""
        if self.name == "groupadagrad":
            _check_rows(params, self.wds)
        state: dict[str, Any] = {"slots": {name: self._slots(weight) for name, weight in params.items()}}
        if self.schedule is None:
            state["learning_rate"] = jnp.asarray(self.learning_rate, jnp.float32)
        return state

    def update(
        self, params: Params, grads: Params, state: Any, step: jax.Array, key: jax.Array, rescale_grad: Any
    ) -> tuple[Params, Any]:
        """Implements `Optimizer`."""
        count = step + self.begin_num_update + 1
        rate = self._rate(state, count)
        new_params: Params = {}
        slots: dict[str, tuple[jax.Array, ...]] = {}
        for name, weight in params.items():
            mult = self.lr_mults[name]

            def previous_lr(mult: float = mult) -> jax.Array:
                return self._rate(state, jnp.maximum(count - 1, self.begin_num_update + 1)) * mult

            at = Update(
                name=name,
                lr=rate * mult,
                previous_lr=previous_lr,
                wd=self.wds[name],
                rescale_grad=rescale_grad,
                clip_gradient=self.clip_gradient,
                t=count.astype(jnp.float32),
                key=partial(named_key, key, self._by_rank.get(name, name)),
            )
            new_params[name], *new_slots = self._apply(weight, grads[name], state["slots"][name], at)
            slots[name] = tuple(new_slots)
        return new_params, {**state, "slots": slots}

    def _rate(self, state: Any, count: jax.Array) -> jax.Array:
        """Return the learning rate of an update."""
        return state["learning_rate"] if self.schedule is None else jnp.asarray(self.schedule(count), jnp.float32)

    def _slots(self, weight: jax.Array) -> tuple[jax.Array, ...]:
        return rule_slots(self.rule, self.hyper, weight, self.multi_precision)

    def _apply(
        self, weight: jax.Array, grad: jax.Array, slots: tuple[jax.Array, ...], at: Update
    ) -> tuple[jax.Array, ...]:
        return apply_rule(self.rule, self.hyper, weight, grad, slots, at, self.multi_precision)


def _keeps_copy(weight: jax.Array, multi_precision: bool) -> bool:
    return multi_precision and jnp.finfo(weight.dtype).bits < 32


def rule_slots(rule: Rule, hyper: Hyper, weight: jax.Array, multi_precision: bool) -> tuple[jax.Array, ...]:
    """The arrays a rule keeps for a parameter; multi_precision: for one of half precision also a copy in float32."""
    if not _keeps_copy(weight, multi_precision):
        return rule.slots(weight, hyper)
    wide = weight.astype(jnp.float32)
    return (*rule.slots(wide, hyper), wide)


def apply_rule(
    rule: Rule,
    hyper: Hyper,
    weight: jax.Array,
    grad: jax.Array,
    slots: tuple[jax.Array, ...],
    at: Update,
    multi_precision: bool,
) -> tuple[jax.Array, ...]:
    """Return (new weight, *new slots) of one update of one parameter."""

    def formula(weight: jax.Array, grad: jax.Array, *slots: jax.Array) -> tuple[jax.Array, ...]:
        return rule.update(weight, grad, slots, at, hyper)

    keeps = _keeps_copy(weight, multi_precision)
    return (with_master_copy(formula) if keeps else formula)(weight, grad, *slots)


class OptaxOptimizer:
    """An Optax GradientTransformation; its state is Optax's. `optimizer_params` may hold `rescale_grad`."""

    def __init__(self, transformation: Any, parameters: Mapping[str, Any]):
        refuse_unknown_parameters("An Optax optimiser", parameters, {"rescale_grad": None})
        self.transformation = transformation
        self.rescale_grad: float | None = parameters.get("rescale_grad")

    def init(self, params: Params) -> Any:
        """Implements `Optimizer`."""
        # A step consumes its state: no array may be in it twice, as where Optax keeps the parameters themselves.
        return jax.tree.map(jnp.copy, self.transformation.init(params))

    def update(
        self, params: Params, grads: Params, state: Any, step: jax.Array, key: jax.Array, rescale_grad: Any
    ) -> tuple[Params, Any]:
        """Implements `Optimizer`."""
        scaled = {name: (grad * rescale_grad).astype(grad.dtype) for name, grad in grads.items()}
        changes, state = self.transformation.update(scaled, state, params)
        return {name: (weight + changes[name]).astype(weight.dtype) for name, weight in params.items()}, state


def _rule(name: str) -> Rule:
    rule = RULES.get(name.lower())
    if rule is None:
        expected, fix = f"one of {listed(list_optimizers(), 30)}", did_you_mean(name.lower(), RULES) or None
        raise ParamError(f"No optimiser is called {name!r}", expected=expected, fix=fix)
    return rule


def rule_hyper(rule: Rule, values: Mapping[str, Any]) -> Hyper:
    """Return the hyper-parameters that a rule has of its own, of all that are given."""
    return {key: values[key] for key in rule.defaults if key not in _SHARED and key != "lazy_update"}


class UnknownParamError(ParamError, TypeError):
    """Reports a keyword that an optimiser does not take, for which Python raises a TypeError."""


def refuse_unknown_parameters(what: str, parameters: Mapping[str, Any], known_parameters: Mapping[str, Any]) -> None:
    """Raise UnknownParamError for parameters that are not known."""
    unknown = [name for name in parameters if name not in known_parameters]
    if unknown:
        fix = close_names(unknown, known_parameters) or None
        expected = f"names among {listed(sorted(known_parameters), 30)}"
        raise UnknownParamError(f"{what} has no parameter {listed(unknown)}", expected=expected, fix=fix)


def _number(optimizer: str, param: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        problem = f"Optimiser {optimizer!r} cannot use this value"
        raise ParamError(problem, param=param, expected="a number", got=repr(value)) from None


def _schedule(optimizer: str, values: Mapping[str, Any], rate_given: bool) -> Callable[[Any], Any] | None:
    """Return number of the update → learning rate; None for a constant one, which is kept in the state."""
    schedule, rate = values["lr_scheduler"], values["learning_rate"]
    if schedule is None:
        return rate if callable(rate) else None
    if not callable(schedule):
        problem = f"Optimiser {optimizer!r} cannot use this value"
        expected = "a scheduler of lowering.optim.schedules, or any function of the number of the update"
        raise ParamError(problem, param="lr_scheduler", expected=expected, got=repr(schedule))
    base = getattr(schedule, "base_lr", None)
    if rate_given and rate != base:
        raise ParamError(
            "learning_rate and the base_lr of lr_scheduler differ",
            expected="one of them" if base is None else f"one of them, or the scheduler's base_lr = {base}",
            got=f"learning_rate = {rate}",
            fix="Pass the rate to the scheduler only. (MXNet overwrites base_lr here, for some schedulers.)",
        )
    return schedule


def _multipliers(
    key: str, attrs: Mapping[str, Mapping[str, str]], extra: Mapping[str, float], symbol: Symbol
) -> dict[str, float]:
    """Return `lr_mult` or `wd_mult` by parameter: from the variables' attributes, then from the dict given."""
    refuse_unknown(ParamError, f"{key} names", sorted(extra), symbol.list_arguments(), "arguments")
    multipliers = {name: values[f"__{key}__"] for name, values in attrs.items() if f"__{key}__" in values}
    return {name: _number("attribute", f"{name}.{key}", value) for name, value in (multipliers | dict(extra)).items()}


def _check_rows(params: Params, wds: Mapping[str, float]) -> None:
    for name, weight in params.items():
        if weight.ndim != 2 or wds[name]:
            raise ParamError(
                "Optimiser 'groupadagrad' can update only matrices, without weight decay",
                param=name,
                expected="shape (rows, columns) and wd 0",
                got=f"shape {weight.shape} and wd {wds[name]}",
            )
