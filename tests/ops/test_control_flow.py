"""Control flow beyond the table: what is built, random numbers, structure of the executable, errors."""

import json
import re
from contextlib import suppress
from typing import Any

import jax
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import (
    ComposeError,
    InferenceError,
    JSONFormatError,
    LoweringError,
    SymbolTypeError,
    SymbolValueError,
)
from symjax_nnvm.ir.traverse import post_order
from tests.support.comparison import assert_close
from tests.support.traced import evaluated

KEY = jax.random.key(3)


def loop(body=lambda x, s: (x * s, s + x)):
    outputs, states = sym.contrib.foreach(body, sym.Variable("data"), sym.Variable("state"))
    return sym.Group([outputs, states])


def ones(*shape):
    return np.ones(shape, np.float32)


def test_outer_nodes_and_variables_become_inputs():
    weight = sym.Variable("weight")
    scaled = sym.exp(weight, name="scaled")
    symbol = loop(lambda x, s: (x * s, s * scaled * weight))
    assert symbol.list_arguments() == ["data", "state", "weight"]
    body = symbol.outputs[0].node.attrs.subgraphs[0]
    assert sym.Symbol(body.outputs).list_inputs() == ["data-0", "state-0", "scaled_output", "weight"]
    assert symbol.outputs[0].node.attrs.dict["remain_locs"] == "[2, 3]"


def test_layers_in_a_body_bring_their_weights():
    symbol = loop(lambda x, s: (sym.FullyConnected(x, num_hidden=2, name="fc"), s))
    assert symbol.list_arguments() == ["data", "state", "fc_weight", "fc_bias"]
    assert symbol.infer_shape(data=(5, 3, 4), state=(1,))[0] == [(5, 3, 4), (1,), (2, 4), (2,)]


def test_shapes_are_inferred_backwards():
    assert loop().infer_shape(data=(5, 3))[0] == [(5, 3), (3,)]


def test_nodes_outside_the_body_are_not_changed():
    scaled = sym.Variable("weight") * 2
    before = scaled.debug_str()
    loop(lambda x, s: (x * scaled, s))
    assert scaled.debug_str() == before


def test_a_loop_and_its_gradient_are_one_loop_each():
    symbol = loop(lambda x, s: (sym.tanh(x * s), sym.tanh(s + x)))
    args = {"data": ones(4, 3), "state": ones(3)}
    grad = lowering.grad_fn(symbol)
    hlo = jax.jit(grad).lower(args, {}, None, [ones(4, 3), ones(3)]).compile().as_text() or ""
    assert len(re.findall(r" while\(", hlo)) == 2


@pytest.mark.slow("compiles")
def test_dropout_in_a_body_draws_anew_at_each_step_and_the_gradient_draws_the_same():
    symbol = loop(lambda x, s: (sym.Dropout(x, p=0.5), s))
    args = {"data": ones(6, 50), "state": ones(1)}
    outputs, grads, _ = evaluated(lowering.grad_fn(symbol, ["data"]), args, {}, KEY, [ones(6, 50), ones(1)])
    masks = np.asarray(outputs[0]) != 0
    assert len({mask.tobytes() for mask in masks}) == 6
    assert_close(grads["data"], outputs[0], 1e-6, "gradient")


def test_a_body_that_draws_nothing_needs_no_key():
    evaluated(
        lowering.to_jax(loop(lambda x, s: (sym.Dropout(x, p=0.5), s)), is_train=False),
        {"data": ones(2), "state": ones(1)},
    )
    with pytest.raises(LoweringError, match="needs a PRNG key"):
        lowering.to_jax(loop(lambda x, s: (sym.Dropout(x, p=0.5), s)), is_train=True)(
            {"data": ones(2), "state": ones(1)}
        )


def test_a_body_with_a_missing_rule_is_named():
    symbol = loop(lambda x, s: (sym.concat(x, s, dim=0), s))
    with pytest.raises(InferenceError, match=r"_foreach\d+.*concat"):
        symbol.infer_shape(data=(5, 3, 2), state=(4, 7))


