"""The operators, a folder for each family; importing the package registers them all."""

from symjax_nnvm.ir.families import import_families

import_families(__path__, __name__)
