"""Cases of take, batch_take, pick and one_hot."""

from tests.cases import OTHER_INPUTS, Case, T, ids

CASES = [
    Case("one_hot", (ids(4, low=-1, high=4),), {"depth": 3}, wrt=()),
    Case("one_hot", (ids(2, 3, high=4, dtype="int32"),), {"depth": 4, "on_value": 2.5, "off_value": -1.0}),
    Case("one_hot", (ids(3, high=3, dtype="uint8"),), {"depth": 0}),
    Case("one_hot", (ids(2, 3, high=3),), {"depth": 0, "dtype": "int32"}, wrt=()),
    Case("one_hot", (ids(3, high=3, dtype="uint8"),), {"depth": 3, "dtype": "int32"}),
    Case("pick", (T(3, 4), ids(3, high=4)), wrt=(0,)),
    Case("pick", (T(3, 4), ids(4, high=3)), {"axis": 0}, wrt=(0,)),
    Case("pick", (T(2, 3, 4), ids(2, 4, high=3)), {"axis": 1, "keepdims": True}, wrt=(0,)),
    Case("pick", (T(2, 3, 4), ids(2, 1, 4, high=3)), {"axis": -2}, wrt=(0,)),
    Case("pick", (T(2, 3, 4), ids(2, 1, 4, high=3, dtype="int32")), {"axis": 1, "keepdims": True}, wrt=(0,)),
    Case("pick", (T(4, 3), ids(4, low=-4, high=7)), wrt=(0,), tag="clipped"),
    Case("pick", (T(4, 3), ids(4, low=-4, high=7)), {"mode": "wrap"}, wrt=(0,)),
    Case("pick", (T(4), ids(1, high=4)), {"axis": 0}, wrt=(0,)),
    Case("batch_take", (T(3, 4), ids(3, high=4, dtype="int32")), wrt=(0,), no_mxnet="MXNet's has no gradient"),
    Case("batch_take", (T(3, 4), ids(3, low=-2, high=7, dtype="int32")), wrt=(), is_train=False),
    Case("take", (T(5, 3), ids(4, high=5)), wrt=(0,)),
    Case("take", (T(5, 3), ids(2, 2, low=-3, high=8)), wrt=(0,), tag="clipped"),
    Case("take", (T(2, 5, 3), ids(2, 2, high=5)), {"axis": 1}, wrt=(0,)),
    Case("take", (T(2, 5), ids(4, low=-7, high=9, dtype="int32")), {"axis": -1, "mode": "wrap"}, wrt=(0,)),
    Case("take", (T(5), ids(3, high=5)), {"mode": "raise"}, wrt=(0,)),
    Case("_backward_pick", (T(3), T(3, 4), ids(3, high=4)), wrt=(0,), no_mxnet=OTHER_INPUTS),
    Case("_backward_pick", (T(3), T(3, 4), ids(3, low=-5, high=9)), {"mode": "wrap"}, wrt=(0,), no_mxnet=OTHER_INPUTS),
    Case("_backward_take", (T(2, 4), T(2, 5), ids(4, high=5)), {"axis": 1}, wrt=(0,), no_mxnet=OTHER_INPUTS),
]