def test_a_state_that_changes_shape_is_refused():
    with pytest.raises(InferenceError, match="_foreach"):
        loop(lambda x, s: (x, sym.concat(s, s, dim=0))).infer_shape(data=(5, 3), state=(4,))


def test_a_state_that_changes_dtype_is_refused():
    with pytest.raises(LoweringError, match="state 0"):
        lowering.to_jax(loop(lambda x, s: (x, sym.cast(s, dtype="float16"))))({"data": ones(2), "state": ones(1)})


def test_unused_data_and_states_are_refused():
    with pytest.raises(ComposeError, match="data must be used in the body of the loop, but 'data' is not"):
        loop(lambda x, s: (s * 2, s + 1))
    with pytest.raises(ComposeError, match="states must be used in the body of the loop, but 'state' is not"):
        loop(lambda x, s: (x, x * 2))


def test_what_a_function_returns_must_be_symbols_in_the_same_nesting():
    with pytest.raises(SymbolTypeError, match="output of foreach's body must be a symbol"):
        loop(lambda x, s: (3, s))
    with pytest.raises(SymbolValueError, match="nesting of the states"):
        loop(lambda x, s: (x, [s, s]))


def test_while_loop_is_bounded():
    x = sym.Variable("x")
    with pytest.raises(SymbolValueError, match="max_iterations should be specified"):
        sym.contrib.while_loop(lambda i: i < 3, lambda i: (i, i + 1), [x])
    with pytest.raises(SymbolValueError, match="at least one element"):
        sym.contrib.while_loop(lambda: x < 3, lambda: ([], []), [], max_iterations=3)


def test_while_loop_runs_as_a_while_where_nobody_differentiates():
    x = sym.Variable("x")
    outputs, last = sym.contrib.while_loop(lambda i: i < 3, lambda i: (i * 2, [i + 1]), [x], max_iterations=1_000_000)
    values, _ = lowering.compile(sym.Group([outputs, last[0]]))({"x": ones(1)})
    assert values[0].shape == (1_000_000, 1)
    assert np.flatnonzero(values[0]).tolist() == [0, 1]


def test_branches_must_agree():
    x = sym.Variable("x")
    with pytest.raises(SymbolValueError, match="Number of outputs differs"):
        sym.contrib.cond(x, lambda: [x, x], lambda: x)
    conditions: list[Any] = [sym.Group([x, x]), True]
    for condition in conditions:
        with pytest.raises(SymbolValueError, match="a single output"):
            sym.contrib.cond(condition, lambda: x, lambda: x)
    with pytest.raises(InferenceError, match="_cond"):
        sym.contrib.cond(x, lambda: sym.ones((2,)) * x, lambda: sym.ones((3,))).infer_shape(x=(2,))


@pytest.mark.slow("compiles")
def test_gradient_graphs_of_loops_survive_json():
    grad = loop(lambda x, s: (sym.tanh(x * s), s + x)).gradient(["data", "state"])
    loaded = sym.load_json(grad.tojson())
    args = {"data": ones(3, 2) * 0.5, "state": ones(2)}
    for ours, again in zip(
        evaluated(lowering.to_jax(grad), args)[0], evaluated(lowering.to_jax(loaded), args)[0], strict=True
    ):
        assert_close(again, ours, 0, "gradient")


def test_an_outer_loop_of_a_thousand_steps_compiles_once():
    symbol = loop(lambda x, s: (x + s, s + x))
    outputs, _ = lowering.compile(symbol)({"data": ones(1000, 2), "state": ones(2)})
    assert float(outputs[1][0]) == 1001


def test_hidden_attributes_of_a_scope_reach_the_loop_and_its_body():
    with sym.AttrScope(ctx_group="a"):
        outputs, _ = sym.contrib.foreach(lambda x, s: (x + s, s), sym.Variable("x"), sym.Variable("s"))
    loop = outputs.outputs[0].node
    assert loop.attrs.dict["__ctx_group__"] == "a"
    assert loop.attrs.subgraphs[0].outputs[0].node.attrs.dict["__ctx_group__"] == "a"


