"""The JAX rule of every operator, one family per file; importing the package registers them."""

from lowering.ops import activation as activation
from lowering.ops import broadcast as broadcast
from lowering.ops import convolution as convolution
from lowering.ops import dense as dense
from lowering.ops import dropout as dropout
from lowering.ops import elemwise_binary as elemwise_binary
from lowering.ops import elemwise_unary as elemwise_unary
from lowering.ops import indexing as indexing
from lowering.ops import init as init
from lowering.ops import joining as joining
from lowering.ops import loss as loss
from lowering.ops import movement as movement
from lowering.ops import normalization as normalization
from lowering.ops import pooling as pooling
from lowering.ops import random_discrete as random_discrete
from lowering.ops import random_draws as random_draws
from lowering.ops import random_pdf as random_pdf
from lowering.ops import reduction as reduction
from lowering.ops import repetition as repetition
from lowering.ops import reshape as reshape
from lowering.ops import scalar as scalar
from lowering.ops import slicing as slicing
from lowering.ops import softmax as softmax
from lowering.ops import softmax_output as softmax_output
