"""The operators that exist only for an algorithm or a library. The pipeline makes them; no file holds them."""

from symjax_nnvm.ir.families import import_families

import_families(__path__, __name__)