def nested_body(depth: int):
    """The body of a loop over loops, `depth` of them inside each other."""

    def body(data, states):
        if depth == 0:
            return data + sym.zeros((2,)), states
        return sym.contrib.foreach(nested_body(depth - 1), data, states)

    return body


def test_inference_of_nested_loops_takes_no_longer_at_each_level():
    """Visiting each level twice would take 2²⁴ visits of the innermost."""
    outputs, _ = sym.contrib.foreach(nested_body(24), sym.Variable("x"), [sym.Variable("s")])
    assert outputs.infer_shape_partial()[1] == [(*[0] * 25, 2)]
    assert outputs.infer_type_partial()[1] == [np.float32]
    assert outputs.infer_type_partial(x="float16", s="float64")[1] == [np.float16]


# -- subgraphs and parameters of files that do not fit each other ----------------------------------------------------


def control_flow(op: str):
    i, x, y = map(sym.Variable, "ixy")
    if op == "_foreach":
        outputs, states = sym.contrib.foreach(lambda d, s: (d * s + y, s + d), x, i)
        return sym.Group([outputs, states])
    if op == "_cond":
        return sym.contrib.cond(i < 1, lambda: x + y, lambda: x * y)
    outputs, states = sym.contrib.while_loop(
        lambda i, x, y: i < 3, lambda i, x, y: ([x + y], [i + 1, x * 2, y]), [i, x, y], max_iterations=4
    )
    return sym.Group([outputs[0], states[1]])


LOCS = {
    "_foreach": ("in_data_locs", "in_state_locs", "remain_locs"),
    "_cond": ("cond_input_locs", "then_input_locs", "else_input_locs"),
    "_while_loop": ("cond_input_locs", "func_input_locs", "func_var_locs"),
}
VALUES = [
    "()",
    *(f"({','.join('0' * count)},)" for count in (1, 2, 3, 4)),
    "(0,1,2)",
    "(2,1,0)",
    "(0,1,2,0)",
    "(0,1,9)",
]


@pytest.mark.parametrize("op", LOCS)
def test_locations_that_do_not_fit_are_told_when_a_file_is_loaded(op: str):
    """What is loaded can be differentiated, and both graphs inferred, or the family's errors say why not."""
    told = 0
    for key in LOCS[op]:
        for value in VALUES:
            document = json.loads(control_flow(op).tojson())
            node = next(node for node in document["nodes"] if node["op"] == op)
            node["attrs"][key] = value
            try:
                symbol = sym.load_json(json.dumps(document))
            except JSONFormatError:
                told += 1
                continue
            for one in (symbol, symbol.gradient()):
                with suppress(InferenceError):
                    one.infer_shape_partial(**dict.fromkeys(one.list_arguments(), (1,)))
    assert told > len(VALUES)


@pytest.mark.parametrize("op", LOCS)
def test_a_node_without_its_subgraphs_is_told_when_a_file_is_loaded(op: str):
    document = json.loads(control_flow(op).tojson())
    node = next(node for node in document["nodes"] if node["op"] == op)
    for graphs in ([], node["subgraphs"][:-1], [*node["subgraphs"], node["subgraphs"][0]]):
        node["subgraphs"] = graphs
        with pytest.raises(JSONFormatError, match=r"subgraphs do not fit the parameters.*expected \d subgraphs?, \d"):
            sym.load_json(json.dumps(document))


@pytest.mark.slow("compiles")
def test_a_loop_that_feeds_one_input_to_several_variables_adds_up_their_gradients():
    document = json.loads(control_flow("_while_loop").tojson())
    node = next(node for node in document["nodes"] if node["op"] == "_while_loop")
    node["attrs"]["func_input_locs"] = "(0,0,0)"
    symbol = sym.load_json(json.dumps(document))
    lowering.check_gradients(symbol, {name: ones(1) for name in symbol.list_arguments()})


def test_subgraphs_that_do_not_fit_cannot_be_composed():
    body = sym.Variable("a") + sym.Variable("b")
    with pytest.raises(ComposeError, match="subgraphs do not fit the parameters"):
        sym._foreach(
            body,
            sym.Variable("x"),
            num_args=2,
            num_outputs=1,
            num_out_data=1,
            in_data_locs=(0,),
            in_state_locs=(),
            remain_locs=(),
        )


