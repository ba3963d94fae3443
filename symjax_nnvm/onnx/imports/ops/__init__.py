"""Forms of ONNX' operators as MXNet's, in files by purpose."""

from symjax_nnvm.ir.families import import_families

import_families(__path__, __name__)
