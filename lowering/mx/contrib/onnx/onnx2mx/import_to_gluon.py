"""ONNX files as Gluon's blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowering.mx import symbol as sym
from lowering.mx.accepted_types import ContextsLike
from lowering.mx.contrib.onnx.onnx2mx.import_model import get_model_metadata
from lowering.mx.contrib.onnx.onnx2mx.import_model import import_model as as_symbol
from lowering.mx.gluon.symbol_block import SymbolBlock
from symjax_nnvm.io.files import StrPath


def import_to_gluon(
    model_file: StrPath, ctx: ContextsLike, *, shapes: Mapping[str, Sequence[int]] | None = None
) -> SymbolBlock:
    """The block of an ONNX file, which takes the file's inputs in their order, with its parameters on a context or on
    several. shapes: as of `import_model`. Raises as `import_model` does."""
    symbol, args, aux = as_symbol(model_file, shapes=shapes)
    inputs = [sym.var(name) for name, *_ in get_model_metadata(model_file)["input_tensor_data"]]
    block = SymbolBlock(symbol, inputs)
    block.collect_params().load_dict({**args, **aux}, ctx, ignore_extra=True, cast_dtype=True, dtype_source="saved")
    return block
