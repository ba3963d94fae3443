# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportOptionalSubscript=false
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import (
    BindError,
    ExecutorTypeError,
    ExecutorValueError,
    GradientError,
    SymbolValueError,
    UnknownArrayError,
)

x = sym.Variable("x")
dense = sym.FullyConnected(x, num_hidden=3, name="fc")
norm = sym.BatchNorm(x, name="bn")


def arrays() -> dict[str, jax.Array]:
    return {"x": jnp.ones((2, 4)), "fc_weight": jnp.ones((3, 4)), "fc_bias": jnp.ones(3)}


# -- simple_bind -------------------------------------------------------------------------------------------------------


def test_simple_bind_makes_zeros_of_the_inferred_shapes() -> None:
    executor = lowering.simple_bind(sym.FullyConnected(norm, num_hidden=3, name="fc"), x=(2, 4))
    assert {name: array.shape for name, array in executor.arg_dict.items()} == {
        "x": (2, 4),
        "bn_gamma": (4,),
        "bn_beta": (4,),
        "fc_weight": (3, 4),
        "fc_bias": (3,),
    }
    held = [*executor.arg_dict.values(), *executor.grad_dict.values(), *executor.aux_dict.values()]
    assert len(held) == 12
    assert all(array is not None and array.dtype == "float32" and not array.any() for array in held)


def test_type_dict_decides_and_the_others_follow() -> None:
    executor = lowering.simple_bind(dense, type_dict={"x": "float16"}, x=(2, 4))
    assert {array.dtype.name for array in executor.arg_dict.values()} == {"float16"}
    assert lowering.simple_bind(dense, type_dict={"x": jnp.bfloat16}, x=(2, 4)).forward()[0].dtype == jnp.bfloat16


def test_arguments_are_float32_where_neither_they_nor_type_dict_says_more() -> None:
    halves = sym.FullyConnected(sym.Variable("x", dtype="float16"), num_hidden=3)
    with pytest.raises(BindError, match=r"^simple_bind error. Arguments:\nx: \(2, 4\)\n"):
        lowering.simple_bind(halves, x=(2, 4))
    assert lowering.simple_bind(halves, type_dict={}, x=(2, 4)).arg_arrays[1].dtype == "float16"


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        ({}, r"simple_bind error. Arguments:\nInferShape pass cannot decide shapes .*\nx: None, fc_weight: \(3, -1\)"),
        ({"x": (2, 0)}, r"x: \(2, -1\)"),
        ({"x": (2, 4), "fc_weight": (5, 5)}, r"Arguments:\nx: \(2, 4\)\nfc_weight: \(5, 5\)\n.*'fc'"),
        ({"x": (2, 4), "data": (1,)}, r"no \['data'\]; expected shapes of \['x', 'fc_weight', 'fc_bias'\]"),
        ({"x": 3}, "need to be shapes"),
    ],
)
def test_shapes_that_do_not_fit_are_listed(shapes: dict[str, Any], text: str) -> None:
    with pytest.raises(BindError, match=text):
        lowering.simple_bind(dense, **shapes)


@pytest.mark.parametrize(
    ("grad_req", "text"),
    [
        ("foo", "grad_req=foo is not a valid input in simple_bind; only 'null', 'write', and 'add' are supported"),
        (["write"], "length of grad_req list does not match .* in simple_bind, expected 3, provided 1"),
        ([], "grad_req in simple_bind cannot be an empty list"),
        ({}, "grad_req in simple_bind cannot be an empty list or dict"),
        ({"fc_bais": "write"}, r"grad_req has unknown arguments \['fc_bais'\]"),
    ],
)
def test_gradient_requests_are_checked(grad_req: Any, text: str) -> None:
    with pytest.raises(ExecutorValueError, match=text):
        lowering.simple_bind(dense, grad_req=grad_req, x=(2, 4))


@pytest.mark.parametrize(
    ("grad_req", "computed"),
    [
        ("add", ["x", "fc_weight", "fc_bias"]),
        (["null", "write", "add"], ["fc_weight", "fc_bias"]),
        ({"fc_bias": "add"}, ["fc_bias"]),
        (None, []),
    ],
)
def test_gradients_exist_where_they_are_asked_for(grad_req: Any, computed: list[str]) -> None:
    executor = lowering.simple_bind(dense, grad_req=grad_req, x=(2, 4))
    assert [name for name, grad in executor.grad_dict.items() if grad is not None] == computed


def test_two_variables_of_one_name_are_refused() -> None:
    with pytest.raises(ExecutorValueError, match=r"Duplicate names detected among the arguments: \['x'\]"):
        lowering.simple_bind(x + sym.Variable("x"), x=(2,))


# -- bind --------------------------------------------------------------------------------------------------------------


