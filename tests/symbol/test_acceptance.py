"""Known answers of the real system, on the real operators: structures that NNVM and MXNet 1.9.1 were seen to build."""

import json

import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from symjax_nnvm import graph
from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.register import same_shape
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.symbol import Symbol


def test_the_design_notes_example_runs_as_it_stands():
    x = sym.Variable("x", shape=(4, 2))
    y = sym.add(x, x, name="add1")
    y = sym.reshape(y, target=(2, 4), name="reshape1")
    g = graph.create(y)
    g._set_json_attr("shape_attr_key", "shape")
    g = g.apply("InferShape")
    jgraph = json.loads(g.apply("SaveJSON").json_attr("json"))
    jnodes = jgraph["nodes"]
    jnode_row_ptr = jgraph["node_row_ptr"]
    nindex = {n["name"]: i for i, n in enumerate(jnodes)}
    assert g.json_attr("shape")[jnode_row_ptr[nindex["reshape1"]]] == [2, 4]
    assert g.json_attr("shape")[jnode_row_ptr[nindex["add1"]]] == [4, 2]


def test_automatic_variables_are_named_after_the_operator_and_inherit_its_attributes():
    fc = sym.FullyConnected(sym.Variable("x"), num_hidden=3, name="fc")
    assert fc.list_arguments() == ["x", "fc_weight", "fc_bias"]
    assert fc.attr_dict()["fc_weight"] == {"num_hidden": "3"}


def test_batch_norm_has_states_hidden_outputs_and_versions():
    bn = sym.BatchNorm(sym.Variable("x"), name="bn")
    assert bn.list_arguments() == ["x", "bn_gamma", "bn_beta"]
    assert bn.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    assert bn.list_outputs() == ["bn_output"]
    saved = json.loads(bn.tojson())
    assert saved["node_row_ptr"] == [0, 1, 2, 3, 4, 5, 8]
    assert saved["nodes"][-1]["inputs"] == [[0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 1], [4, 0, 1]]
    mean, var = (Symbol([entry]) for entry in bn.outputs[0].node.inputs[3:])
    again = sym.BatchNorm(bn, moving_mean=mean, moving_var=var, name="again")
    assert [entry.version for entry in again.outputs[0].node.inputs[3:]] == [2, 2]
    assert bn.attr_dict()["bn_moving_mean"]["__init__"] == '["zero", {}]'
    assert bn.attr_dict()["bn_moving_var"]["__init__"] == '["one", {}]'


def test_post_order_of_several_heads():
    p, q = sym.Variable("p"), sym.Variable("q")
    heads = sym.Group([p, sym.elemwise_add(sym.exp(q, name="eq"), sym.exp(p, name="ep"), name="r"), q])
    assert [node.name for node in post_order(heads.outputs)] == ["p", "q", "eq", "ep", "r"]


@pytest.mark.parametrize(
    ("all_outputs", "storage", "inplace", "allocated"),
    [(False, [-1, 0, 0, 0], [-1, -1, 0, 0], 24), (True, [-1, 0, 1, 2], [-1, -1, -1, -1], 72)],
)
def test_memory_plan_of_a_chain_of_exp(all_outputs: bool, storage: list[int], inplace: list[int], allocated: int):
    chain = [sym.exp(sym.Variable("x", shape=(2, 3), dtype="float32"))]
    for _ in range(2):
        chain.append(sym.exp(chain[-1]))
    g = graph.create(sym.Group(chain) if all_outputs else chain[-1])
    g = g.apply(["InferShape", "InferType", "PlanMemory"])
    assert g.json_attr("storage_id") == storage
    assert g.json_attr("storage_inplace_index") == inplace
    assert g.json_attr("storage_allocated_bytes") == allocated


def test_memory_plan_of_unused_outputs():
    x = sym.Variable("x", shape=(2, 3), dtype="float32")
    g = graph.create(sym.BatchNorm(sym.exp(x, name="a"), name="bn"))
    g = g.apply(["InferShape", "InferType"]).apply("PlanMemory")
    first = g.index.entry_id("bn")
    assert g.json_attr("storage_inplace_index")[first : first + 3] == [-1, -2, -2]


def test_devices_of_a_graph_split_in_two():
    x = sym.Variable("x", attr={"ctx_group": "a"})
    with sym.AttrScope(ctx_group="a"):
        e = sym.exp(x, name="e")
    with sym.AttrScope(ctx_group="b"):
        net = sym.elemwise_add(sym.log(e, name="l"), e, name="r")
    g = graph.create(net)
    g.attrs |= {
        "device_group_attr_key": "__ctx_group__",
        "device_assign_map": {"a": 0, "b": 1},
        "device_copy_op": "_copy",
    }
    placed = g.apply("PlaceDevice")
    assert [node.source.name for node in placed.index.nodes] == ["x", "e", "e_0_copy", "l", "r"]
    assert placed.json_attr("device") == [0, 0, 1, 1, 1]


def test_gradients_of_a_product_at_a_point():
    product = sym.elemwise_mul(sym.Variable("x"), sym.Variable("y"))
    args = {"x": np.full(1, 2.0, np.float32), "y": np.full(1, 3.0, np.float32)}
    grads = lowering.grad_fn(product)(args)[1]
    assert (2 * float(grads["x"][0]), 2 * float(grads["y"][0])) == (6.0, 4.0)


def test_a_user_registers_an_operator_and_a_new_attribute_from_outside():
    if not nn.Op.exists("_test_user_triple"):
        nn.register_op(
            "_test_user_triple",
            infer_shape=same_shape,
            gradient=lambda node, ograds: [nn.apply("_mul_scalar", ograds[0], scalar=3.0)],
            TMyOwnAttribute="anything",
        )
        lowering.lowers("_test_user_triple")(lambda p, x: 3 * x)
    net = sym._test_user_triple(sym.Variable("x"), name="t")
    assert nn.Op.get_attr("TMyOwnAttribute")[nn.Op.get("_test_user_triple")] == "anything"
    assert lowering.check_gradients(net, {"x": np.ones(2)}).ok
