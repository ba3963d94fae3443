"""`mx.attribute`: the scope of attributes for symbols."""

from symjax_nnvm.symbol.scope import AttrScope as AttrScope
