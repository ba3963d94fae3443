"""Cases of _contrib_quantized_rnn."""

from tests.cases import T
from tests.cases.quantization import case, unsigned

CASES = [
    case(
        "_contrib_quantized_rnn",
        *(unsigned(3, 2, 4), T(216), T(2, 2, 3), T(2, 2, 3)),
        *(T(1, low=60, high=61, kind="integers"), T(1, low=128, high=129, kind="integers")),
        state_size=3,
        num_layers=1,
        bidirectional=True,
        mode="lstm",
        state_outputs=True,
        no_mxnet="fails: could not create a primitive descriptor for a reorder primitive",
    )
]
