"""`mx.name`: the managers of automatic names."""

from symjax_nnvm.symbol.scope import NameManager as NameManager
from symjax_nnvm.symbol.scope import Prefix as Prefix
