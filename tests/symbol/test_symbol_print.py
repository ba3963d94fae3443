"""`debug_str`: NNVM's `Symbol::Print`, to the letter."""

from symjax_nnvm.symbol.variable import Group
from tests.support.core_toys import PREFIX, call, functor, var


def test_variable():
    assert var("x").debug_str() == "Variable:x\n"


def test_operator_without_inputs():
    text = f"AtomicFunctor  Op:{PREFIX}zeros\n"
    assert call("zeros", node="z").debug_str() == text
    assert functor("exp").debug_str() == f"AtomicFunctor  Op:{PREFIX}exp\n"


def test_every_part_of_an_operator():
    net = call("dense", var("x"), call("exp", var("w"), node="e"), node="fc", attrs={"num_hidden": "3", "__a__": "1"})
    net.add_control_deps(Group([var("d"), var("d2")]))
    assert net.debug_str() == (
        "Symbol Outputs:\n"
        "\toutput[0]=fc(0)\n"
        "Variable:x\n"
        "Variable:w\n"
        "--------------------\n"
        f"Op:{PREFIX}exp, Name=e\n"
        "Inputs:\n"
        "\targ[0]=w(0) version=0\n"
        "Variable:fc_bias\n"
        "Variable:d\n"
        "Variable:d2\n"
        "--------------------\n"
        f"Op:{PREFIX}dense, Name=fc\n"
        "Inputs:\n"
        "\targ[0]=x(0) version=0\n"
        "\targ[1]=e(0)\n"
        "\targ[2]=fc_bias(0) version=0\n"
        "Attrs:\n"
        "\t__a__=1\n"
        "\tnum_hidden=3\n"
        "Control deps:\n"
        "\tcdep[0]=d\n"
        "\tcdep[1]=d2\n"
    )


def test_groups_versions_and_output_numbers():
    v = var("v")
    net = Group([v, call("split", call("assign", v, var("a"), node="w"), node="s")])
    assert net.debug_str() == (
        "Symbol Outputs:\n"
        "\toutput[0]=v(0)\n"
        "\toutput[1]=s(0)\n"
        "\toutput[2]=s(1)\n"
        "Variable:v\n"
        "Variable:a\n"
        "--------------------\n"
        f"Op:{PREFIX}assign, Name=w\n"
        "Inputs:\n"
        "\targ[0]=v(0) version=1\n"
        "\targ[1]=a(0) version=0\n"
        "--------------------\n"
        f"Op:{PREFIX}split, Name=s\n"
        "Inputs:\n"
        "\targ[0]=w(0)\n"
    )


def test_group_of_variables_is_printed_as_a_graph():
    assert Group([var("x"), var("y")]).debug_str() == (
        "Symbol Outputs:\n\toutput[0]=x(0)\n\toutput[1]=y(0)\nVariable:x\nVariable:y\n"
    )
