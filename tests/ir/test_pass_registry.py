"""The registry of passes: names, dependencies, order."""

import pytest

from symjax_nnvm.errors import PassError
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.pass_registry import apply_pass, apply_passes, get_pass, list_passes, register_pass
from symjax_nnvm.symbol.variable import Group
from tests.support.core_toys import fresh_name, var


def adding(name: str, key: str, value: object, **declared) -> str:
    @register_pass(name, **declared)
    def body(graph: Graph) -> Graph:
        """Set one attribute."""
        return graph.derive(attrs=graph.attrs | {key: value})

    return name


def test_unknown_pass_is_named():
    with pytest.raises(PassError, match="Cannot find pass NoSuchPass in the registry"):
        apply_pass(Graph(), "NoSuchPass")


def test_all_names_are_resolved_before_any_pass_runs():
    ran = []
    name = fresh_name("pass")

    @register_pass(name)
    def body(graph: Graph) -> Graph:
        ran.append(name)
        return graph

    with pytest.raises(PassError, match="Cannot find pass NoSuchPass"):
        apply_passes(Graph(), [name, "NoSuchPass"])
    assert ran == []


def test_passes_run_in_order_and_see_earlier_results():
    key = fresh_name("key")
    first = adding(fresh_name("pass"), key, 1, provides=[key])
    second = adding(fresh_name("pass"), "done", 2, requires=[key])
    assert apply_passes(Graph(), [first, second]).attrs == {key: 1, "done": 2}


def test_missing_requirement_names_the_pass_and_the_first_provider():
    key = fresh_name("key")
    provider = adding(fresh_name("provider"), key, 1, provides=[key])
    adding(fresh_name("provider"), key, 1, provides=[key])
    needy = adding(fresh_name("pass"), "done", 2, requires=[key])
    message = (
        rf"^Graph attr dependency {key} is required by pass {needy} but is not available; got attributes \['other'\]\. "
        rf"The attribute is provided by pass {provider}$"
    )
    with pytest.raises(PassError, match=message):
        apply_pass(Graph([], {"other": 1}), needy)


def test_missing_requirement_that_nobody_provides():
    key = fresh_name("key")
    needy = adding(fresh_name("pass"), "done", 2, requires=[key])
    message = f"^Graph attr dependency {key} is required by pass {needy} but is not available; got attributes \\[\\].$"
    with pytest.raises(PassError, match=message):
        apply_pass(Graph(), needy)


@pytest.mark.parametrize(("key", "provider"), [("shape", "InferShape"), ("dtype", "InferType"), ("json", "SaveJSON")])
def test_first_registered_provider_of_the_standard_attributes(key: str, provider: str):
    needy = adding(fresh_name("pass"), "done", 2, requires=[key])
    with pytest.raises(PassError, match=f"provided by pass {provider}$"):
        apply_pass(Graph(), needy)


def test_given_graph_is_not_changed():
    name = fresh_name("pass")

    @register_pass(name)
    def body(graph: Graph) -> Graph:
        graph.attrs["new"] = 1
        graph.outputs.clear()
        return graph

    graph = Graph(var("x").outputs, {"old": 0})
    result = apply_pass(graph, name)
    assert (graph.attrs, len(graph.outputs)) == ({"old": 0}, 1)
    assert (result.attrs, len(result.outputs)) == ({"old": 0, "new": 1}, 0)


def test_graph_of_another_class_stays_of_its_class():
    class Special(Graph):
        pass

    assert type(apply_pass(Special(Group([var("x")]).outputs), adding(fresh_name("pass"), "a", 1))) is Special


def test_declaration_is_kept():
    name = adding(
        fresh_name("pass"), "a", 1, requires=["r"], provides=["p"], op_attrs=["FInferShape"], change_graph=True
    )
    info = get_pass(name)
    assert (info.name, info.description, info.change_graph) == (name, "Set one attribute.", True)
    assert (info.graph_attr_dependency, info.graph_attr_targets) == (("r",), ("p",))
    assert info.op_attr_dependency == ("FInferShape",)
    assert name in list_passes()
    assert list_passes() == sorted(list_passes())


def test_name_registered_again_is_replaced():
    name = adding(fresh_name("pass"), "a", 1)
    adding(name, "a", 2)
    assert apply_pass(Graph(), name).attrs == {"a": 2}


def test_no_passes_give_an_equal_graph():
    graph = Graph(var("x").outputs, {"a": 1})
    result = apply_passes(graph, [])
    assert (result.outputs, result.attrs) == (graph.outputs, graph.attrs)
