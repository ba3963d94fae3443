"""`mx.viz`: tables of networks are MXNet's."""

import json
from pathlib import Path

import pytest

from lowering import mx
from tests.lowering.mx.summaries import TABLES, table

THEIRS = json.loads((Path(__file__).parents[2] / "goldens" / "summaries.json").read_text())


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_mxnets(name: str):
    assert table(mx, name) == THEIRS[name]


def test_what_has_no_table():
    with pytest.raises(TypeError, match="symbol must be Symbol"):
        mx.viz.print_summary("net")  # type: ignore[arg-type]
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc") + mx.sym.Variable("other")
    with pytest.warns(UserWarning, match="Cannot decide shape"), pytest.raises(ValueError, match="shape is incomplete"):
        mx.viz.print_summary(net, shape={"other": (0, 0)})


def test_names_write_nothing_but_themselves(capsys: pytest.CaptureFixture[str]):
    mx.viz.print_summary(mx.sym.relu(mx.sym.Variable("x"), name="\x1b[31mred\nline"))
    assert "\x1b" not in capsys.readouterr().out