def test_bind_takes_lists_and_dicts_that_hold_more() -> None:
    for args in (list(arrays().values()), {**arrays(), "more": jnp.ones(1)}):
        (out,) = lowering.bind(dense, args=args).forward()
        np.testing.assert_array_equal(out, np.full((2, 3), 5.0))


def test_bind_uses_the_arrays_it_is_given() -> None:
    given = arrays()
    assert lowering.bind(dense, args=given).arg_dict["x"] is given["x"]


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"args": [jnp.ones((2, 4))]}, ExecutorValueError, "Length of args does not match the number of arguments"),
        ({"args": {"x": jnp.ones((2, 4))}}, ExecutorValueError, "key `fc_weight` is missing in `args`"),
        (
            {"args": tuple(arrays().values())},
            ExecutorTypeError,
            "Only accept list of NDArrays or dict of str to NDArray",
        ),
        ({"args": [1, 2, 3]}, ExecutorTypeError, "Only accept arrays in args, got int for x"),
        ({"args": arrays(), "ctx": 3}, ExecutorTypeError, "Context type error"),
        ({"args": arrays(), "grad_req": "foo"}, ExecutorValueError, "grad_req=foo"),
        ({"args": {**arrays(), "x": jnp.ones((2, 5))}}, BindError, r"bind error. Arguments:\nx: \(2, 5\)\nfc_weight"),
        ({"args": {**arrays(), "x": jnp.ones((2, 4), "int32")}}, BindError, r"x: int32\nfc_weight: float32"),
        (
            {"args": arrays(), "args_grad": {"x": jnp.ones((2, 5))}},
            BindError,
            "gradient array does not fit argument 'x'",
        ),
    ],
)
def test_bind_refuses_what_does_not_fit(given: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        lowering.bind(dense, **given)


@pytest.mark.parametrize(
    ("aux", "text"),
    [
        (None, "Length of aux does not match"),
        ([jnp.ones(4)], "Length of aux does not match"),
        ({"bn_moving_mean": jnp.ones(4)}, "key `bn_moving_var` is missing in `aux`"),
    ],
)
def test_bind_needs_the_auxiliary_states(aux: Any, text: str) -> None:
    args = {"x": jnp.ones((2, 4)), "bn_gamma": jnp.ones(4), "bn_beta": jnp.ones(4)}
    with pytest.raises(ExecutorValueError, match=text):
        lowering.bind(norm, args=args, aux=aux)


def test_gradients_are_computed_where_there_are_arrays_for_them() -> None:
    executor = lowering.bind(dense, args=arrays(), args_grad={"fc_bias": jnp.zeros(3)})
    executor.forward(is_train=True)
    executor.backward(jnp.ones((2, 3)))
    assert list(executor.grad_arrays)[:2] == [None, None]
    np.testing.assert_array_equal(executor.grad_dict["fc_bias"], [2, 2, 2])


def test_without_args_grad_there_are_no_gradients() -> None:
    executor = lowering.bind(dense, args=arrays())
    assert executor.grad_arrays is None
    with pytest.raises(ExecutorTypeError, match="bound without args_grad"):
        executor.grad_dict  # noqa: B018
    executor.forward_backward()


# -- arrays ------------------------------------------------------------------------------------------------------------


def test_arrays_are_written_by_name_and_by_number() -> None:
    executor = lowering.bind(dense, args=arrays())
    executor.arg_dict["fc_bias"] = np.arange(3)
    np.testing.assert_array_equal(executor.arg_arrays[2], [0, 1, 2])
    executor.arg_arrays[2] = 7
    np.testing.assert_array_equal(executor.arg_dict["fc_bias"], [7, 7, 7])
    assert len(executor.arg_arrays[1:]) == 2


def test_jax_arrays_are_not_written_to_in_place() -> None:
    executor = lowering.bind(dense, args=arrays())
    with pytest.raises(TypeError, match="immutable"):
        executor.arg_dict["fc_bias"][:] = 0


def test_wrong_names_shapes_and_places_are_errors() -> None:
    executor = lowering.bind(dense, args=arrays(), args_grad={"x": jnp.zeros((2, 4))})
    with pytest.raises(UnknownArrayError, match=r"Unknown argument 'fc_bais'; expected one of \['x', 'fc_weight'"):
        executor.arg_dict["fc_bais"] = 0
    assert executor.arg_dict.get("fc_bais") is None
    with pytest.raises(ExecutorValueError, match=r"need: \(3,\), received: \(4,\)"):
        executor.arg_dict["fc_bias"] = np.ones(4)
    with pytest.raises(ExecutorValueError, match="no array for gradient 'fc_bias'"):
        executor.grad_dict["fc_bias"] = 0
    with pytest.raises(ExecutorTypeError, match="'x' cannot be deleted"):
        del executor.arg_dict["x"]


# -- reshape and sharing -----------------------------------------------------------------------------------------------


def test_reshape_shares_what_keeps_its_shape() -> None:
    executor = lowering.simple_bind(dense, x=(2, 4))
    small = executor.reshape(x=(1, 4))
    assert small.arg_dict["x"].shape == small.grad_dict["x"].shape == (1, 4)
    executor.arg_dict["fc_bias"] = 5
    np.testing.assert_array_equal(small.forward()[0], [[5, 5, 5]])
    small.forward_backward(jnp.ones((1, 3)))
    np.testing.assert_array_equal(executor.grad_dict["fc_bias"], [1, 1, 1])


def test_reshape_keeps_leading_elements_and_gradient_requests() -> None:
    executor = lowering.simple_bind(dense, grad_req={"x": "add"}, x=(2, 4))
    executor.arg_dict["x"] = np.arange(8).reshape(2, 4)
    small = executor.reshape(x=(1, 4))
    np.testing.assert_array_equal(small.arg_dict["x"], [[0, 1, 2, 3]])
    assert [name for name, grad in small.grad_dict.items() if grad is not None] == ["x"]


def test_reshape_grows_only_when_told() -> None:
    executor = lowering.simple_bind(dense, x=(2, 4))
    with pytest.raises(BindError, match="New shape of arg: x is larger than original.*set allow_up_sizing=True"):
        executor.reshape(x=(3, 4))
    assert executor.reshape(x=(3, 4), allow_up_sizing=True).forward()[0].shape == (3, 3)


def test_reshape_changes_others_only_when_told() -> None:
    executor = lowering.simple_bind(dense, x=(2, 4))
    with pytest.raises(BindError, match="Shape of unspecifie arg: fc_weight changed.*set partial_shaping=True"):
        executor.reshape(x=(2, 3))
    assert executor.reshape(x=(2, 3), partial_shaping=True).arg_dict["fc_weight"].shape == (3, 3)
    with pytest.raises(BindError, match=r"the graph has no \['data'\]"):
        executor.reshape(data=(2, 3))


@pytest.mark.parametrize("keyword", [{"force_rebind": True}, {"shared_buffer": {}}, {"stype_dict": {"x": "csr"}}])
def test_deviation_keywords_that_are_no_shapes_are_errors(keyword: dict[str, Any]) -> None:
    with pytest.raises(BindError, match=next(iter(keyword))):
        lowering.simple_bind(sym.exp(sym.Variable("x")), x=(2, 3), **keyword)


def test_shared_exec_shares_named_arguments_and_states() -> None:
    net = sym.FullyConnected(norm, num_hidden=3, name="fc")
    first = lowering.simple_bind(net, x=(2, 4))
    second = lowering.simple_bind(net, shared_exec=first, shared_arg_names=["fc_weight"], x=(5, 4))
    first.arg_dict["fc_weight"], first.arg_dict["fc_bias"], first.aux_dict["bn_moving_mean"] = 1, 1, 1
    assert second.arg_dict["fc_weight"].all()
    assert second.aux_dict["bn_moving_mean"].all()
    assert not second.arg_dict["fc_bias"].any()
    with pytest.raises(BindError, match=r"do not both have \['bias'\]"):
        lowering.simple_bind(net, shared_exec=first, shared_arg_names=["bias"], x=(2, 4))


# -- devices -----------------------------------------------------------------------------------------------------------


def test_ctx_names_a_device() -> None:
    for ctx in ("cpu", jax.devices("cpu")[0]):
        executor = lowering.simple_bind(dense, ctx, x=(2, 4))
        assert executor.forward(x=np.ones((2, 4)))[0].devices() == {jax.devices("cpu")[0]}


def test_every_ctx_group_needs_a_device() -> None:
    grouped = sym.exp(x, name="e", attr={"ctx_group": "a"})
    with pytest.raises(BindError, match="The device assignment not found for group a"):
        lowering.simple_bind(grouped, group2ctx={"b": "cpu"}, x=(2,))
    assert lowering.simple_bind(grouped, group2ctx={"a": "cpu"}, x=(2,)).forward()
    assert lowering.simple_bind(grouped, x=(2,)).forward()  # without group2ctx groups mean nothing


def test_a_group_needs_a_device_that_is_there() -> None:
    grouped = sym.exp(x, name="e", attr={"ctx_group": "a"})
    with pytest.raises(SymbolValueError, match="There is no device of the platform 'gpu'"):
        lowering.bind(grouped, args=[jnp.ones(2)], group2ctx={"a": "cpu", "b": "gpu"})


def test_mirror_is_a_rule() -> None:
    with pytest.raises(GradientError, match="Unknown way to mirror"):
        lowering.simple_bind(dense, mirror=3, x=(2, 4))
