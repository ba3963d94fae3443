"""Names of outputs of operators whose parameters say how many there are, at one: MXNet 1.9.1's `list_outputs`."""

from typing import Any

import pytest

from symjax_nnvm import symbol as sym

# operator, number of inputs, parameters, what MXNet calls the outputs of a node `op`
ONE_OUTPUT: tuple[tuple[str, int, dict[str, Any], list[str]], ...] = (
    ("SliceChannel", 1, {"num_outputs": 1}, ["output0"]),
    ("SliceChannel", 1, {"num_outputs": 1, "squeeze_axis": True}, ["output0"]),
    ("_split_v2", 1, {"indices": (0,)}, ["output"]),
    ("_split_v2", 1, {"indices": (), "sections": 1}, ["output"]),
    ("amp_multicast", 1, {"num_outputs": 1}, ["output"]),
    ("topk", 1, {"ret_typ": "value"}, ["output0"]),
    ("topk", 1, {"ret_typ": "indices"}, ["output"]),
    ("BatchNorm", 5, {}, ["output"]),
    ("LayerNorm", 3, {}, ["output"]),
    ("GroupNorm", 3, {}, ["output"]),
    ("RNN", 3, {"state_size": 2, "num_layers": 1, "mode": "gru"}, ["output"]),
    ("RNN", 4, {"state_size": 2, "num_layers": 1, "mode": "lstm"}, ["output"]),
    ("multi_sgd_update", 2, {"lrs": (0.1,), "wds": (0.0,), "num_weights": 1}, ["output"]),
    ("multi_mp_sgd_update", 3, {"lrs": (0.1,), "wds": (0.0,), "num_weights": 1}, ["output"]),
    ("preloaded_multi_sgd_update", 4, {"num_weights": 1}, ["output"]),
    ("multi_sum_sq", 1, {"num_arrays": 1}, ["output"]),
    ("_contrib_Proposal", 3, {}, ["output"]),
    ("_sample_multinomial", 1, {}, ["output"]),
    ("_linalg_det", 1, {}, ["output0"]),
    ("CTCLoss", 2, {}, ["output0"]),
    ("LeakyReLU", 1, {}, ["output"]),
    ("Dropout", 1, {}, ["output"]),
    ("Pooling", 1, {"kernel": (2, 2)}, ["output"]),
)


@pytest.mark.parametrize(
    ("op", "count", "params", "names"), ONE_OUTPUT, ids=[f"{op} {params}" for op, _, params, _ in ONE_OUTPUT]
)
def test_a_single_output_is_called_as_in_mxnet(op: str, count: int, params: dict[str, Any], names: list[str]):
    symbol = getattr(sym, op)(*[sym.Variable(f"in{i}") for i in range(count)], name="op", **params)
    assert symbol.list_outputs() == [f"op_{name}" for name in names]
    assert symbol.get_internals()[f"op_{names[0]}"].list_outputs() == symbol.list_outputs()
