# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportOptionalSubscript=false
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import ExecutorTypeError, ExecutorValueError, GradientError
from symjax_nnvm.symbol import Symbol

x, y = sym.Variable("x"), sym.Variable("y")
dense = sym.FullyConnected(x, num_hidden=3, name="fc")


def mlp() -> Symbol:
    hidden = sym.Activation(sym.FullyConnected(sym.Variable("data"), num_hidden=8, name="fc1"), act_type="tanh")
    hidden = sym.Dropout(sym.BatchNorm(hidden, fix_gamma=False, name="bn"), p=0.5, name="drop")
    return sym.SoftmaxOutput(sym.FullyConnected(hidden, num_hidden=3, name="fc2"), name="softmax")


def filled(symbol: Symbol, /, grad_req: Any = "write", **options: Any) -> lowering.Executor:
    """An executor whose arguments hold numbers."""
    executor = lowering.simple_bind(symbol, grad_req=grad_req, **options)
    random = np.random.RandomState(3)
    for name, array in executor.arg_dict.items():
        executor.arg_dict[name] = random.uniform(0.1, 1, array.shape)
    return executor


def ones(*shape: int) -> jax.Array:
    return jnp.ones(shape)


def gradients(executor: lowering.Executor) -> dict[str, np.ndarray]:
    return {name: np.asarray(value) for name, value in executor.grad_dict.items() if value is not None}


def states(executor: lowering.Executor) -> dict[str, np.ndarray]:
    return {name: np.asarray(value) for name, value in executor.aux_dict.items()}


def assert_same(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_allclose(value, theirs[name], rtol=2e-5, atol=1e-6, err_msg=name)


# -- data --------------------------------------------------------------------------------------------------------------


def test_forward_copies_data_in_and_casts_numpy() -> None:
    executor = lowering.simple_bind(sym.exp(x), x=(2, 2))
    data = np.arange(4.0).reshape(2, 2)
    (out,) = executor.forward(x=data)
    data[:] = 0  # the executor has a copy
    np.testing.assert_allclose(executor.arg_dict["x"], [[0, 1], [2, 3]])
    np.testing.assert_allclose(out, np.exp([[0, 1], [2, 3]]), rtol=1e-6)
    assert executor.arg_dict["x"].dtype == "float32"


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        ({"x": 3}, ExecutorValueError, "only accept keyword argument of NDArrays and numpy.ndarray"),
        ({"z": np.ones(2)}, ExecutorTypeError, "Unknown argument z"),
        (
            {"x": np.ones((2, 5))},
            ExecutorValueError,
            r"Shape not match! Argument x, need: \(2, 4\), received: \(2, 5\)",
        ),
    ],
)
def test_forward_refuses_other_data(data: Any, error: type[Exception], text: str) -> None:
    executor = lowering.simple_bind(dense, x=(2, 4))
    with pytest.raises(error, match=text):
        executor.forward(**data)


def test_auxiliary_states_are_no_arguments_of_forward() -> None:
    executor = lowering.simple_bind(mlp(), data=(2, 4))
    with pytest.raises(ExecutorTypeError, match="Unknown argument bn_moving_mean"):
        executor.forward(bn_moving_mean=np.ones(8))


def test_floating_point_numbers_are_not_cut_to_integers() -> None:
    executor = lowering.simple_bind(sym.Embedding(x, input_dim=4, output_dim=2), type_dict={"x": "int32"}, x=(3,))
    with pytest.raises(ExecutorValueError, match="wrong dtype; expected int32; got float32"):
        executor.forward(x=np.ones(3, "float32"))
    assert executor.forward(x=np.ones(3, "int64"))[0].shape == (3, 2)


def test_outputs_are_zeros_before_the_first_pass_and_stay_as_they_are_after_it() -> None:
    executor = filled(dense, x=(2, 4))
    np.testing.assert_array_equal(executor.outputs[0], np.zeros((2, 3)))
    (first,) = executor.forward()
    kept = np.asarray(first)
    executor.forward(x=np.zeros((2, 4)))
    np.testing.assert_array_equal(first, kept)  # deviation: MXNet overwrites the array


