"""Checkpoints as symbols and NDArrays, and what callbacks are given: what modules need of `mx.model`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from lowering.mx.ndarray.array import NDArray
from lowering.mx.ndarray.files import as_ndarray
from lowering.mx.symbol.bound import Symbol, as_symbol
from symjax_nnvm.mxnet import checkpoint
from symjax_nnvm.surgery.amp_casts import without_amp_casts
from symjax_nnvm.symbol.given import expect_arrays

Params = dict[str, NDArray]


class BatchEndParam(NamedTuple):
    """What a callback is told of a batch. locals: the variables of the loop that calls it."""

    epoch: int
    nbatch: int
    eval_metric: Any
    locals: Mapping[str, Any] | None


def save_checkpoint(
    prefix: str,
    epoch: int,
    symbol: Symbol | None,
    arg_params: Mapping[str, Any],
    aux_params: Mapping[str, Any],
    remove_amp_cast: bool = True,
) -> None:
    """Write `prefix-symbol.json`, unless symbol is None, and `prefix-0001.params`. Raises OSError.

    remove_amp_cast: without the casts of AMP.
    """
    expect_arrays(arg_params, "arg_params", lists=False)
    expect_arrays(aux_params, "aux_params", lists=False)
    args, aux = ({name: np.asarray(array) for name, array in given.items()} for given in (arg_params, aux_params))
    if symbol is None:
        checkpoint.save_params(prefix, epoch, args, aux)
    else:
        kept = without_amp_casts(symbol) if remove_amp_cast else symbol
        checkpoint.save_checkpoint(prefix, epoch, kept, args, aux)
    logging.info('Saved checkpoint to "%s-%04d.params"', prefix, epoch)


def load_checkpoint(prefix: str, epoch: int) -> tuple[Symbol, Params, Params]:
    """(symbol, arguments, auxiliary states) of a checkpoint of any MXNet. Raises CheckpointError, OSError."""
    symbol, args, aux = checkpoint.load_checkpoint(prefix, epoch)
    return as_symbol(symbol), _ndarrays(args), _ndarrays(aux)


def load_params(prefix: str, epoch: int) -> tuple[Params, Params]:
    """(arguments, auxiliary states) of a checkpoint."""
    args, aux = checkpoint.load_params(prefix, epoch)
    return _ndarrays(args), _ndarrays(aux)


def _ndarrays(arrays: Mapping[str, Any]) -> Params:
    return {name: as_ndarray(array) for name, array in arrays.items()}
