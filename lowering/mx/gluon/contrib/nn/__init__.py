"""`mx.gluon.contrib.nn`: blocks side by side, normalisation over devices, and shuffled pixels."""

from __future__ import annotations

from lowering.mx.gluon.contrib.nn.basic_layers import Concurrent as Concurrent
from lowering.mx.gluon.contrib.nn.basic_layers import HybridConcurrent as HybridConcurrent
from lowering.mx.gluon.contrib.nn.basic_layers import Identity as Identity
from lowering.mx.gluon.contrib.nn.basic_layers import PixelShuffle1D as PixelShuffle1D
from lowering.mx.gluon.contrib.nn.basic_layers import PixelShuffle2D as PixelShuffle2D
from lowering.mx.gluon.contrib.nn.basic_layers import PixelShuffle3D as PixelShuffle3D
from lowering.mx.gluon.contrib.nn.basic_layers import SparseEmbedding as SparseEmbedding
from lowering.mx.gluon.contrib.nn.basic_layers import SyncBatchNorm as SyncBatchNorm