def test_outputs_by_name() -> None:
    executor = filled(sym.Group([dense, sym.exp(x, name="e")]), x=(2, 4))
    executor.forward()
    assert list(executor.output_dict) == ["fc_output", "e_output"]
    with pytest.raises(ExecutorValueError, match=r"Duplicate names detected, \['fc_output', 'fc_output'\]"):
        lowering.simple_bind(sym.Group([dense, dense]), x=(2, 4)).output_dict  # noqa: B018


# -- head gradients ----------------------------------------------------------------------------------------------------


def test_a_head_that_is_no_loss_needs_a_gradient() -> None:
    executor = filled(dense, x=(2, 4))
    executor.forward(is_train=True)
    for given in (None, [], [None], {}):
        with pytest.raises(GradientError, match="head_gradient is required when calling backward; in node 'fc_output'"):
            executor.backward(given)
    with pytest.raises(ExecutorTypeError, match="inputs must be NDArray"):
        executor.backward([3])
    with pytest.raises(GradientError, match=r"wrong shape.*expected \(2, 3\); got \(2, 2\)"):
        executor.backward(ones(2, 2))
    with pytest.raises(ExecutorValueError, match=r"unknown outputs \['out'\]; expected names among \['fc_output'\]"):
        executor.backward({"out": ones(2, 3)})


def test_head_gradients_as_array_list_tuple_and_dict() -> None:
    executor = filled(dense, x=(2, 4))
    executor.forward(is_train=True)
    head = np.full((2, 3), 2.0)
    for given in (head, [head], (head, head), {"fc_output": head}):
        executor.grad_dict["fc_bias"] = 0
        executor.backward(given)
        np.testing.assert_allclose(executor.grad_dict["fc_bias"], [4, 4, 4])


def test_a_loss_head_in_a_group_needs_none_but_its_place() -> None:
    executor = filled(sym.Group([sym.SoftmaxOutput(dense, name="softmax"), dense]), x=(2, 4))
    executor.forward(is_train=True)
    with pytest.raises(GradientError, match="'fc_output'"):
        executor.backward([ones(1)])
    executor.backward([None, ones(2, 3)])
    executor.backward({"fc_output": ones(2, 3)})


def test_deviation_head_gradients_of_a_head_listed_twice_add_up() -> None:
    e = sym.elemwise_mul(x, y)
    executor = filled(sym.Group([e, e]), x=(2,))
    executor.forward(is_train=True)
    executor.backward([ones(2), 10 * ones(2)])
    np.testing.assert_allclose(executor.grad_dict["x"], 11 * executor.arg_dict["y"], rtol=1e-6)


# -- backward ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_train", [True, False])
def test_deviation_backward_before_forward_runs_the_forward_pass(is_train: bool) -> None:
    net = sym.exp(sym.BatchNorm(x, fix_gamma=False, name="bn"))
    alone, after = (filled(net, x=(4, 3)) for _ in range(2))
    alone.backward(ones(4, 3), is_train=is_train)
    after.forward(is_train=is_train)
    after.backward(ones(4, 3), is_train=is_train)
    assert_same(gradients(alone), gradients(after))
    assert_same(states(alone), states(after))
    np.testing.assert_array_equal(alone.outputs[0], after.outputs[0])


def test_deviation_the_bias_of_a_dense_layer_has_a_gradient_where_the_weight_asks_for_none() -> None:
    executor = lowering.simple_bind(dense, grad_req={"fc_bias": "write"}, x=(5, 3))
    executor.forward(is_train=True)
    executor.backward(ones(*executor.outputs[0].shape))
    np.testing.assert_array_equal(executor.grad_dict["fc_bias"], np.full_like(executor.arg_dict["fc_bias"], 5))


def test_backward_before_forward_still_needs_the_head_gradients() -> None:
    with pytest.raises(GradientError, match="head_gradient is required"):
        filled(dense, x=(2, 4)).backward()


