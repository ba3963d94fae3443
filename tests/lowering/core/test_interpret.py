"""The interpreter: slots, versions of states, control dependencies, keys, and errors that name the node."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, LoweringError, NarrowedDtypeWarning
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.register import register_op, same_shape

ONE = np.ones(2, np.float32)


def _register() -> None:
    if Op.exists("_test_low_assign"):
        return
    register_op("_test_low_assign", inputs=("lhs", "rhs"), mutates=(0,), infer_shape=same_shape)
    lowering.lowers("_test_low_assign")(lambda p, lhs, rhs: (rhs * 10, rhs))
    register_op("_test_low_random", infer_shape=same_shape)
    lowering.lowers("_test_low_random", needs=("key",))(lambda p, x, key: x + jax.random.normal(key, x.shape))
    register_op("_test_low_boom", infer_shape=same_shape)

    @lowering.lowers("_test_low_boom")
    def _boom(p, x):
        raise ValueError("no luck")

    register_op("_test_low_short", num_outputs=2)
    lowering.lowers("_test_low_short")(lambda p, x: x)
    register_op("_test_low_unruled")


_register()


def run(symbol, **args):
    return lowering.to_jax(symbol)({name: np.asarray(value, np.float32) for name, value in args.items()})[0]


def test_readers_see_the_version_they_were_composed_with():
    state = sym.Variable("state")
    before = state * 2
    write = sym._test_low_assign(state, before, name="w")
    outputs, aux = lowering.to_jax(sym.Group([state * 100, write, before]))({}, {"state": ONE})
    # `after` comes first in post-order, yet reads what the write left.
    assert [float(o[0]) for o in outputs] == [200.0, 20.0, 2.0]
    assert float(aux["state"][0]) == 2.0


def test_two_writes_chain_and_the_last_one_is_the_new_state():
    state, x = sym.Variable("state"), sym.Variable("x")
    first = sym._test_low_assign(state, x, name="w1")
    middle = state + 0
    second = sym._test_low_assign(state, middle * 3, name="w2")
    outputs, aux = lowering.to_jax(sym.Group([second, middle, first]))({"x": ONE}, {"state": ONE * 7})
    assert [float(o[0]) for o in outputs] == [30.0, 1.0, 10.0]
    assert float(aux["state"][0]) == 3.0


def test_a_read_that_waits_for_its_own_write_is_an_error():
    state = sym.Variable("state")
    write = sym._test_low_assign(state, sym.Variable("x"), name="w")
    late = state * 2
    write.outputs[0].node.inputs[1] = late.outputs[0]  # the write's input reads what it writes
    with pytest.raises(LoweringError, match="Reads and writes of a state contradict the data flow"):
        lowering.to_jax(sym.Group([late, write]))


def test_versions_without_their_writer_read_the_initial_value():
    state = sym.Variable("state")
    sym._test_low_assign(state, sym.Variable("x"))
    late = state * 2
    assert late.outputs[0].node.inputs[0].version == 1
    assert float(run(late, state=ONE)[0][0]) == 2.0


def test_a_state_is_written_even_when_no_output_needs_the_writer():
    x = sym.Variable("x")
    write = sym._test_low_assign(sym.Variable("state"), x)
    net = x + 1
    net.add_control_deps(write)
    outputs, aux = lowering.to_jax(net)({"x": ONE}, {"state": ONE * 5})
    assert (float(outputs[0][0]), float(aux["state"][0])) == (2.0, 1.0)


def test_control_dependencies_do_not_keep_dead_code_alive():
    net = sym.Variable("x") + 1
    net.add_control_deps(sym._test_low_unruled(sym.Variable("unused")))
    # Neither the rule that is missing nor the shape of `unused` matters: nothing reads them.
    outputs, _ = lowering.to_jax(net)({"x": ONE, "unused": ONE})
    assert float(outputs[0][0]) == 2.0


def test_an_operator_without_rule_is_named_with_all_its_nodes():
    net = sym._test_low_unruled(sym._test_low_unruled(sym.Variable("x"), name="a"), name="b")
    with pytest.raises(LoweringError, match=r"No lowering rule for _test_low_unruled \(nodes 'a', 'b'\).*lowers"):
        lowering.to_jax(net)


def test_missing_and_unknown_arguments_are_listed():
    net = sym.Variable("x") + sym.Variable("y")
    with pytest.raises(LoweringError, match=r"missing \['y'\] and unknown \['z'\]; expected exactly \['x', 'y'\]"):
        run(net, x=ONE, z=ONE)


def test_a_failing_rule_names_operator_node_and_shapes():
    net = sym._test_low_boom(sym.Variable("x"), name="b")
    with pytest.raises(
        LoweringError, match=r"no luck; in operator '_test_low_boom', node 'b'; got inputs float32\(2,\)"
    ):
        run(net, x=ONE)


def test_a_rule_with_the_wrong_number_of_values_is_named():
    net = sym._test_low_short(sym.Variable("x"), name="s")
    with pytest.raises(
        LoweringError, match=r"returned 1 values, but it has 2 outputs; in operator '_test_low_short', node 's'"
    ):
        run(net, x=ONE)


def test_contradicting_shapes_are_reported_in_the_graphs_terms():
    net = sym.elemwise_add(sym.Variable("x"), sym.Variable("y"), name="sum")
    with pytest.raises(InferenceError, match=r"node 'sum'"):
        jax.jit(lowering.to_jax(net))({"x": np.ones(2), "y": np.ones(3)})


def test_variables_of_one_name_share_one_array():
    assert float(run(sym.Variable("x") + sym.Variable("x"), x=ONE)[0][0]) == 2.0


def test_a_graph_that_draws_needs_a_key():
    net = sym._test_low_random(sym.Variable("x"), name="r")
    with pytest.raises(LoweringError, match=r"draws random numbers \(nodes 'r'\).*key=jax.random.key"):
        run(net, x=ONE)


def test_jit_compiles_once_per_shape_and_inference_runs_once_per_signature():
    net = sym.FullyConnected(sym.Variable("x"), num_hidden=2, no_bias=True, name="fc")
    traced: list[int] = []
    plain = lowering.to_jax(net)

    @jax.jit
    def function(args):
        traced.append(args["x"].shape[0])
        return plain(args)

    for n in (2, 3, 3, 2):
        function({"x": np.ones((n, 4), np.float32), "fc_weight": np.ones((2, 4), np.float32)})
    assert traced == [2, 3]


def test_the_function_shards_like_any_jax_function():
    mesh = jax.make_mesh((1,), ("batch",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))
    x = jax.device_put(jnp.ones((4, 2)), sharding)
    outputs, _ = jax.jit(lowering.to_jax(sym.Variable("x") * 2))({"x": x})
    assert outputs[0].sharding.is_equivalent_to(sharding, 2)


@pytest.mark.slow("computes much")
def test_a_deep_chain_lowers_without_recursion():
    x = sym.Variable("x")
    for _ in range(3000):
        x = x + 1
    assert float(run(x, x=ONE)[0][0]) == 3001.0


def test_64_bit_graphs_run_in_32_bits_after_a_warning_that_names_the_nodes():
    x = sym.Variable("x")
    net = sym.square(sym.Cast(x, dtype="float64", name="widened")) + sym.Variable("y", dtype="float64")
    run = lowering.to_jax(net)
    args = {"x": np.ones(2, np.float32), "y": np.ones(2)}
    with pytest.warns(NarrowedDtypeWarning, match=r"'widened' \(float64\), 'y' \(float64\).*enable_x64"):
        outputs, _ = run(args)
    assert outputs[0].dtype == np.float32
    run(args)  # said once
    with jax.enable_x64(True):
        outputs, _ = lowering.to_jax(net)(args)
    assert outputs[0].dtype == np.float64


def test_what_xla_is_given_names_the_nodes():
    """Profiles, HLO dumps and XLA's reports of memory are read by layer."""

    def body(item, state):
        return sym.tanh(item + state, name="inside"), state

    x = sym.relu(sym.Variable("x") * 2, name="layer/0")
    loop, _ = sym.contrib.foreach(body, x, sym.Variable("state"))
    net = sym.sum(loop, name="total")
    args = {"x": np.ones((3, 2), np.float32), "state": ONE}
    forward = jax.jit(lowering.to_jax(net)).lower(args, {}, None).as_text(debug_info=True)
    assert [name for name in ("layer/0", loop.name, "inside", "total") if f"{name}/" not in forward] == []
    gradients = jax.jit(lowering.grad_fn(net, ["x"])).lower(args, {}, None).as_text(debug_info=True)
    assert [name for name in ("layer/0_backward", "inside_backward") if f"{name}/" not in gradients] == []
