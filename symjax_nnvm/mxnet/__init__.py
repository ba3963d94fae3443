"""MXNet's files: arrays (`.params`)."""

from symjax_nnvm.mxnet.params import load_arrays as load_arrays
from symjax_nnvm.mxnet.params import save_arrays as save_arrays
from symjax_nnvm.mxnet.sparse import CSRArray as CSRArray
from symjax_nnvm.mxnet.sparse import RowSparseArray as RowSparseArray
from symjax_nnvm.mxnet.sparse import SparseArray as SparseArray
