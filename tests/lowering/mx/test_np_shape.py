"""`mx.np_shape`: sizes and ranks of 0 are known ones, -1 and None unknown. The numbers are MXNet 1.9.1's."""

import json
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowering import mx


@pytest.fixture
def numpy_shapes() -> Iterator[None]:
    with mx.np_shape():
        yield


def _in_another_thread() -> bool:
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(mx.is_np_shape()))
    thread.start()
    thread.join()
    return answers[0]


# -- the switch --------------------------------------------------------------------------------------------------------


def test_a_block_is_on_and_off():
    assert not mx.is_np_shape()
    with mx.np_shape():
        assert mx.is_np_shape()
        with mx.np_shape(False):
            assert not mx.is_np_shape()
        with mx.np_shape(None):
            assert mx.is_np_shape()
    assert not mx.is_np_shape()


def test_an_exception_leaves_the_block():
    with pytest.raises(KeyError), mx.np_shape():
        raise KeyError
    assert not mx.is_np_shape()


def test_the_switch_tells_what_was():
    assert mx.set_np_shape(True) is False
    assert mx.set_np_shape(False) is True
    mx.util.set_np(shape=True, array=False)
    assert mx.is_np_shape()
    mx.util.reset_np()
    assert not mx.is_np_shape()


def test_a_thread_has_its_own():
    with mx.np_shape():
        assert not _in_another_thread()


def test_2_is_for_all_threads():
    mx.set_np_shape(2)
    try:
        assert mx.is_np_shape()
        assert _in_another_thread()
    finally:
        mx.set_np_shape(0)
    assert not mx.is_np_shape()
    assert not _in_another_thread()


def test_a_decorated_function_keeps_its_name():
    @mx.use_np_shape
    def ask() -> bool:
        """Whether it is on."""
        return mx.is_np_shape()

    assert ask()
    assert (ask.__name__, ask.__doc__) == ("ask", "Whether it is on.")
    assert not mx.is_np_shape()


def test_a_decorated_class():
    @mx.use_np_shape
    class Asking:
        def method(self) -> bool:
            return mx.is_np_shape()

        @staticmethod
        def static() -> bool:
            return mx.is_np_shape()

        @classmethod
        def of_class(cls) -> bool:
            return mx.is_np_shape()

        @property
        def known(self) -> bool:
            """Whether it is on."""
            return mx.is_np_shape()

    asking = Asking()
    assert asking.method()
    assert asking.static()
    assert Asking.of_class()
    assert asking.known
    assert Asking.known.__doc__ == "Whether it is on."
    assert not mx.is_np_shape()


def test_a_number_is_not_decorated():
    with pytest.raises(TypeError, match="a class or a function"):
        mx.use_np_shape(3)


# -- shapes of symbols -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0, 3), (2, 3), ()])
@pytest.mark.usefixtures("numpy_shapes")
def test_given_shapes_are_known(shape: tuple[int, ...]):
    assert mx.sym.sin(mx.sym.var("x")).infer_shape(x=shape) == ([shape], [shape], [])
    declared = mx.sym.sin(mx.sym.var("x", shape=shape))
    assert declared.infer_shape() == ([shape], [shape], [])
    assert declared.infer_shape_partial() == ([shape], [shape], [])


@pytest.mark.usefixtures("numpy_shapes")
def test_minus_1_and_none_are_unknown():
    sine = mx.sym.sin(mx.sym.var("x"))
    assert sine.infer_shape_partial() == ([None], [None], [])
    assert sine.infer_shape_partial(x=(-1, 3)) == ([(-1, 3)], [(-1, 3)], [])
    with pytest.warns(UserWarning, match=r"x: \(\?, 3\)"):
        assert sine.infer_shape(x=(-1, 3)) == (None, None, None)


@pytest.mark.usefixtures("numpy_shapes")
def test_what_follows_from_an_empty_batch():
    layer = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=4, name="fc")
    assert layer.infer_shape(x=(0, 3)) == ([(0, 3), (4, 3), (4,)], [(0, 4)], [])


def test_a_declaration_is_read_where_it_is_used():
    variable = mx.sym.var("x", shape=(0, 3))
    assert variable.attr("__shape__") == "(0, 3)"
    assert variable.infer_shape_partial(x=(2, 0))[1] == [(2, 3)]
    with mx.np_shape():
        assert variable.infer_shape()[1] == [(0, 3)]


def test_a_text_says_its_mode():
    with mx.np_shape():
        text = mx.sym.var("x", shape=(0, 3)).tojson()
        assert mx.sym.load_json(text).infer_shape()[1] == [(0, 3)]
    assert json.loads(text)["attrs"] == {"is_np_shape": ["int", 1], "mxnet_version": ["int", 10901]}
    assert "is_np_shape" not in mx.sym.load_json(text).tojson()


def test_classic_text_keeps_its_meaning(tmp_path: Path):
    text = mx.sym.Group([mx.sym.var("a", shape=(0, 3)), mx.sym.var("b")]).tojson()
    file = tmp_path / "x-symbol.json"
    file.write_text(text)
    with mx.np_shape():
        for loaded in (mx.sym.load(str(file)), mx.sym.load_json(text)):
            assert loaded.infer_shape_partial()[1] == [(-1, 3), None]
    assert mx.sym.load(str(file)).infer_shape_partial()[1] == [(0, 3), ()]


