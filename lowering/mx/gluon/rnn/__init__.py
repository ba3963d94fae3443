"""`mx.gluon.rnn`: recurrent cells, which take steps one by one, and layers, which are one operator over all steps."""

from __future__ import annotations

from lowering.mx.gluon.rnn import rnn_cell as rnn_cell
from lowering.mx.gluon.rnn import rnn_layer as rnn_layer
from lowering.mx.gluon.rnn.rnn_cell import BidirectionalCell as BidirectionalCell
from lowering.mx.gluon.rnn.rnn_cell import DropoutCell as DropoutCell
from lowering.mx.gluon.rnn.rnn_cell import GRUCell as GRUCell
from lowering.mx.gluon.rnn.rnn_cell import HybridRecurrentCell as HybridRecurrentCell
from lowering.mx.gluon.rnn.rnn_cell import HybridSequentialRNNCell as HybridSequentialRNNCell
from lowering.mx.gluon.rnn.rnn_cell import LSTMCell as LSTMCell
from lowering.mx.gluon.rnn.rnn_cell import ModifierCell as ModifierCell
from lowering.mx.gluon.rnn.rnn_cell import RecurrentCell as RecurrentCell
from lowering.mx.gluon.rnn.rnn_cell import ResidualCell as ResidualCell
from lowering.mx.gluon.rnn.rnn_cell import RNNCell as RNNCell
from lowering.mx.gluon.rnn.rnn_cell import SequentialRNNCell as SequentialRNNCell
from lowering.mx.gluon.rnn.rnn_cell import ZoneoutCell as ZoneoutCell
from lowering.mx.gluon.rnn.rnn_layer import GRU as GRU
from lowering.mx.gluon.rnn.rnn_layer import LSTM as LSTM
from lowering.mx.gluon.rnn.rnn_layer import RNN as RNN
