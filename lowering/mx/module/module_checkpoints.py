"""Checkpoints as symbols and NDArrays, and what callbacks are given: what modules need of `mx.model`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from lowering.messages.counts import checks_flags
from lowering.mx.ndarray.array import NDArray
from lowering.mx.ndarray.saved_arrays import as_ndarray
from lowering.mx.shared_arguments import explained_by
from lowering.mx.symbol.runnable import Symbol, as_symbol
from symjax_nnvm.mxnet import checkpoint
from symjax_nnvm.surgery.amp_casts import without_amp_casts
from symjax_nnvm.symbol.call_arguments import expect_arrays

Params = dict[str, NDArray]


class BatchEndParam(NamedTuple):
    """The argument of a callback after a batch.

    Attributes:
        epoch: the number of the epoch.
        nbatch: the number of the batch.
        eval_metric: the metric.
        locals: the local variables of the loop that calls it.
    """

    epoch: int
    nbatch: int
    eval_metric: Any
    locals: Mapping[str, Any] | None


@checks_flags
def save_checkpoint(
    prefix: str,
    epoch: int,
    symbol: Symbol | None,
    arg_params: Mapping[str, Any],
    aux_params: Mapping[str, Any],
    remove_amp_cast: bool = True,
) -> None:
    """Write `prefix-symbol.json` and `prefix-0001.params`.

    Args:
        prefix: the part of the path before `-symbol.json`.
        epoch: the number of the epoch.
        symbol: the network; None to write only the arrays.
        arg_params: parameters by name.
        aux_params: auxiliary states by name.
        remove_amp_cast: leave out the casts of AMP.

    Raises:
        OSError: a file cannot be written.
    """
    expect_arrays(arg_params, "arg_params", lists=False)
    expect_arrays(aux_params, "aux_params", lists=False)
    args, aux = ({name: np.asarray(array) for name, array in arrays.items()} for arrays in (arg_params, aux_params))
    if symbol is None:
        checkpoint.save_params(prefix, epoch, args, aux)
    else:
        network = without_amp_casts(symbol) if remove_amp_cast else symbol
        checkpoint.save_checkpoint(prefix, epoch, network, args, aux)
    logging.info('Saved checkpoint to "%s-%04d.params"', prefix, epoch)


@explained_by(save_checkpoint)
def load_checkpoint(prefix: str, epoch: int) -> tuple[Symbol, Params, Params]:
    """Return the symbol, the arguments and the auxiliary states of a checkpoint of any version of MXNet.

    Raises what `symjax_nnvm.load_checkpoint` raises.
    """
    symbol, args, aux = checkpoint.load_checkpoint(prefix, epoch)
    return as_symbol(symbol), _ndarrays(args), _ndarrays(aux)


@explained_by(save_checkpoint)
def load_params(prefix: str, epoch: int) -> tuple[Params, Params]:
    """Return the arguments and the auxiliary states of a checkpoint.

    Args:
        prefix: the part of the path before `-0001.params`.
    """
    args, aux = checkpoint.load_params(prefix, epoch)
    return _ndarrays(args), _ndarrays(aux)


def _ndarrays(arrays: Mapping[str, Any]) -> Params:
    return {name: as_ndarray(array) for name, array in arrays.items()}
