"""Surgery on symbols: each function gives a new symbol, and leaves its argument as it is."""

from symjax_nnvm.surgery.batch_size import HardCodedBatch as HardCodedBatch
from symjax_nnvm.surgery.batch_size import hard_coded_batch as hard_coded_batch
from symjax_nnvm.surgery.batch_size import set_batch_size as set_batch_size
from symjax_nnvm.surgery.dequantized import dequantized as dequantized
from symjax_nnvm.surgery.heads import cut as cut
from symjax_nnvm.surgery.heads import replace_head as replace_head
from symjax_nnvm.surgery.inference_head import inference_symbol as inference_symbol
from symjax_nnvm.surgery.node_names import freeze as freeze
from symjax_nnvm.surgery.node_names import rename as rename
from symjax_nnvm.surgery.statistics import freeze_statistics as freeze_statistics
from symjax_nnvm.surgery.subset import subset as subset
