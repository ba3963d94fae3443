"""The arguments of a module (contexts, names, values, initialisers, optimisers) are converted or refused."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

import lowering.initializer as initializers
from lowering.jax_casts import written
from lowering.mx import optimizer as optimizers
from lowering.mx.context import Context, as_context
from lowering.mx.init import FillsArrays, in_turn
from lowering.mx.io.desc import DataBatch, DataDesc
from lowering.mx.keys import next_key
from lowering.mx.ndarray.array import NDArray, like_jax
from lowering.mx.ndarray.creation import concatenate
from lowering.mx.symbol.runnable import Symbol
from symjax_nnvm.errors import CallError, TrainingError, did_you_mean, listed
from symjax_nnvm.ir.rules.quantized_parameters import refuse_wrong_parameters, way_out_of_mixing
from symjax_nnvm.symbol.automatic_names import names_by_rank

_PARAMETERS = ("_weight", "_bias", "_gamma", "_beta")


def fill(initializer: Any, desc: str, array: NDArray) -> None:
    """Give a parameter its first value, by an initialiser of MXNet's kind or of `lowering.initializer`'s."""
    if isinstance(initializer, str):
        initializer = initializers.create(initializer)
    native = isinstance(initializer, initializers.Initializer | initializers.Load | initializers.Mixed)
    if native and not isinstance(initializer, FillsArrays):
        array[:] = like_jax(initializer(in_turn(desc), array.shape, array.dtype, next_key()))
    else:
        filling: Any = initializer
        filling(desc, array)


def joined(batches: Sequence[DataBatch], described: Sequence[DataDesc]) -> DataBatch:
    """Batches as one, along the axes of their layouts; labels along their first."""

    def join(arrays: Sequence[Sequence[NDArray]], axes: Sequence[int]) -> list[NDArray]:
        return [concatenate(parts, axis) for parts, axis in zip(zip(*arrays, strict=True), axes, strict=True)]

    data = join([batch.data for batch in batches], [max(DataDesc.get_batch_axis(d.layout), 0) for d in described])
    labels = [batch.label for batch in batches if batch.label]
    return DataBatch(data, join(labels, [0] * len(labels[0])) if labels else None)


def make_optimizer(
    optimizer: Any, params: dict[str, Any], symbol: Symbol, names: Sequence[str], rescale_grad: float
) -> optimizers.Optimizer:
    """The optimiser of a module, by its name or as it is. Raises CallError; warns of an odd rescale_grad."""
    numbered = dict(enumerate(names))
    if isinstance(optimizer, str):
        return optimizers.create(
            optimizer, sym=symbol, param_idx2name=numbered, **{"rescale_grad": rescale_grad, **params}
        )
    if not isinstance(optimizer, optimizers.Optimizer):
        problem = "optimizer must be a name, or an optimiser of mx.optimizer"
        raise CallError(
            problem, got=type(optimizer).__name__, fix="optimizer='sgd', optimizer_params={'momentum': 0.9}"
        )
    if optimizer.rescale_grad != rescale_grad:
        warnings.warn(
            "Optimizer created manually outside Module but rescale_grad is not normalized to "
            f"1.0/batch_size/num_workers ({optimizer.rescale_grad} vs. {rescale_grad}). Is this intended?",
            stacklevel=3,
        )
    if not optimizer.idx2name:
        optimizer.idx2name, optimizer.by_rank = numbered, names_by_rank(symbol)
    return optimizer


def as_contexts(context: Any) -> list[Context]:
    """The contexts to run on."""
    return [as_context(device) for device in (context if isinstance(context, list | tuple) else [context])]


def as_groups(group2ctxs: Any) -> dict[str, Any] | None:
    """Return the context of each `ctx_group` for the first context. group2ctxs: as in MXNet, a dict of contexts or of
    lists of them, one for each of the module's, or a list of dicts. Raises CallError."""
    groups = group2ctxs[0] if isinstance(group2ctxs, list | tuple) and group2ctxs else group2ctxs
    if groups is None:
        return None
    if not isinstance(groups, Mapping):
        expected = "a dict such as {'group': mx.cpu()}, or a list of such dicts"
        raise CallError("Wrong argument", param="group2ctxs", expected=expected, got=f"{group2ctxs!r:.80}")
    return {group: ctx[0] if isinstance(ctx, list | tuple) and ctx else ctx for group, ctx in groups.items()}


def as_names(names: Any, param: str) -> list[str]:
    """Return names as a list; None is none. Raises CallError for anything that is not a list."""
    if not isinstance(names, Iterable | None):
        raise CallError("Wrong argument", param=param, expected="a list of names", got=f"{names!r:.80}")
    return list(names or ())


def as_shares(load_list: Any, contexts: Sequence[Context]) -> list[Any]:
    """Return how much of a batch each context takes. Raises CallError for anything that is not a list of numbers."""
    shares = load_list if load_list is not None else [1] * len(contexts)
    if not isinstance(shares, list | tuple) or not all(isinstance(share, Real) for share in shares):
        expected = "a list of numbers, one for each context"
        raise CallError("Wrong argument", param="work_load_list", expected=expected, got=f"{load_list!r:.80}")
    return list(shares) or [1] * len(contexts)


class WrongNameError(CallError, ValueError):
    """A name that the network does not have."""


def check_names(arguments: Sequence[str], names: Sequence[str], what: str, needed: bool) -> None:
    """Raise WrongNameError for names that the network does not have; warn, where they are not needed."""
    for name in names:
        if name in arguments:
            continue
        inputs = [argument for argument in arguments if not argument.endswith(_PARAMETERS)]
        problem = f"You created Module with Module(..., {what}_names={list(names)}) but input with name '{name}' is not"
        message = f"{problem} found in symbol.list_arguments(). Did you mean one of: {listed(inputs)}"
        if needed:
            raise WrongNameError(message)
        warnings.warn(message, stacklevel=3)


def refuse_missing(values: Mapping[str, Any] | None, arrays: Mapping[str, NDArray], what: str) -> None:
    """Raise TrainingError for values that are missing, CallError for anything that is not a dict; GraphError for wrong
    integers."""
    if not isinstance(values, Mapping | None):
        raise CallError("Wrong argument", param=what, expected="a dict of arrays by name", got=f"{values!r:.80}")
    refuse_wrong_parameters(arrays, values or {})
    missing = [] if values is None else [name for name in arrays if name not in values]
    if missing:
        fix = way_out_of_mixing(missing, values or ()) or "With allow_missing=True the initializer makes them."
        raise TrainingError(f"{listed(missing)} of the network is not presented in {what}", fix=fix)


def refuse_surplus(values: Mapping[str, Any] | None, names: Sequence[str], what: str) -> None:
    """Raise TrainingError for values that the network lacks."""
    surplus = [name for name in values or () if name not in names]
    if surplus:
        fix = f"With allow_extra=True they are ignored. {did_you_mean(surplus[0], names)}".rstrip()
        raise TrainingError(f"{what} has values for {listed(surplus)}, but the network has no such parameter", fix=fix)


def fitting(name: str, value: Any, shape: tuple[int, ...]) -> Any:
    """The value. Raises TrainingError where its shape is another."""
    if np.shape(value) != shape:
        raise TrainingError(
            f"The value of {name} does not fit the network", expected=f"shape {shape}", got=np.shape(value)
        )
    return value


def converted(value: Any, target: NDArray) -> Any:
    """An array of a batch in the dtype that it is bound in."""
    array = value.value if isinstance(value, NDArray) else value
    return array if array.dtype == target.cell.dtype else written(array, target.cell.dtype)
