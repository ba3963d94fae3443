"""The operators that exist for an algorithm or a library alone. The pipeline makes them; no file holds them."""

from symjax_nnvm.ir.families import import_families

import_families(__path__, __name__)