def test_backward_without_gradients_does_nothing() -> None:
    executor = filled(dense, "null", x=(2, 4))
    executor.backward()
    assert set(executor.grad_dict.values()) == {None}


def test_nothing_is_computed_twice() -> None:
    net = sym.FullyConnected(sym.tanh(dense), num_hidden=3, name="top")
    executor = filled(net, {"fc_weight": "write", "top_weight": "write"}, x=(2, 4))
    functions, args = executor._functions, executor._values()[0]
    forward = jax.make_jaxpr(functions.forward_keeping(True))(args, [], None)
    outputs, _, residuals, _ = functions.forward_keeping(True)(args, [], None)
    backward = jax.make_jaxpr(functions.backward(True))(args, outputs, residuals, None, [ones(2, 3)], [None, None])
    assert str(forward).count("dot_general") == 2
    assert str(backward).count("dot_general") == 3  # into both weights, and through the upper one
    assert "tanh" in str(forward)
    assert "tanh" not in str(backward)
    assert len(residuals) == 1  # tanh's output; what the executor has anyway is not kept


def test_backward_reads_the_label_that_is_there_when_it_runs() -> None:
    executor = filled(sym.SoftmaxOutput(dense, name="softmax"), x=(2, 4))
    executor.forward(is_train=True, softmax_label=np.array([0, 0]))
    executor.arg_dict["softmax_label"] = np.array([1, 2])
    executor.backward()
    late = gradients(executor)
    executor.forward(is_train=True)
    executor.backward()
    assert_same(late, gradients(executor))


def test_backward_after_a_pass_in_inference_differentiates_inference() -> None:
    executor = filled(sym.Dropout(sym.square(x), p=0.5), x=(3, 3))
    executor.forward(is_train=False)
    executor.backward(ones(3, 3))
    np.testing.assert_allclose(executor.grad_dict["x"], 2 * executor.arg_dict["x"], rtol=1e-6)


def test_deviation_a_training_pass_is_differentiated_as_one_whatever_backward_is_told() -> None:
    told, plain = (filled(sym.BatchNorm(x, fix_gamma=False, name="bn"), x=(4, 3)) for _ in range(2))
    head = np.random.RandomState(1).normal(size=(4, 3))
    for executor, is_train in ((told, False), (plain, True)):
        executor.forward(is_train=True)
        executor.backward(head, is_train=is_train)
    assert_same(gradients(told), gradients(plain))
    assert not told.aux_dict["bn_moving_mean"].any()
    assert plain.aux_dict["bn_moving_mean"].any()


@pytest.mark.parametrize("grad_req", ["write", "add"])
def test_forward_backward_is_forward_and_backward(grad_req: str) -> None:
    apart, fused = filled(mlp(), grad_req, data=(4, 5)), filled(mlp(), grad_req, data=(4, 5))
    for _ in range(3):
        data = np.random.RandomState(0).normal(size=(4, 5))
        apart.forward(is_train=True, data=data)
        apart.backward()
        (out,) = fused.forward_backward(data=data)
        np.testing.assert_allclose(out, apart.outputs[0], rtol=1e-5)
    assert_same(gradients(fused), gradients(apart))
    assert_same(states(fused), states(apart))
    for executor in (apart, fused):
        executor.backward()  # once more, of the same pass
    assert_same(gradients(fused), gradients(apart))
    assert_same(states(fused), states(apart))


@pytest.mark.usefixtures("compiled_fully")
def test_sums_of_gradients_that_nobody_has_seen_are_updated_in_place() -> None:
    executor = filled(dense, "add", x=(2, 4))
    executor.forward(is_train=True)
    executor.backward(ones(2, 3))
    (bias,) = (cell for cell in executor._adds if cell is not None and cell.name == "fc_bias")
    unseen = bias.value
    executor.backward(ones(2, 3))
    assert unseen.is_deleted()
    seen = executor.grad_dict["fc_bias"]
    executor.backward(ones(2, 3))
    np.testing.assert_allclose(seen, [4, 4, 4])
    np.testing.assert_allclose(executor.grad_dict["fc_bias"], [6, 6, 6])


