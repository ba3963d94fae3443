"""What ONNX' operators mean here, in files by what they do."""

from symjax_nnvm.ir.families import import_families

import_families(__path__, __name__)
