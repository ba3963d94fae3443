"""What MXNet infers of partly known inputs, over all cases of the table, is inferred here as well."""

import pytest

from symjax_nnvm import symbol as sym


@pytest.mark.parametrize(
    ("operator", "params", "given", "result", "expected"),
    [
        ("FullyConnected", {"num_hidden": 3, "flatten": False, "no_bias": True}, (0, 4, 5), (2, 4, 3), (2, 4, 5)),
        ("FullyConnected", {"num_hidden": 3, "flatten": False, "no_bias": True}, (2, 0, 5), (2, 4, 3), (2, 4, 5)),
        ("expand_dims", {"axis": 1}, (0, 3), (2, 1, 3), (2, 3)),
        ("expand_dims", {"axis": -1}, (2, 0), (2, 3, 1), (2, 3)),
        ("stack", {"axis": 1, "num_args": 1}, (0, 3), (2, 1, 3), (2, 3)),
    ],
)
def test_unknown_dimensions_of_data_come_from_the_result(operator, params, given, result, expected):
    symbol = getattr(sym, operator)(sym.Variable("x", shape=given), **params) + sym.Variable("y", shape=result)
    assert symbol.infer_shape_partial()[0][0] == expected


def test_stacked_arrays_know_their_shape_from_each_other():
    stacked = sym.stack(sym.Variable("x", shape=(0, 3)), sym.Variable("y", shape=(2, 0)))
    assert stacked.infer_shape_partial() == ([(2, 3), (2, 3)], [(2, 2, 3)], [])
