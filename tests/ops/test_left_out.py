"""Operators of MXNet's that are not here: naming one says why."""

import json
import re
from pathlib import Path

import pytest

import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import JSONFormatError, OpNotRegisteredError
from symjax_nnvm.ir.op import Op, why_left_out
from symjax_nnvm.ops.left_out import LEFT_OUT, OF_FORKS

GOLDENS = Path(__file__).parents[1] / "goldens"

NAMES = [name for names in LEFT_OUT.values() for name in names.split()]


def test_names_are_left_out_once_and_are_really_absent():
    assert len(NAMES) == len(set(NAMES)) > 30
    assert [name for name in NAMES if Op.exists(name)] == ["_zeros_without_dtype"]  # zeros of no dtype, in gradients


def test_every_name_of_mxnet_is_here_or_says_why_not():
    schemas = json.loads((GOLDENS / "schemas.json").read_text())
    names = {name for canonical, row in schemas.items() for name in (canonical, *row["aliases"])}
    names |= set(json.loads((GOLDENS / "more_names.json").read_text()))
    assert len(names) == 1167
    absent = {name for name in names if not Op.exists(name)}
    assert {name for name in absent if not why_left_out(name)} == set()
    told = {name for name in absent if not name.startswith(("_backward", "_contrib_backward"))}
    assert set(NAMES) - {"_backward", "_zeros_without_dtype", "_sg_mkldnn_batch_dot", "_sg_onednn_batch_dot"} == told


def test_asking_for_one_says_why():
    with pytest.raises(
        OpNotRegisteredError, match="_npi_backward_polyval is not registered: MXNet's executor makes it"
    ):
        Op.get("_npi_backward_polyval")
    with pytest.raises(AttributeError, match="'_contrib_edge_id': it samples graphs"):
        sym._contrib_edge_id  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(AttributeError, match=r"'_cvimdecode': it reads images, outside of graphs; mx.image"):
        sym._cvimdecode  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def test_loading_one_says_why():
    text = sym.exp(sym.Variable("x"), name="e").tojson().replace('"exp"', '"_contrib_dgl_subgraph"')
    with pytest.raises(JSONFormatError, match="Failed loading Op e of type _contrib_dgl_subgraph.*samples graphs"):
        sym.load_json(text)


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        ("ChannelwiseConvolution", "forks of MXNet.*Convolution with num_group="),
        ("QConvolution", "BMXNet, a fork.*register"),
    ],
)
def test_operators_of_forks_are_told_with_the_way_out(op: str, reason: str):
    text = sym.exp(sym.Variable("x"), name="e").tojson().replace('"exp"', f'"{op}"')
    with pytest.raises(JSONFormatError, match=f"{op} is not registered: it is an operator of {reason}") as caught:
        sym.load_json(text)
    assert "Did you mean" not in str(caught.value)
    assert re.search(reason, " ".join(str(nn.check(text)).split()))
    assert not any(map(Op.exists, (name for names in OF_FORKS.values() for name in names.split())))


def test_other_names_have_no_reason():
    with pytest.raises(OpNotRegisteredError, match=r"Operator convolution2 is not registered. Did you mean"):
        Op.get("convolution2")