# -- states and random numbers -----------------------------------------------------------------------------------------


def test_a_state_assigned_between_forward_and_backward_is_the_one_that_moves() -> None:
    executor = filled(sym.BatchNorm(x, name="bn", momentum=0.5), x=(4, 2))
    executor.forward(is_train=True, x=np.full((4, 2), 2.0))
    executor.aux_dict["bn_moving_mean"] = 10
    executor.backward(ones(4, 2))
    np.testing.assert_allclose(executor.aux_dict["bn_moving_mean"], [6, 6])


def test_states_stay_where_no_gradient_passes_through_their_operator() -> None:
    """Two BatchNorms share their averages, and only the upper one is trained. The numbers are MXNet 1.9.1's."""
    shared = {"moving_mean": sym.Variable("mean"), "moving_var": sym.Variable("var"), "momentum": 0.5}
    net = sym.MakeLoss(sym.BatchNorm(sym.BatchNorm(x, name="lower", **shared), name="upper", **shared))
    for fused in (False, True):
        executor = filled(net, grad_req={"upper_beta": "write"}, x=(3, 2))
        executor.arg_dict["x"], executor.arg_dict["lower_beta"] = np.array([[1.0, 2], [3, 5], [8, 13]]), 4
        executor.aux_dict["mean"], executor.aux_dict["var"] = [0, 2], 1
        if fused:
            executor.forward_backward()
        else:
            executor.forward(is_train=True)
            executor.backward()
        np.testing.assert_allclose(executor.aux_dict["mean"], [2, 3], rtol=1e-5)
        np.testing.assert_allclose(executor.aux_dict["var"], [0.9999424, 0.9999770], rtol=1e-5)


@pytest.mark.parametrize(
    ("kind", "grad_req", "is_train", "expected"),
    [
        ("BatchNorm", {"x": "write"}, True, 1),
        ("BatchNorm", {"x": "write"}, False, 1),
        ("BatchNorm", "null", True, 0.25),
        ("BatchNorm_v1", "null", False, 1),
    ],
)
def test_a_gamma_that_is_fixed_is_set_as_mxnet_sets_it(kind: str, grad_req: Any, is_train: bool, expected: float):
    given = jnp.full(2, 0.25)
    args = {"x": ones(3, 2), "bn_gamma": given, "bn_beta": ones(2)}
    aux = {"bn_moving_mean": jnp.zeros(2), "bn_moving_var": ones(2)}
    net, grads = getattr(sym, kind)(x, name="bn"), {"x": jnp.zeros((3, 2))}
    executor = lowering.bind(net, args=args, args_grad=grads, grad_req=grad_req, aux=aux)
    for gamma in (0.25, 4):  # what is written between two passes is set again
        executor.arg_dict["bn_gamma"] = gamma
        executor.forward(is_train)
        assert executor.arg_dict["bn_gamma"].tolist() == [gamma if expected == 0.25 else 1] * 2
    assert given.tolist() == [0.25] * 2


def test_update_operators_write_their_states_in_forward() -> None:
    step = sym.sgd_mom_update(x, sym.Variable("g"), sym.Variable("m"), lr=1.0, momentum=0.5)
    executor = lowering.simple_bind(step, grad_req="null", x=(2,))
    executor.forward(g=np.ones(2))
    executor.forward()
    np.testing.assert_allclose(executor.aux_dict["m"], [-1.5, -1.5])


def test_dropout_uses_one_mask_forward_and_backward_and_a_new_one_for_each_pass() -> None:
    executor = filled(sym.Dropout(x, p=0.5), x=(8, 8))
    masks = []
    for _ in range(2):
        (out,) = executor.forward(is_train=True, x=np.ones((8, 8)))
        executor.backward(ones(8, 8))
        np.testing.assert_array_equal(executor.grad_dict["x"], out)
        executor.backward(ones(8, 8))  # deviation: MXNet passes the second one unmasked
        np.testing.assert_array_equal(executor.grad_dict["x"], out)
        masks.append(np.asarray(out))
    assert (masks[0] != masks[1]).any()


