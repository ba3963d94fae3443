"""`mx.rnn`: recurrent cells as symbols, batches of sentences, checkpoints with each gate's weights apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lowering.messages.migration_hints import unknown_attribute
from lowering.mx.module.module_checkpoints import Params
from lowering.mx.module.module_checkpoints import load_checkpoint as load_checkpoint
from lowering.mx.module.module_checkpoints import save_checkpoint as save_checkpoint
from lowering.mx.rnn import sentences as io  # noqa: F401
from lowering.mx.rnn.composed import BidirectionalCell as BidirectionalCell
from lowering.mx.rnn.composed import DropoutCell as DropoutCell
from lowering.mx.rnn.composed import ModifierCell as ModifierCell
from lowering.mx.rnn.composed import ResidualCell as ResidualCell
from lowering.mx.rnn.composed import SequentialRNNCell as SequentialRNNCell
from lowering.mx.rnn.composed import ZoneoutCell as ZoneoutCell
from lowering.mx.rnn.convolutional import BaseConvRNNCell as BaseConvRNNCell
from lowering.mx.rnn.convolutional import ConvGRUCell as ConvGRUCell
from lowering.mx.rnn.convolutional import ConvLSTMCell as ConvLSTMCell
from lowering.mx.rnn.convolutional import ConvRNNCell as ConvRNNCell
from lowering.mx.rnn.fused import FusedRNNCell as FusedRNNCell
from lowering.mx.rnn.sentences import BucketSentenceIter as BucketSentenceIter
from lowering.mx.rnn.sentences import encode_sentences as encode_sentences
from lowering.mx.rnn.symbol_cells import BaseRNNCell as BaseRNNCell
from lowering.mx.rnn.symbol_cells import GRUCell as GRUCell
from lowering.mx.rnn.symbol_cells import LSTMCell as LSTMCell
from lowering.mx.rnn.symbol_cells import RNNCell as RNNCell
from lowering.mx.rnn.symbol_cells import RNNParams as RNNParams
from lowering.mx.shared_arguments import explained_by
from lowering.mx.symbol import Symbol


@explained_by(save_checkpoint)
def save_rnn_checkpoint(
    cells: Any, prefix: str, epoch: int, symbol: Symbol, arg_params: Mapping[str, Any], aux_params: Mapping[str, Any]
) -> None:
    """Write a checkpoint with the weights of each gate in an array of their own, for fused and unfused cells.

    Args:
        cells: a cell or several.
        symbol: the network.
    """
    args = dict(arg_params)
    for cell in _listed(cells):
        args = cell.unpack_weights(args)
    save_checkpoint(prefix, epoch, symbol, args, aux_params)


@explained_by(save_rnn_checkpoint)
def load_rnn_checkpoint(cells: Any, prefix: str, epoch: int) -> tuple[Symbol, Params, Params]:
    """Return the symbol, arguments and states of a checkpoint that `save_rnn_checkpoint` wrote, with these cells'
    weights.

    Args:
        prefix: the part of the path before `-symbol.json`.
        epoch: the number of the epoch.
    """
    symbol, args, aux = load_checkpoint(prefix, epoch)
    for cell in _listed(cells):
        args = cell.pack_weights(args)
    return symbol, args, aux


@explained_by(save_rnn_checkpoint)
def do_rnn_checkpoint(cells: Any, prefix: str, period: int = 1) -> Callable[..., None]:
    """Return a callback that calls `save_rnn_checkpoint` at the end of every `period` epochs.

    Args:
        prefix: the part of the path before `-symbol.json`.
        period: the number of epochs between two checkpoints.
    """
    period = int(max(1, period))

    def callback(iter_no: int, sym: Any = None, arg: Any = None, aux: Any = None) -> None:
        if (iter_no + 1) % period == 0:
            save_rnn_checkpoint(cells, prefix, iter_no + 1, sym, arg, aux)

    return callback


def _listed(cells: Any) -> list[BaseRNNCell]:
    return [cells] if isinstance(cells, BaseRNNCell) else list(cells)


def __getattr__(name: str) -> object:
    unknown_attribute("mx.rnn", name, sorted(globals()))
