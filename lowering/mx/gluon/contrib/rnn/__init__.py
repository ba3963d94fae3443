"""`mx.gluon.contrib.rnn`: convolutional cells, LSTM with a projection, and one mask of dropout for all steps."""

from __future__ import annotations

from lowering.mx.gluon.contrib.rnn import conv_rnn_cell as conv_rnn_cell
from lowering.mx.gluon.contrib.rnn import rnn_cell as rnn_cell
from lowering.mx.gluon.contrib.rnn.conv_rnn_cell import Conv1DGRUCell as Conv1DGRUCell
from lowering.mx.gluon.contrib.rnn.conv_rnn_cell import Conv1DLSTMCell as Conv1DLSTMCell
from lowering.mx.gluon.contrib.rnn.conv_rnn_cell import Conv1DRNNCell as Conv1DRNNCell
from lowering.mx.gluon.contrib.rnn.conv_rnn_cell import Conv2DGRUCell as Conv2DGRUCell
from lowering.mx.gluon.contrib.rnn.conv_rnn_cell import Conv2DLSTMCell as Conv2DLSTMCell
from lowering.mx.gluon.contrib.rnn.conv_rnn_cell import Conv2DRNNCell as Conv2DRNNCell
from lowering.mx.gluon.contrib.rnn.conv_rnn_cell import Conv3DGRUCell as Conv3DGRUCell
from lowering.mx.gluon.contrib.rnn.conv_rnn_cell import Conv3DLSTMCell as Conv3DLSTMCell
from lowering.mx.gluon.contrib.rnn.conv_rnn_cell import Conv3DRNNCell as Conv3DRNNCell
from lowering.mx.gluon.contrib.rnn.rnn_cell import LSTMPCell as LSTMPCell
from lowering.mx.gluon.contrib.rnn.rnn_cell import VariationalDropoutCell as VariationalDropoutCell