def test_the_seed_decides_the_numbers() -> None:
    def drawn(seed: Any) -> np.ndarray:
        executor = lowering.simple_bind(sym.Dropout(x, p=0.5, name="drop"), seed=seed, x=(8, 8))
        return np.asarray(executor.forward(is_train=True, x=np.ones((8, 8)))[0])

    np.testing.assert_array_equal(drawn(1), drawn(jax.random.key(1)))
    assert (drawn(1) != drawn(2)).any()


# -- parameters --------------------------------------------------------------------------------------------------------


def test_copy_params_from_casts_and_leaves_the_rest() -> None:
    executor = filled(mlp(), data=(2, 4))
    weight = np.asarray(executor.arg_dict["fc1_weight"])
    executor.copy_params_from({"fc1_bias": np.arange(8)}, {"bn_moving_var": np.ones(8, "float64")})
    np.testing.assert_array_equal(executor.arg_dict["fc1_bias"], np.arange(8))
    np.testing.assert_array_equal(executor.aux_dict["bn_moving_var"], np.ones(8))
    np.testing.assert_array_equal(executor.arg_dict["fc1_weight"], weight)


def test_copy_params_from_names_what_does_not_fit_and_copies_nothing() -> None:
    executor = lowering.simple_bind(dense, x=(2, 4))
    with pytest.raises(ExecutorValueError, match='Find name "q" that is not in the arguments'):
        executor.copy_params_from({"fc_bias": np.ones(3), "q": np.ones(1)})
    with pytest.raises(ExecutorValueError, match="Find name q that is not in the auxiliary states"):
        executor.copy_params_from({"fc_bias": np.ones(3)}, {"q": np.ones(1)})
    with pytest.raises(
        ExecutorValueError, match=r"Array 'fc_weight' has the wrong shape; expected \(3, 4\); got \(3,\)"
    ):
        executor.copy_params_from({"fc_bias": np.ones(3), "fc_weight": np.ones(3)})
    np.testing.assert_array_equal(executor.arg_dict["fc_bias"], np.zeros(3))
    executor.copy_params_from({"fc_bias": np.ones(3), "q": np.ones(1)}, allow_extra_params=True)
    np.testing.assert_array_equal(executor.arg_dict["fc_bias"], np.ones(3))


@pytest.mark.slow("compiles")
def test_training_as_people_write_it() -> None:
    executor = filled(mlp(), data=(8, 5))
    random = np.random.RandomState(0)
    for name in executor.arg_dict:
        executor.arg_dict[name] = random.normal(size=executor.arg_dict[name].shape) * 0.3
    data, label = random.normal(size=(8, 5)), np.arange(8) % 3
    losses = []
    for _ in range(60):
        executor.forward(is_train=True, data=data, softmax_label=label)
        executor.backward()
        for name, grad in executor.grad_dict.items():
            if name not in ("data", "softmax_label"):
                executor.arg_dict[name] -= 0.1 * grad
        losses.append(-np.log(np.asarray(executor.outputs[0])[np.arange(8), label]).mean())
    assert np.mean(losses[-20:]) < 0.5 * losses[0]  # a single one depends on which units Dropout drops


# -- looking inside ----------------------------------------------------------------------------------------------------


def test_the_monitor_sees_every_output_in_the_order_of_execution() -> None:
    executor = filled(sym.BatchNorm(x, name="bn"), x=(2, 4))
    seen: list[str] = []
    executor.set_monitor_callback(lambda name, array: seen.append(name))
    executor.forward(is_train=True)
    assert seen == ["bn_output", "bn_mean", "bn_var"]  # as in MXNet
    executor.backward(ones(2, 4))
    assert seen[3] == "_head_grad_0_id_output"


