"""This package reads and writes MXNet's files: symbols (`-symbol.json`), arrays (`.params`), and the two together as
checkpoints."""

from symjax_nnvm.mxnet import symbol_json as symbol_json
from symjax_nnvm.mxnet.checkpoint import load_checkpoint as load_checkpoint
from symjax_nnvm.mxnet.checkpoint import load_params as load_params
from symjax_nnvm.mxnet.checkpoint import save_checkpoint as save_checkpoint
from symjax_nnvm.mxnet.checkpoint import save_params as save_params
from symjax_nnvm.mxnet.match import ParamsMatch as ParamsMatch
from symjax_nnvm.mxnet.match import match_params as match_params
from symjax_nnvm.mxnet.model_loader import load_model as load_model
from symjax_nnvm.mxnet.params_files import load_arrays as load_arrays
from symjax_nnvm.mxnet.params_files import load_safetensors as load_safetensors
from symjax_nnvm.mxnet.params_files import save_arrays as save_arrays
from symjax_nnvm.mxnet.params_files import save_safetensors as save_safetensors
from symjax_nnvm.mxnet.sparse import CSRArray as CSRArray
from symjax_nnvm.mxnet.sparse import RowSparseArray as RowSparseArray
from symjax_nnvm.mxnet.sparse import SparseArray as SparseArray
