"""What the operators mean, one family per file; importing the package registers them."""

from symjax_nnvm.ops import activation as activation
from symjax_nnvm.ops import broadcast as broadcast
from symjax_nnvm.ops import convolution as convolution
from symjax_nnvm.ops import dense as dense
from symjax_nnvm.ops import dropout as dropout
from symjax_nnvm.ops import elemwise_binary as elemwise_binary
from symjax_nnvm.ops import elemwise_unary as elemwise_unary
from symjax_nnvm.ops import indexing as indexing
from symjax_nnvm.ops import init as init
from symjax_nnvm.ops import joining as joining
from symjax_nnvm.ops import loss as loss
from symjax_nnvm.ops import movement as movement
from symjax_nnvm.ops import normalization as normalization
from symjax_nnvm.ops import pooling as pooling
from symjax_nnvm.ops import random_discrete as random_discrete
from symjax_nnvm.ops import random_draws as random_draws
from symjax_nnvm.ops import random_pdf as random_pdf
from symjax_nnvm.ops import reduction as reduction
from symjax_nnvm.ops import repetition as repetition
from symjax_nnvm.ops import reshape as reshape
from symjax_nnvm.ops import scalar as scalar
from symjax_nnvm.ops import slicing as slicing
from symjax_nnvm.ops import softmax as softmax
from symjax_nnvm.ops import softmax_output as softmax_output
