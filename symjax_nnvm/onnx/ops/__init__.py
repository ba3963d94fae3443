"""The ONNX form of every operator, in folders and files of the names that they have in `symjax_nnvm/ops`."""

from symjax_nnvm.ir.families import import_families

import_families(__path__, __name__)
