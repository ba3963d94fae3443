"""Cases of Embedding."""

from tests.cases import OTHER_INPUTS, Case, T, ids

VOCABULARY = {"input_dim": 5, "output_dim": 3}

CASES = [
    Case("Embedding", (ids(4, high=5), T(5, 3)), VOCABULARY, wrt=(1,)),
    Case("Embedding", (ids(2, 3, high=5, dtype="int32"), T(5, 3)), VOCABULARY, wrt=(1,)),
    Case("Embedding", (ids(6, low=-4, high=9), T(5, 3)), VOCABULARY, wrt=(1,), tag="clipped"),
    Case("Embedding", (ids(3, high=5), T(5, 3, dtype="float16")), {**VOCABULARY, "dtype": "float16"}, wrt=(1,)),
    Case(
        "Embedding",
        (ids(3, high=5, dtype="uint8"), T(5, 3)),
        {**VOCABULARY, "sparse_grad": True},
        wrt=(1,),
        no_mxnet="MXNet's sparse gradient has another storage",
    ),
    Case("_backward_Embedding", (T(4, 3), ids(4, high=5)), VOCABULARY, wrt=(0,), no_mxnet=OTHER_INPUTS),
]
