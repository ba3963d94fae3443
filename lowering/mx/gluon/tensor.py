"""The type of what layers compute with: arrays or symbols."""

from __future__ import annotations

from lowering.mx.ndarray.array import NDArray
from symjax_nnvm.symbol.symbol import Symbol

Tensor = NDArray | Symbol
"""An array, or its symbol where a hybridised block is traced."""
