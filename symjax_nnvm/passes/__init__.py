"""Each file has one pass; importing the package registers the passes by their NNVM names."""

from symjax_nnvm.io.symbol_json import graph_json as graph_json
from symjax_nnvm.passes import eliminate_common_expressions as eliminate_common_expressions
from symjax_nnvm.passes import fold_scale_axis as fold_scale_axis
from symjax_nnvm.passes import fuse_for_onednn as fuse_for_onednn
from symjax_nnvm.passes import gradient as gradient
from symjax_nnvm.passes import infer as infer
from symjax_nnvm.passes import order_mutation as order_mutation
from symjax_nnvm.passes import place_device as place_device
from symjax_nnvm.passes import plan_memory as plan_memory
from symjax_nnvm.passes import precompute_prune as precompute_prune
from symjax_nnvm.passes import print_ir as print_ir
from symjax_nnvm.passes import reduce_precision as reduce_precision
from symjax_nnvm.passes import simplify_inference as simplify_inference
from symjax_nnvm.passes.gradient import full_graph as full_graph