# -- arrays ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("numpy_shapes")
def test_one_element_has_no_axes():
    x = mx.nd.array([[0, 1, 2], [3, 4, 5]])
    assert x[1, 2].shape == ()
    assert x[1].shape == (3,)
    assert x[1, 2].asscalar() == 5
    assert x.sum().shape == (1,)
    x[1, 2] = 7
    assert x[1, 2].asscalar() == 7


@pytest.mark.usefixtures("numpy_shapes")
def test_the_gradient_of_one_element():
    x = mx.nd.ones((2, 3))
    x.attach_grad()
    with mx.autograd.record():
        element = x[1, 2]
        tripled = element * 3
    tripled.backward()
    assert element.shape == tripled.shape == ()
    assert x.grad is not None
    assert x.grad.asnumpy().tolist() == [[0, 0, 0], [0, 0, 3]]


def test_outside_one_element_has_an_axis():
    assert mx.nd.ones((2, 3))[1, 2].shape == (1,)


@pytest.mark.parametrize("shape", [(0, 3), ()])
@pytest.mark.usefixtures("numpy_shapes")
def test_executors_over_such_arrays(shape: tuple[int, ...]):
    executor = mx.sym.exp(mx.sym.var("x")).bind(mx.cpu(), {"x": mx.nd.zeros(shape)}, {"x": mx.nd.zeros(shape)})
    (output,) = executor.forward(is_train=True)
    assert output.asnumpy().tolist() == np.ones(shape).tolist()
    executor.backward([mx.nd.ones(shape)])
    gradient = executor.grad_dict["x"]
    assert gradient is not None
    assert gradient.asnumpy().tolist() == np.ones(shape).tolist()


@pytest.mark.parametrize("shape", [(0, 3), (2, 3)])
@pytest.mark.usefixtures("numpy_shapes")
def test_executors_of_such_shapes(shape: tuple[int, ...]):
    layer = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=4, name="fc")
    executor = layer.simple_bind(mx.cpu(), x=shape)
    assert executor.forward()[0].shape == (shape[0], 4)
    executor.backward([mx.nd.ones((shape[0], 4))])
    assert executor.arg_dict["fc_weight"].shape == (4, 3)
    for rows in (0, shape[0]):
        assert executor.reshape(x=(rows, 3)).forward()[0].shape == (rows, 4)


@pytest.mark.usefixtures("numpy_shapes")
def test_an_executor_without_axes():
    assert mx.sym.exp(mx.sym.var("x")).simple_bind(mx.cpu(), x=()).forward()[0].shape == ()


@pytest.mark.usefixtures("numpy_shapes")
def test_an_executor_names_what_is_unknown():
    with pytest.raises(mx.MXNetError, match=r"x: \(-1, 0\),$"):
        mx.sym.exp(mx.sym.var("x")).simple_bind(mx.cpu(), x=(-1, 0))


def _shapes(file: str) -> list[tuple[int, ...]]:
    arrays = mx.nd.load(file)
    assert isinstance(arrays, list)
    return [array.shape for array in arrays]


@pytest.mark.usefixtures("numpy_shapes")
def test_files_of_arrays(tmp_path: Path):
    file, arrays = str(tmp_path / "x.params"), [mx.nd.ones(()), mx.nd.zeros((0, 2)), mx.nd.ones((2,))]
    mx.nd.save(file, arrays)
    records = Path(file).read_bytes()[24:]
    assert struct.unpack("<I", records[:4]) == (0xF993FACA,)  # MXNet's version 3
    assert _shapes(file) == [(), (0, 2), (2,)]
    with mx.np_shape(False):
        assert _shapes(file) == [(), (0, 2), (2,)]
        mx.nd.save(file, arrays)
        assert _shapes(file) == [(1,), (0, 2), (2,)]


# -- Gluon -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.usefixtures("numpy_shapes")
def test_layers_that_wait_for_their_inputs(active: bool, tmp_path: Path):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(3), mx.gluon.nn.Dense(2))
    net.initialize()
    net.hybridize(active)
    assert net[0].weight.shape == (3, -1)
    assert net(mx.nd.ones((4, 5))).shape == (4, 2)
    assert net[0].weight.shape == (3, 5)
    net.save_parameters(str(tmp_path / "x.params"))
    again = mx.gluon.nn.HybridSequential(prefix=net.prefix)
    again.add(mx.gluon.nn.Dense(3), mx.gluon.nn.Dense(2))
    again.load_parameters(str(tmp_path / "x.params"))
    assert again[0].weight.shape == (3, 5)


def test_sizes_that_are_not_known():
    known: Any = mx.gluon.parameter.shape_is_known
    assert [known(shape) for shape in (None, (), (2, 0), (2, 3))] == [False, False, False, True]
    with pytest.raises(mx.MXNetError, match="cannot be less than 0"):
        known((2, -1))
    with mx.np_shape():
        assert [known(shape) for shape in (None, (), (2, 0), (2, 3), (2, -1))] == [False, True, True, True, False]
        with pytest.raises(mx.MXNetError, match="cannot be less than -1"):
            known((2, -2))


def test_deviation_a_size_of_0_is_unknown_in_parameters():
    """MXNet 1.9.1 infers (0, 3) of the first, too."""
    with mx.np_shape():
        assert mx.sym.zeros((0, 3)).infer_shape_partial()[1] == [(-1, 3)]
        assert mx.nd.random.uniform(shape=(0, 3)).shape == (0, 3)
        assert mx.nd.zeros((0, 3)).shape == (0, 3)
