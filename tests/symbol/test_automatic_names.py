"""Names by rank: what a parameter draws by does not depend on how many networks the process made before."""

import re
from typing import Any

import pytest

from symjax_nnvm import NameManager
from symjax_nnvm import symbol as sym
from symjax_nnvm.symbol.automatic_names import names_by_rank
from symjax_nnvm.symbol.scope import Prefix
from symjax_nnvm.symbol.symbol import Symbol


def dense(x: Symbol, **keywords: Any) -> Symbol:
    return sym.FullyConnected(x, num_hidden=3, no_bias=True, **keywords)


def test_numbers_without_gaps_stay_and_others_become_ranks():
    with NameManager() as names:
        first = dense(dense(sym.Variable("x")))
        assert names_by_rank(first) == {f"fullyconnected{i}_weight": f"fullyconnected{i}_weight" for i in range(2)}
        names._counter["fullyconnected"] = 9  # the order of numbers, and not that of texts
        second = dense(dense(sym.Variable("x")))
    wanted = {"fullyconnected9_weight": "fullyconnected0_weight", "fullyconnected10_weight": "fullyconnected1_weight"}
    assert names_by_rank(second) == wanted
    assert names_by_rank(sym.load_json(second.tojson())) == wanted


def test_each_prefix_and_each_operator_has_its_own_numbers():
    with NameManager() as names:
        names._counter.update(fullyconnected=4, convolution=6)
        x = dense(sym.Convolution(sym.Variable("x"), kernel=(1, 1), num_filter=1, no_bias=True))
        with Prefix("net7_"):
            x = dense(dense(x))
    assert names_by_rank(x) == {
        "convolution6_weight": "convolution0_weight",
        "fullyconnected4_weight": "fullyconnected0_weight",
        "net7_fullyconnected0_weight": "net7_fullyconnected0_weight",
        "net7_fullyconnected1_weight": "net7_fullyconnected1_weight",
    }


@pytest.mark.parametrize("name", ["fc7", "fullyconnected", "fullyconnected07", "7", "convolution7"])
def test_names_of_the_users_choice_stay(name: str):
    assert not names_by_rank(dense(sym.Variable("x"), name=name))


def test_the_body_of_a_loop_counts():
    with NameManager() as names:
        names._counter["fullyconnected"] = 5
        outputs, _ = sym.contrib.foreach(lambda x, s: (dense(x), s), sym.Variable("x"), sym.Variable("s"))
        net = dense(outputs)
    assert names_by_rank(net) == {
        "fullyconnected5_weight": "fullyconnected0_weight",
        "fullyconnected6_weight": "fullyconnected1_weight",
    }


def test_no_two_parameters_share_a_name():
    with NameManager() as names:
        names._counter["fullyconnected"] = 5
        net = dense(dense(sym.Variable("x")), weight=sym.Variable("fullyconnected0_weight"))
    [(name, by_rank)] = names_by_rank(net).items()
    assert (name, by_rank) == ("fullyconnected5_weight", "fullyconnected0_weight ")


def test_subgraphs_are_counted_without_prefixes():
    """MXNet counts them by themselves: a block's loop is foreach0, whatever the block is named."""
    with NameManager(), Prefix("net_"):
        first, _ = sym.contrib.foreach(lambda x, s: (x + s[0], s), sym.Variable("x"), [sym.Variable("s")])
        with Prefix("inner_"):
            second, _ = sym.contrib.foreach(lambda x, s: (x * s[0], s), sym.Variable("y"), [sym.Variable("s")])
    names = re.findall('"__subgraph_name__": "(.*?)"', sym.Group([first, second]).tojson())
    assert set(names) == {"foreach0", "foreach1"}