def test_the_monitor_of_all_sees_inputs_first() -> None:
    executor = filled(sym.BatchNorm(sym.exp(x, name="e"), name="bn"), x=(2, 4))
    seen: dict[str, Any] = {}
    executor.set_monitor_callback(seen.__setitem__, monitor_all=True)
    executor.forward(is_train=True)
    variables = [n for v in ("gamma", "beta", "moving_mean", "moving_var") for n in (f"bn_{v}",)]
    assert list(seen) == ["x", "e_input0", "e_output", "bn_data", *variables, "bn_output", "bn_mean", "bn_var"]
    np.testing.assert_array_equal(seen["e_output"], seen["bn_data"])
    np.testing.assert_allclose(seen["bn_mean"], np.exp(seen["x"]).mean(0), rtol=1e-5)


def test_monitored_runs_compute_the_same_and_stop_when_told() -> None:
    plain, monitored = filled(mlp(), data=(4, 5)), filled(mlp(), data=(4, 5))
    seen: list[str] = []
    monitored.set_monitor_callback(lambda name, array: seen.append(name))
    for executor in (plain, monitored):
        executor.forward_backward()
    assert_same(gradients(monitored), gradients(plain))
    assert_same(states(monitored), states(plain))
    monitored.set_monitor_callback(None)
    count = len(seen)
    monitored.forward_backward()
    assert len(seen) == count > 0


def test_debug_str_and_the_optimized_symbol_show_merged_nodes() -> None:
    executor = filled(sym.exp(x, name="a") + sym.exp(x, name="b"), x=(512, 512))
    assert executor.debug_str().count("Op:exp") == 1
    assert executor.debug_str().endswith("Total 4 MB allocated\nTotal 0 TempSpace resource requested\n")
    assert executor.get_optimized_symbol().get_internals().list_outputs()[:2] == ["x", "a_output"]


def test_debug_str_tells_the_memory_that_nnvm_plans() -> None:
    """MXNet 1.9.1 says the same: 90, 15 and 15."""
    net = x
    for _ in range(10):
        net = net * net
    bound = [
        lowering.simple_bind(net, x=(10, 3, 256, 256)),
        lowering.simple_bind(net, grad_req="null", x=(10, 3, 256, 256)),
        lowering.simple_bind(sym.stop_gradient(net), x=(10, 3, 256, 256)),
    ]
    assert [executor.debug_str().split("\n")[-3] for executor in bound] == [
        f"Total {megabytes} MB allocated" for megabytes in (90, 15, 15)
    ]


def test_mirrored_nodes_give_the_same_gradients() -> None:
    net = sym.tanh(sym.exp(sym.tanh(x, name="t"), name="e"), name="u")
    plain = filled(net, x=(3, 3))
    mirrored = filled(net, mirror=lambda node: node.name in ("t", "e"), x=(3, 3))
    assert "Name=e_mirror" in mirrored.debug_str()
    for executor in (plain, mirrored):
        executor.forward(is_train=True)
        executor.backward(ones(3, 3))
    assert_same(gradients(mirrored), gradients(plain))


@pytest.mark.slow("compiles")
@pytest.mark.usefixtures("compiled_fully")
def test_calls_compile_nothing_anew() -> None:
    executor = filled(mlp(), "add", data=(4, 5))
    for data in (np.ones((4, 5)), jnp.ones((4, 5)), np.ones((4, 5), "float32"), jnp.full((4, 5), 1.0)):
        executor.forward_backward(data=data)
        executor.arg_dict["fc1_weight"] -= 0.1 * executor.arg_dict["fc1_weight"]
        executor.arg_dict["fc1_bias"] = 0.5
    run: Any = executor._functions.forward_backward(donate=True)
    assert run._cache_size() == 1


def test_integer_arguments_get_a_gradient_of_zeros() -> None:
    net = sym.Embedding(x, input_dim=4, output_dim=2, name="embed")
    executor = lowering.simple_bind(net, type_dict={"x": "int32", "embed_weight": "float32"}, x=(3,))
    executor.forward(is_train=True, x=np.array([1, 1, 3]))
    executor.backward(ones(3, 2))
    assert executor.grad_dict["x"].dtype == "int32"
    np.testing.assert_array_equal(executor.grad_dict["x"], [0, 0, 0])
    np.testing.assert_array_equal(executor.grad_dict["embed_weight"], [[0, 0], [2, 2], [0, 0], [1, 1]])