def test_branches_may_make_the_same_variable():
    twice = lambda: sym.Variable("a") * 2  # noqa: E731
    chosen = sym.contrib.cond(sym.Variable("p") > 0, lambda: sym.exp(sym.Variable("a")), twice)
    assert chosen.list_arguments() == ["p", "a"]
    for p, expected in ((1.0, np.e**2), (-1.0, 4.0)):
        arrays = {"p": ones(1) * p, "a": ones(1) * 2}
        np.testing.assert_allclose(lowering.compile(chosen)(arrays)[0][0], [expected], rtol=1e-6)
    lowering.check_gradients(chosen, {"p": ones(1), "a": ones(1)})


def recurrent(kind: str) -> sym.Symbol:
    """tanh of a product, squared and repeated: the gradient of a step reads tanh, which is no output."""

    def step(*summands):
        hidden = sym.square(sym.tanh(sym.FullyConnected(sym.add_n(*summands), num_hidden=4, name="fc")))
        return hidden, hidden

    start = sym.Variable("state")
    if kind == "foreach":
        return sym.contrib.foreach(step, sym.Variable("data"), start)[0]
    variables = [sym.Variable("i"), start]

    def counting(i, s):
        hidden, _ = step(s)
        return hidden, [i + 1, hidden]

    return sym.contrib.while_loop(lambda i, s: i < 3, counting, variables, max_iterations=5)[0]


GIVEN = {
    "foreach": {"data": ones(3, 2, 4) / 2, "state": ones(2, 4)},
    "while_loop": {"i": np.zeros(1, np.float32), "state": ones(2, 4)},
}


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("kind", GIVEN)
def test_a_gradient_computes_no_step_again(kind: str):
    net = recurrent(kind)
    args = GIVEN[kind] | {"fc_weight": ones(4, 4) / 4, "fc_bias": ones(4) / 8}
    grads = lowering.grad_fn(net, wrt=["fc_weight", "state"])
    heads = [ones(*net.infer_shape(**{name: value.shape for name, value in args.items()})[1][0])]
    text = jax.jit(lambda args: grads(args, head_grads=heads)[1]).lower(args).as_text()
    assert len(re.findall(r"stablehlo\.tanh ", text)) == 1
    assert len(re.findall(r"stablehlo\.dot_general", text)) == 3
    lowering.check_gradients(net, args, wrt=["fc_weight", "state"])


@pytest.mark.nightly("every case", but_one_in=2)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("kind", GIVEN)
def test_a_loop_that_is_mirrored_keeps_its_states_alone(kind: str):
    with sym.AttrScope(force_mirroring="True"):
        net = recurrent(kind)
    args = GIVEN[kind] | {"fc_weight": ones(4, 4) / 4, "fc_bias": ones(4) / 8}
    grads = lowering.grad_fn(net, wrt=["fc_weight", "state"])
    heads = [ones(*net.infer_shape(**{name: value.shape for name, value in args.items()})[1][0])]
    text = jax.jit(lambda args: grads(args, head_grads=heads)[1]).lower(args).as_text()
    assert len(re.findall(r"stablehlo\.tanh ", text)) == 2
    lowering.check_gradients(net, args, wrt=["fc_weight", "state"])


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("kind", GIVEN)
def test_what_a_gradient_keeps_of_each_step_survives_json(kind: str):
    net = recurrent(kind)
    args = GIVEN[kind] | {"fc_weight": ones(4, 4) / 4, "fc_bias": ones(4) / 8}
    gradient = net.gradient(["fc_weight"])
    history = next(
        node for node in post_order(gradient.outputs) if node.op is not None and node.op.name.endswith("_history")
    )
    assert history.attrs.parsed.num_kept == 2  # what the product reads, and tanh
    loaded = sym.load_json(gradient.tojson())
    given = {name: args[name] for name in loaded.list_arguments()}
    again, ours = (np.asarray(evaluated(lowering.to_jax(each), given)[0][0]) for each in (loaded, gradient))
    assert_close(again, ours, 0, "gradient")
